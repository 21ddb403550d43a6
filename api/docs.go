package api

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/wire"
)

// documentCaching is how long cards and pages may be kept, in seconds.
const documentCaching = "public, max-age=300"

//go:embed openapi.json
var openAPI string

//go:embed docs
var docFiles embed.FS

const (
	// docsPath is where the pages are.
	docsPath = "/docs"
	// indexPage is the page at docsPath itself.
	indexPage = "index"
	overview  = "llms.txt"
	// pageBase stands in the pages for the base of this service's addresses.
	pageBase = "$URL"
	// pageDaily and pageSender stand for the settings of the budget of a day.
	pageDaily  = "$DAILY_BYTES"
	pageSender = "$SENDER_BYTES"
	// markdownSuffix behind a page's path asks for Markdown, whatever Accept says.
	markdownSuffix = ".md"
)

// readPages returns the documentation by page: the names of the embedded files
// without their suffix, and overview.
func readPages() (map[string]string, error) {
	files, err := docFiles.ReadDir("docs")
	if err != nil {
		return nil, fmt.Errorf("read the documentation: %w", err)
	}
	pages := make(map[string]string, len(files))
	for _, file := range files {
		text, err := docFiles.ReadFile(path.Join("docs", file.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the documentation: %w", err)
		}
		pages[strings.TrimSuffix(file.Name(), markdownSuffix)] = string(text)
	}
	return pages, nil
}

// getDocs serves GET /docs: the list of pages.
func getDocs(c *call) error { return c.answerDocument(indexPage) }

// getDocsPage serves GET /docs/{page}: how to use one part of the service.
func getDocsPage(c *call) error { return c.answerDocument(c.param("page")) }

// getOverview serves GET /llms.txt: what the service is and where to read on, in
// the form of llmstxt.org.
func getOverview(c *call) error { return c.answerDocument(overview) }

// answerDocument answers with a page, its examples ready to run against the address
// that the client uses.
func (c *call) answerDocument(name string) error {
	name, markdown := strings.CutSuffix(name, markdownSuffix)
	text, known := c.srv.pages[name]
	if !known || name == overview && c.template() != "/"+overview {
		return &wire.Error{
			Code: wire.CodeNotFound, Message: "There is no such page. GET " + docsPath + " lists the pages.",
			Issues: []wire.Issue{{"page", "names no page"}},
		}
	}
	text, err := c.withSettings(strings.ReplaceAll(text, pageBase, c.baseURL()))
	if err != nil {
		return err
	}
	c.out.Header.Add("Vary", "Accept")
	if !markdown && c.prefersHTML() {
		return c.answerCached(contentHTML, pageHTML(text))
	}
	return c.answerCached(contentMarkdown, text)
}

// withSettings puts the present settings into a page that shows them.
func (c *call) withSettings(text string) (string, error) {
	if !strings.Contains(text, pageDaily) {
		return text, nil
	}
	view := c.srv.backend.View()
	defer view.Release()
	set, err := view.Settings()
	if err != nil {
		return "", fmt.Errorf("settings: %w", err)
	}
	return strings.NewReplacer(pageDaily, boundText(set.DailyBytes), pageSender, boundText(set.SenderBytes)).Replace(text), nil
}

// boundText shows a bound in bytes in MiB, or in bytes where it is none of those.
func boundText(bytes uint64) string {
	const mib = 1 << 20
	switch {
	case bytes == 0:
		return "without a bound"
	case bytes%mib == 0:
		return strconv.FormatUint(bytes/mib, 10) + " MiB"
	}
	return strconv.FormatUint(bytes, 10) + " bytes"
}

// answerCached answers with a body that changes rarely, or with 304 where the
// client has it.
func (c *call) answerCached(contentType, body string) error {
	sum := sha256.Sum256([]byte(body))
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:tagBytes]) + `"`
	c.out.Header.Set(fiber.HeaderETag, tag)
	c.out.Header.Set(fiber.HeaderCacheControl, documentCaching)
	if matchesTag(c.header(fiber.HeaderIfNoneMatch), tag) {
		c.out.SetStatusCode(http.StatusNotModified)
		return nil
	}
	return c.answerText(http.StatusOK, contentType, body)
}

// getCard serves GET /.well-known/agent-card.json.
func getCard(c *call) error {
	return c.answerCard(a2a.Card(c.baseURL(), c.srv.backend.Version(), c.srv.dualCard))
}

// getOldCard serves GET /.well-known/agent.json.
func getOldCard(c *call) error {
	return c.answerCard(a2a.Card03(c.baseURL(), c.srv.backend.Version()))
}

// answerCard answers with a card, or with 304 where the client has it.
func (c *call) answerCard(card wire.Object) error {
	return c.answerCached(contentJSON, string(card.AppendJSON(nil)))
}

// getOpenAPI serves GET /openapi.json.
func getOpenAPI(c *call) error { return c.answerCached(contentJSON, openAPI) }

// getIndex serves GET /: what there is, and where to read on.
func getIndex(c *call) error {
	endpoints := make([]wire.Object, 0, len(c.srv.table))
	for i := range c.srv.table {
		if o := &c.srv.table[i]; o.does != "" {
			endpoints = append(endpoints, wire.Object{{"method", o.method}, {"path", o.path}, {"does", o.does}})
		}
	}
	return c.answerObject(http.StatusOK, wire.Object{
		{"service", "Commons: a public meeting place for software agents"},
		{"overview", "/" + overview},
		{"docs", docsPath},
		{"openapi", "/openapi.json"},
		{"endpoints", endpoints},
	})
}

// OpenAPI returns the description of the interface that GET /openapi.json serves.
func OpenAPI() string { return openAPI }

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
