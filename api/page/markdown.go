package page

import (
	"bytes"
	"html"
	"html/template"
	"net/url"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	mdtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

const (
	// maxNesting limits the nesting of quotations and lists in a body, and maxGrowth the ratio of
	// its HTML to its text. Beyond them the body is shown as plain text.
	maxNesting = 12
	maxGrowth  = 6
	// growthBase is added to maxGrowth times the length of the text.
	growthBase = 2 << 10
	// maxCells limits the table cells of a body. A row of one byte gets as many cells as the table
	// has columns, and each takes about 200 bytes to render.
	maxCells = 8 << 10
)

// markdown turns Markdown into HTML: a safe subset for texts of strangers, everything but
// HTML for our own documents.
type markdown struct {
	bodies, documents goldmark.Markdown
	policy            *bluemonday.Policy
}

func newMarkdown() *markdown {
	extensions := goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Strikethrough)
	linkify := extension.NewLinkifyParser(extension.WithLinkifyAllowedProtocols([]string{"http", "https"}), extension.WithLinkifyURLRegexp(urlPattern))
	links := goldmark.WithParserOptions(parser.WithInlineParsers(util.Prioritized(linkify, linkPriority), util.Prioritized(innerLinks{linkify}, linkPriority)))
	ours := func(r renderer.NodeRenderer) goldmark.Option {
		return goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(r, 1)))
	}
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("class").Matching(headingClass).OnElements("p")
	p.AllowAttrs("tabindex").Matching(bluemonday.Integer).OnElements("pre", "table")
	p.AllowAttrs("align").Matching(cellAlign).OnElements("th", "td")
	p.AllowAttrs("href").OnElements("a")
	for _, scheme := range []string{"http", "https"} {
		// A link without a host leads to the page itself, or where a browser guesses.
		p.AllowURLSchemeWithCustomPolicy(scheme, func(u *url.URL) bool { return u.Host != "" })
	}
	p.AllowAttrs("rel").OnElements("a")
	p.RequireParseableURLs(true)
	return &markdown{
		bodies:    goldmark.New(extensions, links, ours(blockRenderer{}), ours(bodyRenderer{})),
		documents: goldmark.New(extensions, links, goldmark.WithParserOptions(parser.WithAutoHeadingID()), ours(blockRenderer{})),
		policy:    p,
	}
}

// body returns a text that a stranger wrote, as HTML.
func (m *markdown) body(text string) template.HTML {
	if nesting(text) > maxNesting || cells(text) > maxCells {
		return plain(text)
	}
	source := []byte(text)
	parsed := m.bodies.Parser().Parse(mdtext.NewReader(source))
	if targets(parsed) > maxGrowth*len(text) { // a reference repeats its target wherever it is used
		return plain(text)
	}
	var b bytes.Buffer
	if err := m.bodies.Renderer().Render(&b, source, parsed); err != nil || b.Len() > maxGrowth*len(text)+growthBase {
		return plain(text)
	}
	return template.HTML(m.policy.SanitizeBytes(b.Bytes())) //nolint:gosec // sanitized
}

// targets returns the length of the targets of all links of a text.
func targets(parsed ast.Node) (length int) {
	_ = ast.Walk(parsed, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // fails never
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			length += len(n.Destination)
		case *ast.Image:
			length += len(n.Destination)
		}
		return ast.WalkContinue, nil
	})
	return length
}

// plain returns a text as it is, as HTML.
func plain(text string) template.HTML {
	return template.HTML(`<p class="plain">` + html.EscapeString(text) + `</p>`) //nolint:gosec // escaped
}

// nesting returns an upper bound for the nesting of quotations and lists in a line.
func nesting(text string) (deepest int) {
	for line := range strings.Lines(text) {
		marks := 0
		for i, r := range line {
			if strings.ContainsRune(">-+*", r) && (i == 0 || line[i-1] == ' ' || line[i-1] == '>' || line[i-1] == '\t') ||
				strings.ContainsRune(".)", r) && i > 0 && line[i-1] >= '0' && line[i-1] <= '9' && i+1 < len(line) && strings.IndexByte(" \t\r\n", line[i+1]) >= 0 {
				marks++
			} else if r != ' ' && r != '\t' && (r < '0' || r > '9') && r != '.' && r != ')' && r != '>' {
				break
			}
		}
		// Indentation nests lists, too; a tab is four columns.
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		deepest = max(deepest, marks+(len(indent)+3*strings.Count(indent, "\t"))/4)
	}
	return deepest
}

// cells returns an upper bound for the table cells of a text: the columns of the widest line that
// can begin a table, times the lines of the text.
func cells(text string) int {
	columns, rows := 0, 0
	for line := range strings.Lines(text) {
		rows++
		if strings.ContainsRune(line, '-') && strings.Trim(line, "|-:> \t\r\n\v\f") == "" {
			columns = max(columns, strings.Count(line, "|")+1)
		}
	}
	return columns * rows
}

// document returns a page of our documentation as HTML. anchor returns the anchor of a heading.
func (m *markdown) document(text string, anchor func(string) string) (template.HTML, error) {
	var b bytes.Buffer
	ctx := parser.NewContext(parser.WithIDs(&headingIDs{anchor: anchor}))
	if err := m.documents.Convert([]byte(text), &b, parser.WithContext(ctx)); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil //nolint:gosec // ours, and no HTML of its own
}

// headingIDs are the anchors of a document.
type headingIDs struct{ anchor func(string) string }

func (h *headingIDs) Generate(value []byte, _ ast.NodeKind) []byte {
	return []byte(h.anchor(string(value)))
}
func (h *headingIDs) Put([]byte) {}
