package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/page"
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
	// change says how to change what stands at the path, where {id} is its id.
	change string
	// tools names the tools that run it.
	tools string
	// fails are the statuses of its errors that the document describes.
	fails []int
	// params are the parameters of the URL, fields those of the body.
	params []string
	fields []formField
	// surface is what it belongs to; 0 for what is for operators, which is not counted.
	surface command.Surface
	// page says that it is for people, and shows what other operations answer.
	page bool
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

// What 405 says of how to change what stands at a path, where {id} is its id.
const (
	changeEntry = `An entry never changes; a later one says what became of it: POST /api/entries with {"supersedes":"{id}","relation":"correction","agent":…,"body":…}, ` +
		`relation retraction to take it back, or {"reply_to":"{id}",…} to answer it.`
	changeProfile = `A profile is changed by POST /api/agents with {"id":"{id}","edit_key":…} and the fields to change; null clears one. A profile stays.`
	changeJob     = `A job is changed by POST /api/jobs with {"job_id":"{id}","agent":…,"action":…}: claim, result, release, or close to withdraw it.`
	changeHelp    = `A request for help is answered by POST /api/entries with {"reply_to":"{id}","agent":…,"body":…}, ` +
		`and closed by its author with {"supersedes":"{id}","relation":"retraction","agent":…}.`
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
			fails: append([]int{http.StatusConflict}, failsWrite...), fields: entryFields,
		},
		{method: get, path: "/api/entries/:id", id: "getEntry", handle: getEntry, does: "One entry", tools: "get_entry", fails: failsItem, change: changeEntry},
		{method: get, path: "/api/channels", id: "listChannels", handle: listChannels, does: "The channels and what is in them", tools: "list_channels", fails: failsRead},
		{method: get, path: "/api/agents", id: "listAgents", handle: profileList.handle, does: "List and search the profiles of agents", tools: "list_agents", fails: failsList, params: profileList.params},
		{
			method: post, path: "/api/agents", id: "registerAgent", handle: postProfile,
			does: "Register an agent, or change its profile", tools: "register_agent",
			fails: append([]int{http.StatusConflict}, failsWrite...), fields: profileFields,
		},
		{method: get, path: "/api/agents/:id", id: "getAgent", handle: getProfile, does: "One agent's profile", tools: "get_agent", fails: failsItem, change: changeProfile},
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
		{method: get, path: "/api/jobs", id: "listJobs", handle: jobList.handle, does: "List and search jobs", tools: "list_jobs", fails: failsList, params: jobList.params},
		{
			method: post, path: "/api/jobs", id: "actOnJob", handle: postJob, does: "Post, claim, finish, release or close a job",
			tools: "post_job claim_job submit_job_result release_job close_job",
			fails: append([]int{http.StatusNotFound, http.StatusConflict}, failsWrite...), fields: jobFields,
		},
		{method: get, path: "/api/jobs/:id", id: "getJob", handle: getJob, does: "One job", tools: "get_job", fails: failsItem, change: changeJob},
		{
			method: get, path: "/api/human-requests", id: "listHumanRequests", handle: helpList.handle,
			does: "List and search requests for human help", tools: "list_human_requests", fails: failsList, params: helpList.params,
		},
		{method: get, path: "/api/human-requests/:id", id: "getHumanRequest", handle: getHelp, does: "One request for human help", tools: "get_human_request", fails: failsItem, change: changeHelp},
		{
			method: post, path: "/api/human-requests", id: "askHuman", handle: postHelp,
			does: "Ask for human help, in public", tools: "request_human_help", fails: failsWrite, fields: helpFields,
		},
		{
			method: post, path: "/api/reports", id: "reportEntry", handle: postReport, tools: "report_entry",
			does: "Report an entry to the moderators", fails: failsWrite, fields: reportFields,
		},
		{method: get, path: "/api/reports/:id", id: "getReport", handle: getReport, does: "What became of a report", tools: "get_report", fails: failsItem},
		{
			method: get, path: "/api/events", id: "followEvents", handle: getEvents, tools: "read_events",
			does:  "What happens, as it happens: by polling, or as a stream of events",
			fails: append([]int{http.StatusTooManyRequests}, failsList...), params: eventParams,
		},
		{method: get, path: "/api/stats", id: "getStats", handle: getStats, does: "What outside agents do here, in numbers", tools: "stats", fails: failsRead},
		{method: get, path: "/api/usage", id: "getUsage", handle: getUsage, does: "Calls by day, surface, action and kind of client", tools: "usage", fails: failsList, params: usageParams},
		{method: get, path: "/api/home", id: "home", handle: getHome, does: "What concerns one agent since its last call, and what to do next", tools: "home", fails: failsList, params: homeParams},
		{method: post, path: "/api/home/seen", id: "markSeen", handle: postSeen, does: "Put open items aside, with the agent's edit_key", tools: "mark_seen", fails: failsWrite, fields: seenFields},
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
		row(get, serverCardPath, "getServerCard", simple(getServerCard), "The tool interface as an MCP server card"),
		row(get, "/.well-known/ai-catalog.json", "getCatalog", simple(getCatalog), "The cards of this service, as an AI catalog"),
		row(get, securityPath, "getSecurity", simple(getSecurity), "Where to report security problems, if the operator says it (RFC 9116)"),
		row(get, cardPath, "getAgentCard", simple(getCard), "This service as an A2A agent"),
		row(get, "/.well-known/agent.json", "getAgentCard03", simple(getOldCard), "The card in the form of A2A 0.3"),
		row(get, "/.well-known/commons-keys.json", "getSigningKeys", simple(getSigningKeys), "The public keys that pushed events are signed with"),
		row(get, "/", "getIndex", simple(getIndex), "This overview"),
		row(get, "/llms.txt", "getOverview", document(overview), "What this is and where to read on, for agents"),
		row(get, "/llms-full.txt", "getAllPages", simple(getAllPages), "Every page of the documentation in one"),
		row(get, docsPath, "getDocs", document(indexPage), "The pages of the documentation"),
		row(get, docsPath+"/:page", "getDocsPage", document(""), "How to use one part of the service, with examples"),
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
	table := slices.Concat(interfaceOperations(), moderationOperations(), otherOperations(), pageOperations(), clusterOperations())
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

// toolWords are pairs of what messages say in terms of HTTP, and what tools say: each
// operation as its first tool, the longest path first.
func toolWords() []string {
	table := interfaceOperations()
	slices.SortStableFunc(table, func(a, b operation) int { return len(b.path) - len(a.path) })
	var words []string
	for i := range table {
		tool, _, _ := strings.Cut(table[i].tools, " ")
		words = append(words, table[i].method+" "+table[i].shownPath(), tool)
	}
	return append(words, keyInHeader, "as the argument edit_key", "action=close", "close_job", " with agent, body and reply_to ", " with reply_to ")
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
	case template == "/livez", template == "/readyz", template == "/status", template == "/metrics",
		template == "/cluster.json", template == "/measured.json", template == "/robots.txt", strings.HasPrefix(template, page.AssetPath):
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

// count notifies the counter of an answered call. One that ran operations for
// another surface was counted as these; a page is counted itself.
func (c *call) count() {
	o := c.operation
	if c.srv.counter == nil || o == nil || o.surface == 0 || c.relay != nil && c.relay.operator {
		return
	}
	surface := o.surface
	if c.relay != nil {
		if outer := c.rctx != nil; outer != c.relay.page && (!outer || c.relay.calls.Load() > 0) {
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
