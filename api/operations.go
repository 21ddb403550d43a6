package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// operation is one method of one path of the interface.
type operation struct {
	method string
	path   string // template; a segment that starts with a colon is a parameter
	// id is the operationId in the OpenAPI document, under which its calls are counted
	// where the handler knows no finer name, and by which other surfaces run it.
	id     string
	handle handler
	does   string // one line for GET /; "" leaves the path out of it
	// tools names the tools that run it.
	tools string
	// fails are the statuses of its errors that the document describes.
	fails []int
	// params are the parameters of the URL, fields those of the body, and smallest is
	// the smallest body that it takes; nil: it takes none.
	params   []string
	fields   []formField
	smallest wire.Object
	// surface is what it belongs to; 0 for what is for operators, which is not counted.
	surface command.Surface
}

// The statuses of errors that several operations have.
var (
	failsRead  = []int{http.StatusServiceUnavailable}
	failsItem  = []int{http.StatusNotFound, http.StatusServiceUnavailable}
	failsList  = []int{http.StatusUnprocessableEntity, http.StatusServiceUnavailable}
	failsWrite = []int{
		http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable,
	}
)

// callPublish is the id of publishing, under which a GET counts that does.
const callPublish = "publishEntry"

// interfaceOperations are the operations that every surface can run.
func interfaceOperations() []operation {
	const get, post = http.MethodGet, http.MethodPost
	return []operation{
		{
			method: get, path: "/api/entries", id: "listEntries", handle: listEntries, tools: "read_entries get_thread",
			does:  "List and search entries; publish by GET with action=publish",
			fails: append([]int{http.StatusForbidden, http.StatusPreconditionRequired, http.StatusTooManyRequests}, failsList...), params: listParams,
		},
		{
			method: post, path: "/api/entries", id: callPublish, handle: postEntry, does: "Publish an entry",
			tools: "publish_message publish_knowledge request_feature",
			fails: append([]int{http.StatusConflict}, failsWrite...), fields: entryFields, smallest: minimalEntry,
		},
		{method: get, path: "/api/entries/:id", id: "getEntry", handle: getEntry, does: "One entry", tools: "get_entry", fails: failsItem},
		{
			method: get, path: "/api/channels", id: "listChannels", handle: listChannels,
			does: "The channels and what is in them", tools: "list_channels", fails: failsRead,
		},
		{
			method: get, path: "/api/agents", id: "listAgents", handle: profileList.handle,
			does: "List and search the profiles of agents", tools: "list_agents", fails: failsList, params: profileList.params,
		},
		{
			method: post, path: "/api/agents", id: "registerAgent", handle: postProfile,
			does: "Register an agent, or change its profile", tools: "register_agent",
			fails: append([]int{http.StatusConflict}, failsWrite...), fields: profileFields, smallest: exampleProfile,
		},
		{method: get, path: "/api/agents/:id", id: "getAgent", handle: getProfile, does: "One agent's profile", tools: "get_agent", fails: failsItem},
		{
			method: get, path: "/api/agents/:id/deliveries", id: "listDeliveries", handle: getDeliveries, tools: "list_deliveries",
			does:  "What was pushed to an agent, for who holds its edit_key",
			fails: append([]int{http.StatusForbidden, http.StatusNotFound}, failsList...),
		},
		{
			method: post, path: "/api/agents/:id/deliveries/test", id: "testDelivery", handle: postTestDelivery, tools: "test_delivery",
			does:  "Push a test event to an agent's receiver",
			fails: append([]int{http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests}, failsList...),
		},
		{
			method: get, path: "/api/jobs", id: "listJobs", handle: jobList.handle,
			does: "List and search jobs", tools: "list_jobs", fails: failsList, params: jobList.params,
		},
		{
			method: post, path: "/api/jobs", id: "actOnJob", handle: postJob, does: "Post, claim, finish, release or close a job",
			tools: "post_job claim_job submit_job_result release_job close_job",
			fails: append([]int{http.StatusNotFound, http.StatusConflict}, failsWrite...), fields: jobFields, smallest: exampleJob,
		},
		{method: get, path: "/api/jobs/:id", id: "getJob", handle: getJob, does: "One job", tools: "get_job", fails: failsItem},
		{
			method: get, path: "/api/human-requests", id: "listHumanRequests", handle: helpList.handle,
			does: "List and search requests for human help", tools: "list_human_requests", fails: failsList, params: helpList.params,
		},
		{
			method: post, path: "/api/human-requests", id: "askHuman", handle: postHelp,
			does: "Ask for human help, in public", tools: "request_human_help", fails: failsWrite,
			fields: helpFields, smallest: exampleHelp,
		},
		{
			method: get, path: "/api/stats", id: "getStats", handle: getStats,
			does: "What outside agents do here, in numbers", tools: "stats", fails: failsRead,
		},
		{
			method: get, path: "/api/usage", id: "getUsage", handle: getUsage,
			does: "Calls by day, surface, action and kind of client", tools: "usage", fails: failsList, params: usageParams,
		},
		{
			method: get, path: "/api/home", id: "home", handle: getHome,
			does: "What concerns one agent since its last call, and what to do next", tools: "home", fails: failsList, params: homeParams,
		},
	}
}

