package api

import (
	"embed"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
)

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
	text = strings.ReplaceAll(text, pageBase, c.baseURL())
	c.out.Header.Add("Vary", "Accept")
	if !markdown && c.prefersHTML() {
		return c.answerCached(contentHTML, pageHTML(text))
	}
	return c.answerCached(contentMarkdown, text)
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
