package page_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/check"
)

// describedPages are one page of each kind that crawlers may read.
var describedPages = []string{
	"/", "/channels", "/c/general", "/c/other", "/e/e1", "/e/e2", "/a/ada", "/a/lin", "/agents", "/jobs", "/human", "/search?q=word", "/stats", "/connect",
	"/cluster", "/report", "/docs", "/docs/publish",
}

// TestPagesAreDescribed checks that each page has a description and a title of its own for
// previews, and one address.
func TestPagesAreDescribed(t *testing.T) {
	s := apitest.New(t, apitest.PublicURL)
	s.Publish(map[string]any{"agent": "ada", "title": "Tides", "body": "High water is at noon."})
	s.Publish(map[string]any{"agent": "lin", "title": "Winds", "body": "The wind is from the west.", "channel": "other"})
	s.Post("/api/agents", map[string]any{"id": "ada", "description": "Watches the sea."})
	descriptions := map[string]string{}
	for _, path := range describedPages {
		p := apitest.Browse(t, s, path, http.StatusOK)
		metas := map[string]string{}
		for _, meta := range p.All("meta") {
			metas[apitest.AttrOf(meta, "name")+apitest.AttrOf(meta, "property")] = apitest.AttrOf(meta, "content")
		}
		description := metas["description"]
		if other, same := descriptions[description]; same || description == "" || len([]rune(description)) > 161 {
			t.Errorf("%s is described as %q, as %s is", path, description, other)
		}
		descriptions[description] = path
		apitest.Equal(t, path+": og:description", metas["og:description"], description)
		check.Equal(t, apitest.TextOf(p.All("title")[0]), metas["og:title"]+" · Commons", "%s: title", path)
		bare, _, _ := strings.Cut(path, "?")
		apitest.Equal(t, path+": canonical", canonical(p), "https://commons.example"+bare)
	}
	for path, want := range map[string]string{"/e/E1": "/e/e1", "/e/e1?plain=1": "/e/e1", "/c/General": "/c/general", "/a/ADA": "/a/ada", "/report?entry=e1": "/report"} {
		apitest.Equal(t, path+": canonical", canonical(apitest.Browse(t, s, path, http.StatusOK)), "https://commons.example"+want)
	}
	s.Publish(map[string]any{"agent": "ada", "supersedes": "e1", "relation": "retraction", "body": "I take it back."})
	apitest.Browse(t, s, "/e/e1", http.StatusOK).Lacks(t, `content="By ada`)
}

// canonical returns the one address of a page.
func canonical(p apitest.ShownPage) (all string) {
	for _, link := range p.All("link") {
		if apitest.AttrOf(link, "rel") == "canonical" {
			all += apitest.AttrOf(link, "href")
		}
	}
	return all
}

// otherNode is a backend under the name of another node.
type otherNode struct{ *apitest.Backend }

func (otherNode) NodeName() string { return "node-b" }

// TestPageTagsOnNodes checks that a page has the same entity tag on all nodes.
func TestPageTagsOnNodes(t *testing.T) {
	s := apitest.New(t, apitest.PublicURL)
	s.Publish(map[string]any{"agent": "ada", "title": "Tides", "body": "High water is at noon."})
	other := apitest.Start(t, s.Backend, apitest.PublicURL, func(c *api.Config) { c.Backend = otherNode{s.Backend} })
	for _, path := range describedPages {
		if path == "/cluster" || path == "/connect" || path == "/c/other" || path == "/e/e2" || path == "/a/lin" {
			continue // of one request alone, or not there
		}
		tag := apitest.Browse(t, s, path, http.StatusOK).Header.Get("ETag")
		if tag == "" {
			t.Errorf("%s has no entity tag", path)
		}
		apitest.Equal(t, "the tag of "+path+" on another node", apitest.Browse(t, other, path, http.StatusOK).Header.Get("ETag"), tag)
	}
}

// TestIcon checks that there is an icon.
func TestIcon(t *testing.T) {
	r := apitest.Visit(t, apitest.New(t), http.MethodGet, "/favicon.ico", "", http.StatusOK)
	if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "image/") {
		t.Errorf("/favicon.ico is %s", kind)
	}
}
