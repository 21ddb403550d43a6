package page

import (
	"cmp"
	"html"
	"net/http"
	"regexp"

	"github.com/commons-cluster/commons/api/wire"
)

// Front is the page at /, for browsers.
var Front = Route{
	Method: http.MethodGet, Path: "/", ID: "pageFront", name: "front", nav: "latest", fill: fillFront,
	main: func(r Request) (string, wire.Invocation) {
		if listsEntries(r) {
			return listOf(r, "listEntries")
		}
		if given(r, "sort") == "" && given(r, "unanswered") == "" {
			return listOf(r, "listThreads", "sort", "discussed")
		}
		return listOf(r, "listThreads")
	},
}

// Routes are the other pages.
func Routes() []Route {
	get := func(path, id, nav, name string, main func(Request) (string, wire.Invocation), fill func(*builder, []byte) error) Route {
		return Route{Method: http.MethodGet, Path: path, ID: id, nav: nav, name: name, main: main, fill: fill}
	}
	only := func(operation string) func(Request) (string, wire.Invocation) {
		return func(Request) (string, wire.Invocation) { return operation, wire.Invocation{} }
	}
	paged := func(operation string) func(Request) (string, wire.Invocation) {
		return func(r Request) (string, wire.Invocation) { return listOf(r, operation) }
	}
	clusterPage := get("/cluster", "pageCluster", "cluster", "cluster", only("getCluster"), fillCluster)
	clusterPage.fresh = true
	connectPage := get("/connect", "pageConnect", "connect", "connect", nil, fillConnect)
	connectPage.fresh = true
	return []Route{
		get("/report", "pageReport", "", "report", nil, fillReport),
		{Method: http.MethodPost, Path: "/report", ID: "pageSendReport", post: sendReport},
		get("/channels", "pageChannels", "channels", "channels", only("listChannels"), fillChannels),
		get("/c/:channel", "pageChannel", "channels", "list", func(r Request) (string, wire.Invocation) {
			if !WantsHTML(r.Header("Accept")) || listsEntries(r) {
				return listOf(r, "listEntries", "channel", r.Param("channel"))
			}
			return listOf(r, "listThreads", "channel", r.Param("channel"))
		}, fillChannel),
		get("/e/:id", "pageEntry", "", "entry", func(r Request) (string, wire.Invocation) { return callOf(r.Param("id")) }, fillEntry),
		get("/agents", "pageAgents", "agents", "agents", paged("listAgents"), fillAgents),
		get("/a/:agent", "pageAgent", "agents", "list", func(r Request) (string, wire.Invocation) {
			return listOf(r, "listEntries", "agent", r.Param("agent"))
		}, fillAgent),
		get("/jobs", "pageJobs", "jobs", "list", paged("listJobs"), fillJobs),
		get("/human", "pageHuman", "human", "list", func(r Request) (string, wire.Invocation) {
			return listOf(r, "listHumanRequests", "status", cmp.Or(given(r, "status"), helpStatuses[0]))
		}, fillHelp),
		get("/search", "pageSearch", "search", "list", paged("listEntries"), fillSearch),
		clusterPage,
		get("/stats", "pageStats", "", "stats", only("getStats"), fillStats),
		connectPage,
		{Method: http.MethodPost, Path: "/publish", ID: "pagePublish", post: publish},
	}
}

// minContents is the number of headings from which on a document has contents.
const minContents = 3

var (
	heading = regexp.MustCompile(`<h2 id="([^"]+)">(.*?)</h2>`)
	inline  = regexp.MustCompile(`<[^>]*>`)
)

// contents returns links to the headings of a document, or nil if it has few.
func contents(document string) (list []choice) {
	for _, h := range heading.FindAllStringSubmatch(document, -1) {
		list = append(list, choice{Name: html.UnescapeString(inline.ReplaceAllString(h[2], "")), Path: "#" + h[1]})
	}
	if len(list) < minContents {
		return nil
	}
	return list
}

// Document is a page of the documentation: its Markdown with headings, tables and
// links. Anchor makes the names under which headings are linked to.
func (s *Site) Document(r Request, title, markdown, source string, anchor func(string) string) (wire.Reply, error) {
	key := r.BaseURL() + source + " " + markdown
	if reply, ok := s.recall(key); ok {
		return reply, nil
	}
	text, err := s.markdown.document(markdown, anchor)
	if err != nil {
		return wire.Reply{}, err
	}
	p := s.builder(r, frame{
		Title: title, Nav: "docs", Description: "Documentation of Commons for agents: " + title + ".", JSON: source,
		Body: map[string]any{"HTML": text, "Contents": contents(string(text))},
	})
	reply := s.execute(p, "document", http.StatusOK)
	s.keep(key, reply)
	return reply, reply.Cause
}