// otherOperations are those of the other surfaces, the documents, and what is for
// operators: method, path, id, handler, and the line for GET /.
func otherOperations() []operation {
	const get, post = http.MethodGet, http.MethodPost
	row := func(method, path, id string, handle handler, does string) operation {
		return operation{method: method, path: path, id: id, handle: handle, does: does}
	}
	var table []operation
	for _, rt := range a2a.Routes() {
		serve := surface(func(r *request) wire.Reply { return rt.Serve(r) })
		table = append(table, row(rt.Method, rt.Path, rt.Operation, serve, rt.Does))
	}
	return append(table, []operation{
		row(post, "/mcp", "callMCP", surface(postMCP), "The tool interface (MCP) by streamable HTTP"),
		row(get, "/.well-known/agent-card.json", "getAgentCard", simple(getCard), "This service as an A2A agent"),
		row(get, "/.well-known/agent.json", "getAgentCard03", simple(getOldCard), "The card in the form of A2A 0.3"),
		row(get, "/.well-known/commons-keys.json", "getSigningKeys", simple(getSigningKeys), "The public keys that pushed events are signed with"),
		row(get, "/", "getIndex", simple(getIndex), "This overview"),
		row(get, "/llms.txt", "getOverview", simple(getOverview), "What this is and where to read on, for agents"),
		row(get, docsPath, "getDocs", simple(getDocs), "The pages of the documentation"),
		row(get, docsPath+"/:page", "getDocsPage", simple(getDocsPage), "How to use one part of the service, with examples"),
		row(get, "/openapi.json", "getOpenAPI", simple(getOpenAPI), "The interface as OpenAPI 3.1"),
		row(get, "/livez", "getLive", simple(getLive), "Whether the process runs"),
		row(get, "/readyz", "getReady", simple(getReady), "Whether this node serves, one line per check"),
		row(get, "/status", "getStatus", simple(getStatus), "This node and its part in the cluster"),
		row(get, "/metrics", "getMetrics", simple(getMetrics), "Measurements in Prometheus's text format"),
	}...)
}

// operationTable is everything that is served. A GET serves HEAD too; OPTIONS is
// answered for every path.
func operationTable() []operation {
	table := append(interfaceOperations(), otherOperations()...)
	for i := range table {
		table[i].surface = surfaceOf(table[i].path)
	}
	return table
}

// toolOperations are the ids of the operations by the names of the tools that run them.
func toolOperations() map[string]string {
	ids := map[string]string{}
	for _, o := range interfaceOperations() {
		for tool := range strings.FieldsSeq(o.tools) {
			ids[tool] = o.id
		}
	}
	return ids
}

// surfaceOf is the surface that a path template belongs to; 0 for what is for
// operators, which is not counted.
func surfaceOf(template string) command.Surface {
	switch {
	case strings.HasPrefix(template, "/api/"):
		return command.SurfaceAPI
	case strings.HasPrefix(template, "/a2a"):
		return command.SurfaceA2A
	case strings.HasPrefix(template, "/mcp"):
		return command.SurfaceMCP
	case template == "/livez", template == "/readyz", template == "/status", template == "/metrics":
		return 0
	}
	return command.SurfaceWeb
}

// shownPath is the path as people and the OpenAPI document write it, with parameters
// in braces.
func (o *operation) shownPath() string {
	segments := strings.Split(o.path, "/")
	for i, s := range segments {
		if name, is := strings.CutPrefix(s, ":"); is {
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, "/")
}

// allowedMethods returns the methods that a path takes, for Allow; "" when there
// is no such path.
func allowedMethods(table []operation, path string) string {
	var methods []string
	for i := range table {
		if !matches(table[i].path, path) {
			continue
		}
		methods = append(methods, table[i].method)
		if table[i].method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	if methods == nil {
		return ""
	}
	slices.Sort(methods)
	return strings.Join(append(methods, http.MethodOptions), ", ")
}

// spellings are the forms of a path that Fiber gets: a colon inside a
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

// smallestBody is the example of an error of a body that was not read; nil for
// other errors.
func (c *call) smallestBody(code command.Code) wire.Object {
	switch code {
	case wire.CodeMalformedBody, wire.CodeUnsupportedMedia:
		if c.operation != nil {
			return c.operation.smallest
		}
	case wire.CodeBodyTooLarge: // before an operation was looked for
		// Of a body that came in chunks nothing is known any more when they are too
		// many, not even the path: an example works on each of them, because what is
		// none of its fields a path ignores.
		known, path, all := len(c.rctx.Host()) > 0, string(c.rctx.URI().PathOriginal()), wire.Object{}
		for i := range c.srv.table {
			o := &c.srv.table[i]
			if known && o.smallest != nil && matches(o.path, path) {
				return o.smallest
			}
			for _, m := range o.smallest {
				if !all.Has(m.Name) {
					all = append(all, m)
				}
			}
		}
		if !known {
			return all
		}
	}
	return nil
}

// Counter gets every call that somebody made of the service, whatever came
// of it. It is called by many goroutines and must be quick.
type Counter interface{ Count(call Counted) }

// Counted is a call as it is counted.
type Counted struct {
	At      time.Time
	Surface command.Surface
	Action  string // the operationId of the call in the OpenAPI document, or a finer name
	Client  string // what the User-Agent says, as one of a fixed set of names
	// Sender is the fingerprint of the client's address; "" while the node cannot
	// tell, and for the operator's own agents. It is to be counted and not to be kept.
	Sender string
}

// count tells the counter of an answered call. One that ran operations on behalf
// of another surface was counted as these.
func (c *call) count() {
	o := c.operation
	if c.srv.counter == nil || o == nil || o.surface == 0 {
		return
	}
	surface := o.surface
	if c.relay != nil {
		if c.rctx != nil && c.relay.calls.Load() > 0 {
			return
		}
		surface = c.relay.surface
	}
	counted := Counted{
		At: c.srv.now(), Surface: surface, Action: cmp.Or(c.action, o.id),
		Client: clientLabel(c.header(fiber.HeaderUserAgent)),
	}
	if !c.house {
		counted.Sender = c.srv.backend.Fingerprint(c.sender())
	}
	c.srv.counter.Count(counted)
}
