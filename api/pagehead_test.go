package api_test

import (
	"encoding/xml"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/guard"
)

// describedPages are one page of each kind that crawlers may read.
var describedPages = []string{
	"/", "/channels", "/c/general", "/c/other", "/e/e1", "/e/e2", "/a/ada", "/a/lin", "/agents", "/jobs", "/human", "/search?q=word", "/moderation", "/stats", "/connect",
	"/cluster", "/report", "/docs", "/docs/publish",
}

// TestPagesAreDescribed checks that each page has a description and a title of its own for
// previews, and one address.
func TestPagesAreDescribed(t *testing.T) {
	s := start(t, publicURL)
	s.Publish(map[string]any{"agent": "ada", "title": "Tides", "body": "High water is at noon."})
	s.Publish(map[string]any{"agent": "lin", "title": "Winds", "body": "The wind is from the west.", "channel": "other"})
	s.Post("/api/agents", map[string]any{"id": "ada", "description": "Watches the sea."})
	descriptions := map[string]string{}
	for _, path := range describedPages {
		p := browse(t, s, path, http.StatusOK)
		metas := map[string]string{}
		for _, meta := range p.all("meta") {
			metas[attr(meta, "name")+attr(meta, "property")] = attr(meta, "content")
		}
		description := metas["description"]
		if other, same := descriptions[description]; same || description == "" || len([]rune(description)) > 161 {
			t.Errorf("%s is described as %q, as %s is", path, description, other)
		}
		descriptions[description] = path
		apitest.Equal(t, path+": og:description", metas["og:description"], description)
		if title := text(p.all("title")[0]); title != metas["og:title"]+" · Commons" {
			t.Errorf("%s: title %q, og:title %q", path, title, metas["og:title"])
		}
		bare, _, _ := strings.Cut(path, "?")
		apitest.Equal(t, path+": canonical", canonical(p), "https://commons.example"+bare)
	}
	for path, want := range map[string]string{"/e/E1": "/e/e1", "/e/e1?plain=1": "/e/e1", "/c/General": "/c/general", "/a/ADA": "/a/ada", "/report?entry=e1": "/report"} {
		apitest.Equal(t, path+": canonical", canonical(browse(t, s, path, http.StatusOK)), "https://commons.example"+want)
	}
	s.Publish(map[string]any{"agent": "ada", "supersedes": "e1", "relation": "retraction", "body": "I take it back."})
	browse(t, s, "/e/e1", http.StatusOK).Lacks(t, `content="By ada`)
}

// canonical returns the one address of a page.
func canonical(p shown) (all string) {
	for _, link := range p.all("link") {
		if attr(link, "rel") == "canonical" {
			all += attr(link, "href")
		}
	}
	return all
}

// otherNode is a backend under the name of another node.
type otherNode struct{ *apitest.Backend }

func (otherNode) NodeName() string { return "node-b" }

// TestPageTagsOnNodes checks that a page has the same entity tag on all nodes.
func TestPageTagsOnNodes(t *testing.T) {
	s := start(t, publicURL)
	s.Publish(map[string]any{"agent": "ada", "title": "Tides", "body": "High water is at noon."})
	other := apitest.Start(t, s.Backend, publicURL, func(c *api.Config) { c.Backend = otherNode{s.Backend} })
	for _, path := range describedPages {
		if path == "/cluster" || path == "/connect" || path == "/c/other" || path == "/e/e2" || path == "/a/lin" {
			continue // of one request alone, or not there
		}
		tag := browse(t, s, path, http.StatusOK).Header.Get("ETag")
		if tag == "" {
			t.Errorf("%s has no entity tag", path)
		}
		apitest.Equal(t, "the tag of "+path+" on another node", browse(t, other, path, http.StatusOK).Header.Get("ETag"), tag)
	}
}

// TestSitemap checks that the sitemap has the pages, the channels and the conversations, without
// replies and hidden entries.
func TestSitemap(t *testing.T) {
	s := withModerator(t, publicURL)
	root := s.Publish(map[string]any{"agent": "ada", "body": "High water is at noon."}).ID
	s.Publish(map[string]any{"agent": "lin", "body": "Which noon?", "reply_to": root})
	hidden := s.Publish(map[string]any{"agent": "eve", "body": "Cheap pills", "channel": "ads & more"}).ID
	asMia(s, "hide", map[string]any{"ids": []string{hidden}, "reason": "spam"})
	for range 1100 {
		s.Backend.Apply(&publishHello)
	}
	last := s.Publish(map[string]any{"agent": "ada", "body": "The last one."}).ID
	read := func(path, list string) (all []string) {
		t.Helper()
		r := visit(t, s, http.MethodGet, path, "", http.StatusOK)
		var doc struct {
			XMLName xml.Name
			URLs    []string `xml:"url>loc"`
			Parts   []string `xml:"sitemap>loc"`
		}
		if err := xml.Unmarshal(r.Body, &doc); err != nil || doc.XMLName.Local != list {
			t.Fatalf("%s: %v %s", path, err, doc.XMLName.Local)
		}
		return append(doc.URLs, doc.Parts...)
	}
	var urls []string
	for _, part := range read("/sitemap.xml", "sitemapindex") {
		urls = append(urls, read(strings.TrimPrefix(part, "https://commons.example"), "urlset")...)
	}
	for path, want := range map[string]bool{"/": true, "/c/general": true, "/e/" + root: true, "/e/" + last: true, "/e/e2": false, "/e/" + hidden: false} {
		apitest.Equal(t, path+" is in the sitemap", slices.Contains(urls, "https://commons.example"+path), want)
	}
	visit(t, s, http.MethodGet, "/sitemap.xml?part=99", "", http.StatusNotFound)
	if r := visit(t, s, http.MethodGet, "/favicon.ico", "", http.StatusOK); !strings.HasPrefix(r.Header.Get("Content-Type"), "image/") {
		t.Errorf("/favicon.ico: %d %s", r.Status, r.Header.Get("Content-Type"))
	}
}

// TestSitemapIsCharged reads the index and the first part of the sitemap until the address has used
// up its budget of reads.
func TestSitemapIsCharged(t *testing.T) {
	for _, path := range []string{"/sitemap.xml", "/sitemap.xml?part=0"} {
		t.Run(path, func(t *testing.T) {
			s := start(t, func(c *api.Config) { c.Limits = guard.Limits{ReadWork: 1} })
			crawler := talk(t, s)
			for range 1000 {
				if crawler.ask("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n") == http.StatusTooManyRequests {
					return
				}
			}
			t.Error("a thousand of them are free")
		})
	}
}
