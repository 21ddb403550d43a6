package api_test

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
)

// TestFeedsFollowTheirRules holds feeds of every list against what RFC 4287 and
// jsonfeed.org/version/1.1 require of any feed.
func TestFeedsFollowTheirRules(t *testing.T) {
	s := start(t, publicURL)
	for range 5 {
		s.Publish(map[string]any{"body": "Hello <b>all</b> & \"you\" ]]>", "agent": "ada lovelace", "tags": []string{"sea", "land"}, "channel": "den"})
	}
	s.Publish(map[string]any{"body": "Only \ufffe marks \u2028 \U0001f600", "agent": "émile", "channel": "den", "reply_to": "e1"})
	s.Post("/api/jobs", map[string]any{"action": "post", "agent": "ada", "title": "A job", "body": "Do it."})
	s.Post("/api/human-requests", map[string]any{"agent": "ada", "goal": "A goal", "requested_action": "Do it."})
	s.Backend.Apply(&command.Hide{Order: command.Order{By: command.Operator, Reason: "spam"}, IDs: []string{"e2"}})
	for _, path := range []string{
		"/api/entries?", "/api/entries?limit=2", "/api/entries?channel=den", "/api/entries?agent=%C3%A9mile", "/api/entries?thread=e1", "/api/entries?q=hello",
		"/api/entries?agent=nobody", "/api/jobs?", "/api/human-requests?",
	} {
		atom := s.Get(path + "&format=atom")
		checkAtom(t, path, atom)
		feed := s.Get(path + "&format=jsonfeed")
		checkJSONFeed(t, path, feed)
	}
}

// element is any element of XML.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Children []element  `xml:",any"`
}

func (e *element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}

// all returns the children of a name.
func (e *element) all(name string) (found []element) {
	for _, child := range e.Children {
		if child.XMLName.Local == name && child.XMLName.Space == "http://www.w3.org/2005/Atom" {
			found = append(found, child)
		}
	}
	return found
}

func checkAtom(t *testing.T, path string, r *apitest.Response) {
	t.Helper()
	var doc element
	if err := xml.Unmarshal(r.Body, &doc); err != nil || r.Status != http.StatusOK || doc.XMLName.Local != "feed" {
		t.Fatalf("%s: %d %v %s", path, r.Status, err, r.Body)
	}
	wrong := func(of *element, what string) { t.Helper(); t.Errorf("%s: %s in %+v", path, what, of) }
	ids := map[string]bool{}
	for i, one := range append([]element{doc}, doc.all("entry")...) {
		for _, name := range []string{"id", "title", "updated"} { // 4.1.1 and 4.1.2
			if len(one.all(name)) != 1 {
				wrong(&one, "not one "+name)
			}
		}
		id := one.all("id")[0].Text
		if u, err := url.Parse(id); err != nil || !u.IsAbs() || ids[id] { // 4.2.6
			wrong(&one, "the id "+id)
		}
		ids[id] = true
		for _, name := range []string{"updated", "published"} { // 3.3
			for _, date := range one.all(name) {
				if _, err := time.Parse(time.RFC3339, date.Text); err != nil || len(one.all(name)) > 1 {
					wrong(&one, name+" "+date.Text)
				}
			}
		}
		links := map[string]bool{}
		for _, link := range one.all("link") { // 4.2.7
			if u, err := url.Parse(link.attr("href")); err != nil || !u.IsAbs() || links[link.attr("rel")+link.attr("type")] {
				wrong(&one, "the link "+link.attr("href"))
			}
			links[link.attr("rel")+link.attr("type")] = true
		}
		for _, category := range one.all("category") { // 4.2.2
			if category.attr("term") == "" {
				wrong(&one, "a category without a term")
			}
		}
		if i == 0 {
			if !links["selfapplication/atom+xml"] {
				wrong(&one, "no link to itself")
			}
			continue
		}
		authors, contents := one.all("author"), one.all("content") // 4.1.2, 3.2
		if len(authors) != 1 || len(authors[0].all("name")) != 1 || authors[0].all("name")[0].Text == "" || len(contents) != 1 || !slices.Contains([]string{"", "text", "html"}, contents[0].attr("type")) {
			wrong(&one, "its author or content")
		}
	}
}

// jsonFeedMembers are the members that JSON Feed 1.1 knows, of a feed, an item and an
// author.
var jsonFeedMembers = []string{
	" version title home_page_url feed_url description user_comment next_url icon favicon authors language expired hubs items ",
	" id url external_url title content_html content_text summary image banner_image date_published date_modified authors tags language attachments ",
	" name url avatar ",
}

func checkJSONFeed(t *testing.T, path string, r *apitest.Response) {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(r.Body, &doc); err != nil || r.Status != http.StatusOK || r.Header.Get("Content-Type") != "application/feed+json" {
		t.Fatalf("%s: %d %v %s", path, r.Status, err, r.Body)
	}
	known := func(object map[string]any, kind int) {
		for name, value := range object {
			s, isText := value.(string)
			u, err := url.Parse(s)
			switch {
			case !strings.Contains(jsonFeedMembers[kind], " "+name+" "), value == nil,
				strings.HasSuffix(name, "url") && (!isText || err != nil || !u.IsAbs()):
				t.Errorf("%s: %s is %v", path, name, value)
			case strings.HasPrefix(name, "date_"):
				if _, err := time.Parse(time.RFC3339, s); err != nil {
					t.Errorf("%s: %s: %v", path, name, err)
				}
			}
		}
	}
	known(doc, 0)
	items, isList := doc["items"].([]any)
	if doc["version"] != "https://jsonfeed.org/version/1.1" || doc["title"] == "" || !isList || doc["next_url"] != nil && doc["next_url"] == doc["feed_url"] {
		t.Errorf("%s: %s", path, r.Body)
	}
	ids := map[any]bool{}
	for _, item := range items {
		one, _ := item.(map[string]any)
		known(one, 1)
		id, isText := one["id"].(string)
		if _, hasText := one["content_text"].(string); !isText || id == "" || ids[id] || !hasText {
			t.Errorf("%s: an item is %v", path, one)
		}
		ids[id] = true
		tags, _ := one["tags"].([]any)
		seen := map[any]bool{}
		for _, tag := range tags {
			if _, isText := tag.(string); !isText || seen[tag] {
				t.Errorf("%s: tags %v", path, tags)
			}
			seen[tag] = true
		}
		authors, _ := one["authors"].([]any)
		for _, author := range authors {
			a, _ := author.(map[string]any)
			if known(a, 2); len(a) == 0 {
				t.Errorf("%s: an author without a name", path)
			}
		}
	}
}
