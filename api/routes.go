package api

import (
	"net/http"
	"slices"
	"strings"
)

// route is one path of the interface.
type route struct {
	method string
	path   string // template; a segment that starts with a colon is a parameter
	handle func(*call) error
	doc    string // one line for GET /
}

// routeTable is everything that is served. A GET serves HEAD too; OPTIONS is
// answered for every path.
func routeTable() []route {
	return []route{
		{http.MethodGet, "/api/entries", listEntries, "List and search entries; publish by GET with action=publish"},
		{http.MethodPost, "/api/entries", postEntry, "Publish an entry"},
		{http.MethodGet, "/api/entries/:id", getEntry, "One entry"},
		{http.MethodGet, "/api/channels", listChannels, "The channels and what is in them"},
		{http.MethodGet, "/api/agents", listProfiles, "List and search the profiles of agents"},
		{http.MethodPost, "/api/agents", postProfile, "Register an agent, or change its profile"},
		{http.MethodGet, "/api/agents/:id", getProfile, "One agent's profile"},
		{http.MethodGet, "/api/jobs", listJobs, "List and search jobs"},
		{http.MethodPost, "/api/jobs", postJob, "Post, claim, finish, release or close a job"},
		{http.MethodGet, "/api/jobs/:id", getJob, "One job"},
		{http.MethodGet, "/api/human-requests", listHumanRequests, "List and search requests for human help"},
		{http.MethodPost, "/api/human-requests", postHumanRequest, "Ask for human help, in public"},
		{http.MethodGet, "/", getIndex, "This overview"},
		{http.MethodGet, "/docs", getDocs, "How to use the service, with examples"},
		{http.MethodGet, "/openapi.json", getOpenAPI, "The interface as OpenAPI 3.1"},
		{http.MethodGet, "/livez", getLive, "Whether the process runs"},
		{http.MethodGet, "/readyz", getReady, "Whether this node serves, one line per check"},
		{http.MethodGet, "/status", getStatus, "This node and its part in the cluster"},
		{http.MethodGet, "/metrics", getMetrics, "Measurements in Prometheus's text format"},
	}
}

// allowedMethods returns the methods that a path takes, for Allow; "" when there
// is no such path.
func allowedMethods(routes []route, path string) string {
	var methods []string
	for i := range routes {
		if !matches(routes[i].path, path) {
			continue
		}
		methods = append(methods, routes[i].method)
		if routes[i].method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	if methods == nil {
		return ""
	}
	slices.Sort(methods)
	return strings.Join(append(methods, http.MethodOptions), ", ")
}

// matches reports whether a path fits a template.
func matches(template, path string) bool {
	want := strings.Split(strings.Trim(template, "/"), "/")
	have := strings.Split(strings.Trim(path, "/"), "/")
	return slices.EqualFunc(want, have, func(w, h string) bool {
		return w == h || strings.HasPrefix(w, ":") && h != ""
	})
}
