package page

import (
	"html"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// headingClass is the class of a heading in a body: strangers must not change the page's
// own outline.
var headingClass = regexp.MustCompile(`^h[1-6]$`)

// cellAlign is the alignment of a column.
var cellAlign = regexp.MustCompile(`^(left|center|right)$`)

// bodyRenderer shows what strangers write differently from our documents: headings as
// paragraphs, images as links, HTML as it was typed.
type bodyRenderer struct{}

func (bodyRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		heading, _ := n.(*ast.Heading)
		if entering {
			_, _ = w.WriteString(`<p class="h` + string(rune('0'+heading.Level)) + `">`)
		} else {
			_, _ = w.WriteString("</p>\n")
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindLink, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		link, _ := n.(*ast.Link)
		writeLink(w, link.Destination, entering)
		writeTarget(w, source, n, link.Destination, entering)
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindImage, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		image, _ := n.(*ast.Image)
		writeLink(w, image.Destination, entering)
		writeTarget(w, source, n, image.Destination, entering)
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindAutoLink, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, _ := n.(*ast.AutoLink); entering {
			writeLink(w, link.URL(source), true)
			_, _ = w.Write(util.EscapeHTML(link.Label(source)))
			writeLink(w, link.URL(source), false)
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if raw, _ := n.(*ast.RawHTML); entering {
			_, _ = w.Write(util.EscapeHTML(raw.Segments.Value(source)))
		}
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		block, _ := n.(*ast.HTMLBlock)
		if entering {
			_, _ = w.WriteString("<p>")
			_, _ = w.Write(util.EscapeHTML(block.Lines().Value(source)))
			if block.HasClosure() {
				_, _ = w.Write(util.EscapeHTML(block.ClosureLine.Value(source)))
			}
			_, _ = w.WriteString("</p>\n")
		}
		return ast.WalkContinue, nil
	})
}

// writeLink begins or ends a link that a stranger wrote; only http and https become
// links, and no write by GET.
func writeLink(w util.BufWriter, to []byte, entering bool) {
	target := strings.ToLower(string(to))
	switch {
	case !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://") || writesByGet(to):
	case entering:
		_, _ = w.WriteString(`<a rel="nofollow ugc noopener" href="`)
		_, _ = w.Write(util.EscapeHTML(util.URLEscape(to, true)))
		_, _ = w.WriteString(`">`)
	default:
		_, _ = w.WriteString("</a>")
	}
}

// writesByGet reports whether a link may publish an entry, here or on another server of this kind.
func writesByGet(to []byte) bool {
	target, err := url.Parse(string(util.URLEscape(to, true)))
	if err != nil {
		return true
	}
	if !strings.HasSuffix(strings.ToLower(path.Clean(target.Path)), "/api/entries") {
		return false
	}
	query, err := url.ParseQuery(target.RawQuery)
	return err != nil || query.Has("action")
}

// writeTarget writes the host of a link behind it if its text looks like another address.
func writeTarget(w util.BufWriter, source []byte, n ast.Node, to []byte, entering bool) {
	if entering {
		return
	}
	target, err := url.Parse(string(to))
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return
	}
	var text strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // fails never
		switch t := n.(type) {
		case *ast.Text:
			if entering {
				text.Write(t.Segment.Value(source))
			}
		case *ast.String:
			if entering {
				text.Write(t.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	for word := range strings.FieldsSeq(html.UnescapeString(text.String())) {
		word = strings.Trim(word, ".,:;!?()[]<>\"'")
		if strings.ContainsAny(word, ".:") && !sameHost(word, target) {
			_, _ = w.Write(util.EscapeHTML([]byte(" (" + target.Host + ")")))
			return
		}
	}
}

// sameHost reports whether a word is an address with the host of a URL.
func sameHost(word string, target *url.URL) bool {
	if !strings.Contains(word, "://") {
		word = "https://" + word
	}
	at, err := url.Parse(word)
	bare := func(host string) string { return strings.TrimPrefix(strings.ToLower(host), "www.") }
	return err == nil && bare(at.Host) == bare(target.Host)
}

// blockRenderer shows code and tables so that people without a mouse can scroll them.
type blockRenderer struct{}

func (blockRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	code := func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			_, _ = w.WriteString("</code></pre>\n")
			return ast.WalkContinue, nil
		}
		_, _ = w.WriteString(`<pre tabindex="0"><code>`)
		_, _ = w.Write(util.EscapeHTML(n.Lines().Value(source)))
		return ast.WalkContinue, nil
	}
	r.Register(ast.KindCodeBlock, code)
	r.Register(ast.KindFencedCodeBlock, code)
	r.Register(east.KindTable, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = w.WriteString("<table tabindex=\"0\">\n")
		} else {
			_, _ = w.WriteString("</table>\n")
		}
		return ast.WalkContinue, nil
	})
}
