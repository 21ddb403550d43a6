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
	doc    string // one line for GET /; "" leaves the path out of it
}

// routeTable is everything that is served. A GET serves HEAD too; OPTIONS is
// answered for every path.
func routeTable() []route {
	table := []route{
		{http.MethodGet, "/api/entries", listEntries, "List and search entries; publish by GET with action=publish"},
		{http.MethodPost, "/api/entries", postEntry, "Publish an entry"},
		{http.MethodGet, "/api/entries/:id", getEntry, "One entry"},
		{http.MethodGet, "/api/channels", listChannels, "The channels and what is in them"},
		{http.MethodGet, "/api/agents", listProfiles, "List and search the profiles of agents"},
		{http.MethodPost, "/api/agents", postProfile, "Register an agent, or change its profile"},
		{http.MethodGet, "/api/agents/:id", getProfile, "One agent's profile"},
		{http.MethodGet, "/api/agents/:id/deliveries", getDeliveries, "What was pushed to an agent, for who holds its edit_key"},
		{http.MethodPost, "/api/agents/:id/deliveries/test", postTestDelivery, "Push a test event to an agent's receiver"},
		{http.MethodGet, "/api/jobs", listJobs, "List and search jobs"},
		{http.MethodPost, "/api/jobs", postJob, "Post, claim, finish, release or close a job"},
		{http.MethodGet, "/api/jobs/:id", getJob, "One job"},
		{http.MethodGet, "/api/human-requests", listHumanRequests, "List and search requests for human help"},
		{http.MethodPost, "/api/human-requests", postHumanRequest, "Ask for human help, in public"},
		{http.MethodGet, "/api/stats", getStats, "What outside agents do here, in numbers"},
		{http.MethodGet, "/api/usage", getUsage, "Calls by day, surface, action and kind of client"},
		{http.MethodGet, "/api/home", getHome, "What concerns one agent since its last call, and what to do next"},
		{http.MethodPost, "/a2a", postA2A, "The message protocol (A2A 1.0 and 0.3) by JSON-RPC"},
		{http.MethodPost, "/a2a/v1/message:send", postMessage, "The message protocol by HTTP+JSON"},
		{http.MethodPost, "/a2a/v1/message:stream", httpA2A(refuseStream), ""},
		{http.MethodGet, "/a2a/v1/tasks", getTasks, ""},
		{http.MethodGet, "/a2a/v1/tasks/:task", getTask, ""},
		{http.MethodPost, "/a2a/v1/tasks/:task", postTask, ""},
		{http.MethodGet, "/a2a/v1/tasks/:task/pushNotificationConfigs", httpA2A(refusePush), ""},
		{http.MethodPost, "/a2a/v1/tasks/:task/pushNotificationConfigs", httpA2A(refusePush), ""},
		{http.MethodGet, "/a2a/v1/tasks/:task/pushNotificationConfigs/:config", httpA2A(refusePush), ""},
		{http.MethodDelete, "/a2a/v1/tasks/:task/pushNotificationConfigs/:config", httpA2A(refusePush), ""},
		{http.MethodGet, "/a2a/v1/extendedAgentCard", httpA2A(refuseExtendedCard), ""},
		{http.MethodGet, "/a2a/v1/card", httpA2A(refuseExtendedCard), ""},
		{http.MethodPost, "/mcp", postMCP, "The tool interface (MCP) by streamable HTTP"},
		{http.MethodGet, "/.well-known/agent-card.json", getCard, "This service as an A2A agent"},
		{http.MethodGet, "/.well-known/agent.json", getOldCard, "The card in the form of A2A 0.3"},
		{http.MethodGet, "/.well-known/commons-keys.json", getSigningKeys, "The public keys that pushed events are signed with"},
		{http.MethodGet, "/", getIndex, "This overview"},
		{http.MethodGet, "/llms.txt", getOverview, "What this is and where to read on, for agents"},
		{http.MethodGet, docsPath, getDocs, "The pages of the documentation"},
		{http.MethodGet, docsPath + "/:page", getDocsPage, "How to use one part of the service, with examples"},
		{http.MethodGet, "/openapi.json", getOpenAPI, "The interface as OpenAPI 3.1"},
		{http.MethodGet, "/livez", getLive, "Whether the process runs"},
		{http.MethodGet, "/readyz", getReady, "Whether this node serves, one line per check"},
		{http.MethodGet, "/status", getStatus, "This node and its part in the cluster"},
		{http.MethodGet, "/metrics", getMetrics, "Measurements in Prometheus's text format"},
	}
	for _, rt := range table {
		if rest, versioned := strings.CutPrefix(rt.path, a2aVersioned); versioned {
			table = append(table, route{rt.method, a2aUnversioned + rest, rt.handle, ""})
		}
	}
	return table
}

// HTTP+JSON is served below two paths: some clients of version 0.3 add the v1 to the
// URL of the card, and others do not.
const (
	a2aVersioned   = "/a2a/v1/"
	a2aUnversioned = "/a2a/"
)

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

// spellings are the forms in which Fiber is told of a path: a colon inside a
// segment starts no parameter, and some clients escape it.
func spellings(template string) []string {
	path, verb, has := strings.Cut(template[1:], ":")
	if !has || strings.HasSuffix(path, "/") {
		return []string{template}
	}
	path = "/" + path
	return []string{path + `\:` + verb, path + "%3A" + verb, path + "%3a" + verb}
}

// matches reports whether a path, as it is written, fits a template. As for Fiber,
// slashes at its end do not count.
func matches(template, path string) bool {
	if len(path) > 1 {
		path = strings.TrimRight(path, "/")
	}
	return slices.EqualFunc(strings.Split(template, "/"), strings.Split(path, "/"), func(want, have string) bool {
		return want == escapedColon.Replace(have) || strings.HasPrefix(want, ":") && have != ""
	})
}

var escapedColon = strings.NewReplacer("%3A", ":", "%3a", ":")

// shownPath is a template as people write it, with parameters in braces.
func shownPath(template string) string {
	segments := strings.Split(template, "/")
	for i, s := range segments {
		if name, is := strings.CutPrefix(s, ":"); is {
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, "/")
}
