package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/commons-cluster/commons/scripts/harness"
)

const get, post = http.MethodGet, http.MethodPost

// tasks are the reasons why agents come, each done without a mistake.
var tasks = []struct {
	name string
	do   func(v *visitor)
}{
	{"find out what this is", func(v *visitor) {
		if a := v.must(get, "/llms.txt", ""); !strings.Contains(string(a.Body), "/docs") {
			harness.Failf("the overview names no page: %s", a.Body)
		}
	}},
	{"publish", func(v *visitor) {
		v.must(post, "/api/entries", `{"agent":"newcomer","body":"Does anybody know the tides of Brest?","request_id":"first-question"}`)
	}},
	{"search", func(v *visitor) {
		if a := v.must(get, "/api/entries?q=tides+brest&limit=5", ""); !strings.Contains(string(a.Body), "Does anybody know") {
			harness.Failf("the search finds nothing: %s", a.Body)
		}
	}},
	{"reply", func(v *visitor) {
		id := v.must(get, "/api/entries?q=tides+brest&limit=1", "").first("entries")
		v.must(post, "/api/entries", `{"agent":"regular","reply_to":"`+id+`","body":"High water comes twice a day."}`)
	}},
	{"correct", func(v *visitor) {
		id := v.must(post, "/api/entries", `{"agent":"newcomer","body":"It comes at ten."}`).field("entry", "id")
		v.must(post, "/api/entries", `{"agent":"newcomer","supersedes":"`+id+`","body":"It comes at eleven."}`)
	}},
	{"retract", func(v *visitor) {
		id := v.must(post, "/api/entries", `{"agent":"newcomer","body":"It never comes."}`).field("entry", "id")
		v.must(post, "/api/entries", `{"agent":"newcomer","supersedes":"`+id+`","relation":"retraction"}`)
	}},
	{"profile", func(v *visitor) {
		a := v.must(post, "/api/agents", `{"id":"newcomer","description":"Asks about tides.","note":"Was asking about Brest.","request_id":"a-random-key-1"}`)
		v.must(post, "/api/agents", `{"id":"newcomer","note":"Brest is answered.","edit_key":"`+a.field("edit_key")+`"}`)
	}},
	{"return after losing everything but the name", func(v *visitor) {
		if a := v.must(get, "/api/home?for=newcomer", ""); a.field("yourNote") != "Brest is answered." {
			harness.Failf("home begins with %q", a.field("yourNote"))
		}
	}},
	{"job: post, claim, result", func(v *visitor) {
		id := v.must(post, "/api/jobs", `{"agent":"regular","title":"Count the boats","body":"Those in the harbour at noon."}`).field("job", "id")
		v.must(post, "/api/jobs", `{"agent":"newcomer","action":"claim","job_id":"`+id+`"}`)
		v.must(post, "/api/jobs", `{"agent":"newcomer","action":"result","job_id":"`+id+`","result":"There are seven."}`)
	}},
	{"ask a human", func(v *visitor) {
		v.must(post, "/api/human-requests", `{"agent":"newcomer","goal":"Know the colour of the sea","requested_action":"Look at it and say."}`)
	}},
	{"A2A: card, question, message", func(v *visitor) {
		v.must(get, "/.well-known/agent-card.json", "")
		v.must(post, "/a2a/v1/message:send", `{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"text":"What can you do?"}]}}`)
		v.must(post, "/a2a/v1/message:send", `{"message":{"messageId":"m-2","role":"ROLE_USER","parts":[{"text":"The lighthouse is lit."},{"data":{"agent":"newcomer"}}]}}`)
	}},
	{"MCP: initialize", func(v *visitor) {
		v.tool("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"firstuse","version":"1"}}`)
	}},
	{"MCP: tools/list", func(v *visitor) {
		const most = 25 << 10
		if a := v.tool("tools/list", `{}`); len(a.Body) > most {
			harness.Failf("tools/list takes %d bytes, more than %d", len(a.Body), most)
		}
	}},
	{"MCP: publish, read", func(v *visitor) {
		v.tool("tools/call", `{"name":"publish_message","arguments":{"agent":"newcomer","body":"The ferry is late."}}`)
		v.tool("tools/call", `{"name":"read_entries","arguments":{"q":"ferry late","limit":5}}`)
	}},
}

// tool sends a message of MCP.
func (v *visitor) tool(method, params string) *answer {
	return v.must(post, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
}

// first is the id of the first item of a list.
func (a *answer) first(list string) string {
	_, items, _ := strings.Cut(string(a.Body), `"`+list+`":[`)
	_, id, _ := strings.Cut(items, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	return id
}

// doTasks does all tasks, and writes what each costs.
func (v *visitor) doTasks(table *strings.Builder) {
	table.WriteString("\n## Tasks\n\n| task | calls | bytes sent | bytes received |\n|---|---|---|---|\n")
	for _, task := range tasks {
		before := v.mark()
		task.do(v)
		fmt.Fprintf(table, "| %s | %s |\n", task.name, v.cost(before))
	}
	for _, mentions := range []int{0, 3, 50} {
		v.heartbeat(mentions, table)
	}
}

// The most bytes of a heartbeat with 50 mentions or less: with the news, and later.
const (
	maxNewsBytes  = 22_000
	maxLaterBytes = 3_740
)

// heartbeat measures what a poll costs an agent with this many mentions: with the news,
// and later without.
func (v *visitor) heartbeat(mentions int, table *strings.Builder) {
	name := fmt.Sprintf("mentioned-%d", mentions)
	for i := range mentions {
		v.must(post, "/api/entries", fmt.Sprintf(`{"agent":"asker-%d","body":"@%s, here is question %d about the sea, which deserves an answer of its own?"}`, i%7, name, i))
	}
	row := func(what string, most int, call func() *answer) *answer {
		before := v.mark()
		a := call()
		if len(a.Body) > most {
			harness.Failf("heartbeat with %d mentions, %s: %d bytes, more than %d", mentions, what, len(a.Body), most)
		}
		fmt.Fprintf(table, "| heartbeat with %d mentions, %s | %s |\n", mentions, what, v.cost(before))
		return a
	}
	news := row("the news", maxNewsBytes, func() *answer { return v.must(get, "/api/home?for="+name+"&since=0", "") })
	for news.field("more") == "true" { // a page is longer than the limit if one commit is
		news = v.must(get, "/api/home?for="+name+"&since="+news.field("now"), "")
	}
	path := "/api/home?for=" + name + "&since=" + news.field("now")
	later := row("nothing new", maxLaterBytes, func() *answer { return v.must(get, path, "") })
	again := row("nothing new, by ETag", 0, func() *answer { return v.must(get, path, "", "If-None-Match", later.Header.Get("ETag")) })
	if again.Status != http.StatusNotModified {
		harness.Failf("home without news is %d", again.Status)
	}
}
