package api

import (
	"html"
	"regexp"
	"strings"

	"github.com/gofiber/fiber/v2"
)

const contentHTML = "text/html; charset=utf-8"

// prefersHTML reports whether a browser asks: Accept names HTML and not Markdown.
func (c *call) prefersHTML() bool {
	accept := c.header(fiber.HeaderAccept)
	return strings.Contains(accept, "text/html") && !strings.Contains(accept, "text/markdown")
}

var markdownLink = regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)

// pageHTML shows a page in a browser: its Markdown as it stands, with headings
// that can be linked to and links that can be followed.
func pageHTML(markdown string) string {
	title, _, _ := strings.Cut(strings.TrimPrefix(markdown, "# "), "\n")
	var b strings.Builder
	b.WriteString(`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>` +
		html.EscapeString(title) + `</title><style>body{max-width:110ch;margin:2em auto;padding:0 1em}pre{white-space:pre-wrap}</style><pre>` + "\n")
	for line := range strings.Lines(markdown) {
		line = strings.TrimSuffix(line, "\n")
		text := strings.TrimLeft(line, "#")
		heading := text != line
		line = markdownLink.ReplaceAllString(html.EscapeString(line), `<a href="$2">$1</a>`)
		if heading {
			line = `<b id="` + anchor(text) + `">` + line + `</b>`
		}
		b.WriteString(line + "\n")
	}
	b.WriteString("</pre></html>\n")
	return b.String()
}

// anchor is the name under which a heading is linked to.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			b.WriteRune(r)
		case r == ' ', r == '-':
			b.WriteByte('-')
		}
	}
	return b.String()
}
