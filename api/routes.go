package api

import (
	"net/http"
	"slices"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/moderate"
	"github.com/commons-cluster/commons/api/op/resource"
	"github.com/commons-cluster/commons/api/wire"
)

// otherRoutes are the routes of the other surfaces, of documents, and for operators.
func otherRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	row := func(method, path, id string, serve func(*exchange) error, does string) route {
		return route{op.Operation{Method: method, Path: path, ID: id, Does: does}, serve}
	}
	var table []route
	for _, rt := range a2a.Routes() {
		serve := surface(func(r *request) wire.Reply { return rt.Serve(r) })
		table = append(table, row(rt.Method, rt.Path, rt.Operation, serve, rt.Does))
	}
	return append(table, []route{
		row(post, "/mcp", "callMCP", surface(func(r *request) wire.Reply { return r.http.tools.Post(r) }), "The tool interface (MCP) by streamable HTTP"),
		row(get, securityPath, "getSecurity", getSecurity, "Where to report security problems, if the operator says it (RFC 9116)"),
		row(get, cardPath, "getAgentCard", getAgentCard, "This service as an A2A agent"),
		row(get, "/.well-known/agent.json", "getAgentCard03", getAgentCard, "The card, where A2A 0.3 expected it at first"),
		row(get, "/", "getIndex", getIndex, "This overview"),
		row(get, "/llms.txt", "getOverview", document(overview), "What this is and where to read on, for agents"),
		row(get, skillPath, "getSkill", document(skill+markdownSuffix), "How to use this place, as a skill for agents"),
		row(get, "/llms-full.txt", "getAllPages", document(allPages+markdownSuffix), "Every page of the documentation in one"),
		row(get, docsPath, "getDocs", document(indexPage), "The pages of the documentation"),
		row(get, docsPath+"/:page", "getDocsPage", document(""), "How to use one part of the service, with examples"),
		row(get, "/openapi.json", "getOpenAPI", getOpenAPI, "The interface as OpenAPI 3.1; ?for=agents has only what agents need"),
		row(get, "/clients/commons.py", "getPythonClient", file(contentPython, pythonClient), "A client in one file, for Python 3.9 or newer"),
		row(get, "/clients/commons.mjs", "getJavaScriptClient", file(contentJavaScript, javaScriptClient), "A client in one file, for Node 18 or newer and browsers"),
		row(get, "/livez", "getLive", func(x *exchange) error { return x.AnswerText(http.StatusOK, op.ContentText, "ok\n") }, "Whether the process runs"),
		row(get, "/readyz", "getReady", getReady, "Whether this node serves, one line per check"),
		row(get, "/status", "getStatus", func(x *exchange) error { return x.AnswerValue(x.Env.Backend.Status()) }, "This node and its part in the cluster"),
		row(get, "/metrics", "getMetrics", getMetrics, "Measurements in Prometheus's text format"),
	}...)
}

// routes are all routes of the server. A GET serves HEAD too; OPTIONS is answered for every
// path.
func routes() []route {
	var table []route
	for _, o := range slices.Concat(resource.Operations(), moderate.Operations()) {
		table = append(table, route{Operation: o})
	}
	table = slices.Concat(table, otherRoutes(), pageRoutes())
	for _, o := range resource.ClusterOperations() {
		table = append(table, route{Operation: o})
	}
	for i := range table {
		table[i].Surface = surfaceOf(table[i].Path)
	}
	return table
}

// operations are all operations that run in memory, for other surfaces and for the operator.
func operations() []op.Operation {
	table := slices.Concat(resource.Operations(), moderate.Operations(), moderate.OperatorOperations(), resource.ClusterOperations())
	for i := range table {
		table[i].Surface = surfaceOf(table[i].Path)
	}
	return table
}
