package page

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
)

// pairs returns parameters from alternating names and values, without those with an empty value.
func pairs(params ...string) (list []wire.Pair) {
	for i := 0; i+1 < len(params); i += 2 {
		if params[i+1] != "" {
			list = append(list, wire.Pair{Name: params[i], Value: params[i+1]})
		}
	}
	return list
}

// given returns a parameter of the URL, or "".
func given(r Request, name string) string {
	query, _ := r.Query() // the call of the page rejects one that cannot be read
	for _, pair := range query {
		if pair.Name == name {
			return pair.Value
		}
	}
	return ""
}

// filters are the parameters of lists that a page passes on and that select its entries.
var filters = []string{
	"kind", "channel", "agent", "for", "since", "q", "mode", "reply_to", "thread", "tag", "unanswered", "status", "claimed_by", "order", "sort",
}

// eventFilters are those of them that select events, too.
var eventFilters = []string{"kind", "channel", "agent", "for", "tag", "thread", "reply_to", "q"}

// passed returns the named parameters of the URL, except empty ones.
func passed(r Request, names []string) (list []wire.Pair) {
	query, _ := r.Query()
	for _, pair := range query {
		if pair.Value != "" && slices.Contains(names, pair.Name) {
			list = append(list, pair)
		}
	}
	return list
}

// without returns parameters without those of the given names.
func without(list []wire.Pair, names ...string) []wire.Pair {
	return slices.DeleteFunc(slices.Clone(list), func(p wire.Pair) bool { return slices.Contains(names, p.Name) })
}

// replaced returns parameters with those of the given names and values in place of their own.
func replaced(list []wire.Pair, fixed ...string) []wire.Pair {
	for i := 0; i+1 < len(fixed); i += 2 {
		list = without(list, fixed[i])
	}
	return append(list, pairs(fixed...)...)
}

// listOf returns the call of a list with the parameters of the URL. Fixed ones, names and values
// by turns, replace those of the URL.
func listOf(r Request, operation string, fixed ...string) (string, wire.Invocation) {
	params := replaced(passed(r, append([]string{"limit", "cursor", "consistency", "min_index"}, filters...)), fixed...)
	if given(r, "limit") == "" {
		params = append(params, wire.Pair{Name: "limit", Value: strconv.Itoa(perPage)})
	}
	return operation, wire.Invocation{Params: params}
}

// with returns the address of the first page of a list with another value of a parameter.
func with(r Request, name, value string) string {
	return here(r, replaced(passed(r, filters), name, value))
}

// jsonPaths are the paths of reads by HTTP.
var jsonPaths = map[string]string{
	"listEntries": "/api/entries", "listThreads": "/api/threads", "getEntry": "/api/entries/", "listChannels": "/api/channels", "listAgents": "/api/agents",
	"getAgent": "/api/agents/", "listJobs": "/api/jobs", "getJob": "/api/jobs/", "listHumanRequests": "/api/human-requests", "getHumanRequest": "/api/human-requests/",
	"getStats": "/api/stats", "getUsage": "/api/usage",
	"getCluster": "/cluster.json",
}

// jsonPath returns the path of a response by HTTP.
func jsonPath(operation string, in wire.Invocation) string {
	at := jsonPaths[operation]
	if strings.HasSuffix(at, "/") {
		at += url.PathEscape(in.ID)
	}
	if query := encode(in.Params); query != "" {
		at += "?" + query
	}
	return at
}

// feedPath returns the path of a list as a feed, from its beginning, or "" if it has no feed.
func feedPath(operation string, params []wire.Pair) string {
	switch operation {
	case "listEntries", "listJobs", "listHumanRequests":
	default:
		return ""
	}
	params = slices.DeleteFunc(slices.Clone(params), func(p wire.Pair) bool { return p.Name == "cursor" || p.Name == "limit" })
	return jsonPaths[operation] + "?" + encode(append(params, wire.Pair{Name: "format", Value: "atom"}))
}

// encode writes parameters as in a URL.
func encode(params []wire.Pair) string {
	var b strings.Builder
	for i, p := range params {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(p.Name) + "=" + url.QueryEscape(p.Value))
	}
	return b.String()
}

// more returns the address of the next page of a list, with further parameters, or "" on the last page.
func more(r Request, cursor *string, further ...string) string {
	if cursor == nil {
		return ""
	}
	query, _ := r.Query()
	return here(r, replaced(query, append(further, "cursor", *cursor)...))
}

// here returns the address of the page with other parameters.
func here(r Request, params []wire.Pair) string {
	at, _, _ := strings.Cut(r.Path(), "?")
	return at + "?" + encode(params)
}

// news returns the filter of the events that change a list: with the filters of the URL, or with
// the fixed ones in place of these.
func news(r Request, fixed ...string) string {
	events := wire.Pair{Name: "event", Value: "entry,job,human_request,claim,result,release,expiry,close,hide,unhide"}
	return "?" + encode(append([]wire.Pair{events}, replaced(passed(r, eventFilters), fixed...)...))
}
