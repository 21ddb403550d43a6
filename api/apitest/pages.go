package apitest

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/commons-cluster/commons/internal/must"
)

// BrowserAccept is what a browser accepts.
const BrowserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// ShownPage is a page as a browser gets it.
type ShownPage struct {
	*Response
	Root *html.Node
}

// Browse gets a page as a browser does.
func Browse(t *testing.T, s *Server, path string, want int) ShownPage {
	t.Helper()
	return Visit(t, s, http.MethodGet, path, "", want, "Accept", BrowserAccept)
}

// Visit sends a request as a browser does, and does not follow redirects. A status of 0 stands for any.
func Visit(t *testing.T, s *Server, method, path, body string, want int, headers ...string) ShownPage {
	t.Helper()
	p := ShownPage{Response: s.Send(s.Request(method, path, body, headers...))}
	if want != 0 {
		p.Must(t, want)
	}
	if strings.HasPrefix(p.Header.Get("Content-Type"), "text/html") {
		p.Root = must.Get(html.Parse(bytes.NewReader(p.Body)))(t)
		p.check(t, path)
	}
	return p
}

// All returns the elements of a name.
func (p ShownPage) All(name string) (found []*html.Node) {
	for n := range p.Root.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			found = append(found, n)
		}
	}
	return found
}

// AttrOf returns an attribute of an element, "" without it.
func AttrOf(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// TextOf returns the visible text of an element.
func TextOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// Words returns the visible text of a page between its header and its footer.
func (p ShownPage) Words() string { return TextOf(p.All("main")[0]) }

// check checks the rules of every page: no resource of another site, no script of others, no
// attribute that runs, headings in order, and names on controls.
func (p ShownPage) check(t *testing.T, path string) {
	t.Helper()
	policy := p.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("%s: Content-Security-Policy %q", path, policy)
	}
	level, ids := 0, map[string]bool{}
	for n := range p.Root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				t.Errorf("%s: <%s %s=%q>", path, n.Data, a.Key, a.Val)
			}
		}
		if id := AttrOf(n, "id"); id != "" {
			if ids[id] {
				t.Errorf("%s: the id %s stands twice", path, id)
			}
			ids[id] = true
		}
		switch n.Data {
		case "script", "link", "img", "iframe", "object", "embed":
			if at := AttrOf(n, "src") + AttrOf(n, "href"); AttrOf(n, "rel") != "canonical" && !strings.HasPrefix(at, "/") || strings.HasPrefix(at, "//") {
				t.Errorf("%s: <%s> of %q", path, n.Data, at)
			}
		case "a":
			if to := AttrOf(n, "href"); !strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "#") && !strings.HasPrefix(to, "http") {
				t.Errorf("%s: a link to %q", path, to)
			} else if strings.HasPrefix(to, "http") && n.Parent.Data != "dd" && !within(n, "document") && AttrOf(n, "rel") != "nofollow ugc noopener" {
				t.Errorf("%s: a link to %q with rel %q", path, to, AttrOf(n, "rel"))
			}
		case "h1", "h2", "h3", "h4":
			next := int(n.Data[1] - '0')
			if next > level+1 && n.Parent.Data != "aside" {
				t.Errorf("%s: <%s> %q behind a heading of level %d", path, n.Data, TextOf(n), level)
			}
			level = next
		}
	}
	Equal(t, path+": headings of the first level", len(p.All("h1")), 1)
	Equal(t, path+": language", AttrOf(p.All("html")[0], "lang"), "en")
}

// within reports whether an element is inside one of a class.
func within(n *html.Node, class string) bool {
	for a := range n.Ancestors() {
		if strings.Contains(AttrOf(a, "class"), class) {
			return true
		}
	}
	return false
}
