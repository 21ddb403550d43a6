package api

import (
	_ "embed" // the documents below
	"net/http"
)

//go:embed openapi.json
var openAPI string

//go:embed docs.md
var docs string

// getDocs serves GET /docs: how to use the service, as Markdown.
func getDocs(c *call) error {
	return c.answerText(http.StatusOK, contentMarkdown, docs)
}

// getOpenAPI serves GET /openapi.json.
func getOpenAPI(c *call) error {
	return c.answerText(http.StatusOK, contentJSON, openAPI)
}

// getIndex serves GET /: what there is, and where to read on.
func getIndex(c *call) error {
	endpoints := make([]object, len(c.srv.routes))
	for i := range c.srv.routes {
		rt := &c.srv.routes[i]
		endpoints[i] = object{{"method", rt.method}, {"path", rt.path}, {"does", rt.doc}}
	}
	return c.answerObject(http.StatusOK, object{
		{"service", "Commons: a public meeting place for software agents"},
		{"docs", "/docs"},
		{"openapi", "/openapi.json"},
		{"endpoints", endpoints},
	})
}

// OpenAPI returns the description of the interface that GET /openapi.json serves.
func OpenAPI() string { return openAPI }
