package read_test

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
)

// atomDoc is an Atom feed as a reader takes it apart.
type atomDoc struct {
	XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string   `xml:"id"`
	Title   string   `xml:"title"`
	Updated string   `xml:"updated"`
	Links   []struct {
		Rel  string `xml:"rel,attr"`
		Href string `xml:"href,attr"`
	} `xml:"link"`
	Entries []struct {
		ID         string   `xml:"id"`
		Title      string   `xml:"title"`
		Content    string   `xml:"content"`
		Updated    string   `xml:"updated"`
		Published  string   `xml:"published"`
		Author     string   `xml:"author>name"`
		AuthorURI  string   `xml:"author>uri"`
		Categories []string `xml:"category"`
		Links      []struct {
			Rel  string `xml:"rel,attr"`
			Href string `xml:"href,attr"`
		} `xml:"link"`
	} `xml:"entry"`
}

// TestFeedsGolden compares whole feeds.
func TestFeedsGolden(t *testing.T) {
	s := apitest.New(t, apitest.PublicURL)
	s.Publish(map[string]any{"body": "Hello <b>all</b> & \"you\" ]]>\nTwo lines.", "agent": "ada", "title": "A <title> & more", "tags": []string{"sea"}})
	s.Publish(map[string]any{"body": "Cheap pills.", "agent": "eve"})
	s.Post("/api/jobs", map[string]any{"action": "post", "agent": "ada", "title": "A job", "body": "Do it."})
	s.Post("/api/human-requests", map[string]any{"agent": "ada", "goal": "A goal", "requested_action": "Do it."})
	s.Backend.Apply(&command.Hide{Order: command.Order{By: command.Operator, Reason: "spam"}, IDs: []string{"e2"}})
	for _, test := range []struct{ name, path string }{
		{"feed_atom", "/api/entries?format=atom&channel=general"},
		{"feed_search", "/api/entries?format=atom&limit=1&channel=General&q=hello"},
		{"feed_jobs", "/api/jobs?format=atom"},
		{"feed_human", "/api/human-requests?format=atom&agent=ada"},
		{"feed_none", "/api/entries?format=atom&agent=nobody"},
		{"feed_problems", "/api/entries?format=rss&limit=2"},
	} {
		apitest.CheckGolden(t, s, test.name, http.MethodGet, test.path, "", "")
	}
}

var urn = regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// TestFeeds reads feeds as readers do: valid, escaped, paged, and unchanged until there
// is something new.
func TestFeeds(t *testing.T) {
	s := apitest.New(t, apitest.PublicURL)
	hostile := "</content><script>alert(1)</script> & ]]> \u2028 \uffff end"
	s.Publish(map[string]any{"body": hostile, "agent": "a<b>&c", "title": hostile, "channel": "den"})
	for range 4 {
		s.Publish(map[string]any{"body": "Hello, all.", "agent": "ada", "channel": "den", "reply_to": "e1"})
	}
	ids := map[string]bool{}
	next, pages := "/api/entries?format=atom&limit=2&channel=den", 0
	var first atomDoc
	for ; next != ""; pages++ {
		r := s.Get(next)
		var doc atomDoc
		if err := xml.Unmarshal(r.Body, &doc); err != nil || !urn.MatchString(doc.ID) || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/atom+xml") {
			t.Fatalf("%v: %s", err, r.Body)
		}
		if pages == 0 {
			first = doc
		}
		next = ""
		for _, link := range doc.Links {
			if link.Rel == "next" {
				next = strings.TrimPrefix(link.Href, "https://commons.example")
			}
		}
		if doc.ID != first.ID || doc.Updated != doc.Entries[0].Updated || len(doc.Links) < 2 {
			t.Errorf("%s", r.Body)
		}
		for _, e := range doc.Entries {
			if _, err := time.Parse(time.RFC3339, e.Updated); err != nil || !urn.MatchString(e.ID) || ids[e.ID] || e.Author == "" || len(e.Links) != 2 {
				t.Errorf("an entry is %+v", e)
			}
			ids[e.ID] = true
			if u, err := url.Parse(e.AuthorURI); err != nil || u.Host != "commons.example" || !strings.HasPrefix(e.Links[0].Href, "https://commons.example/e/") {
				t.Errorf("the author or the page of an entry is elsewhere: %+v", e)
			}
			if strings.Contains(e.Content, "script") && (e.Content != strings.ReplaceAll(hostile, "\uffff", "\ufffd") || e.Author == "ada") {
				t.Errorf("the hostile one is %+v", e)
			}
		}
	}
	if pages != 3 || len(ids) != 5 {
		t.Errorf("%d entries on %d pages", len(ids), pages)
	}
	for _, query := range []string{"thread=e1", "agent=ada", "q=hello", "channel=den", "for=ada"} {
		path := "/api/entries?" + query + "&format=atom"
		r := s.Get(path)
		tag := r.Header.Get("ETag")
		if again := s.Get(path, "If-None-Match", tag); r.Status != http.StatusOK || tag == "" || again.Status != http.StatusNotModified {
			t.Errorf("%s: %d, then %d with %q", path, r.Status, again.Status, tag)
		}
		s.Publish(map[string]any{"body": "Hello, @ada once more.", "agent": "bob", "channel": "den", "reply_to": "e1"})
		s.Publish(map[string]any{"body": "Hello from Ada.", "agent": "ada", "channel": "hall"})
		s.Get(path, "If-None-Match", tag).Want(t, http.StatusOK)
	}
}

// TestFeedsFollowTheirRules holds feeds of every list against what RFC 4287 requires of any feed.
func TestFeedsFollowTheirRules(t *testing.T) {
	s := apitest.New(t, apitest.PublicURL)
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
		checkAtom(t, path, s.Get(path+"&format=atom"))
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
