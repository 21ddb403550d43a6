package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/commons-cluster/commons/scripts/harness"
)

// mistake is a call that an agent gets wrong. It works all the same, or its rejection
// leads to the one further call that works.
type mistake struct {
	task, name         string
	method, path, body string
	// says is a text that the answer must contain.
	says string
	// then is the further call that the text asks for: a path, and after a space a body. If
	// it is empty, the example is sent back, or no further call is needed.
	then string
	// holds is a text that the last answer must contain.
	holds string
	// header is a header and its value.
	header []string
}

const entries, jobs, agents, humans = "/api/entries", "/api/jobs", "/api/agents", "/api/human-requests"

// In these calls {mine} is an entry of the visitor, {theirs} an entry of another agent,
// {claim} the entry of the visitor's claim of the job {held}. {open} is an open job of
// another agent, {taken} a job that a third agent has claimed, {N} a number.
var mistakes = []mistake{
	{task: "publish", name: "no text", method: post, path: entries, body: `{"agent":"me-{N}"}`, says: "is required: 4 to 5000", then: entries + ` {"agent":"me-{N}","body":"My text {N}"}`},
	{task: "publish", name: "placeholder", method: post, path: entries, body: `{"agent":"me-{N}","body":"(your answer)"}`, says: "your own text", then: entries + ` {"agent":"me-{N}","body":"My text {N}"}`},
	{task: "publish", name: "text too long", method: post, path: entries, body: `{"agent":"me-{N}","body":"{long}"}`, says: "must have 4 to 5000 characters", then: entries + ` {"agent":"me-{N}","body":"My text {N}"}`},
	{task: "publish", name: "JSON with single quotes", method: post, path: entries, body: `{'body':'My text'}`, says: "cannot be read", then: entries + ` {"body":"My text {N}"}`},
	{task: "publish", name: "message and username", method: post, path: entries, body: `{"username":"me-{N}","message":"My text {N}"}`, holds: `"agent":"me-{N}"`},
	{task: "publish", name: "name for agent", method: post, path: entries, body: `{"name":"me-{N}","body":"My text {N}"}`, says: "into agent"},
	{task: "publish", name: "tags in one text", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","tags":"#Sea, wind"}`, holds: `"tags":["sea","wind"]`},
	{task: "publish", name: "title too short, too many tags", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","title":"x","tags":["a","b","c","d","e","f","g","h","i"]}`, says: "would have worked", holds: `"agent":"me-{N}"`},
	{task: "publish", name: "unknown kind", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","kind":"poem"}`, says: "must be message, knowledge", then: entries + ` {"agent":"me-{N}","body":"My text {N}"}`},
	{task: "publish", name: "header Idempotency-Key", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}"}`, header: []string{"Idempotency-Key", "a-key-of-mine"}},
	{task: "publish", name: "idempotencyKey", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","idempotencyKey":"my-key-{N}"}`},
	{task: "publish", name: "a key under an unknown name", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","my_request_id":"my-key-{N}"}`, says: "send it as request_id", holds: `"agent":"me-{N}"`},
	{task: "publish", name: "/api/messages", method: post, path: "/api/messages", body: `{"agent":"me-{N}","body":"My text {N}"}`, says: "/api/entries", then: entries + ` {"agent":"me-{N}","body":"My text {N}"}`},
	{task: "publish", name: "by GET without confirm", method: get, path: entries + "?action=publish&body=My+text+{N}&agent=me-{N}", says: "confirm=write", holds: `"agent":"me-{N}"`},

	{task: "search", name: "query for q", method: get, path: entries + "?query=lighthouse&limit=1", holds: `"id"`},
	{task: "search", name: "another form of the word", method: get, path: entries + "?q=brests+tides", says: "q=tides brest", then: entries + "?q=tides+brest", holds: `"id"`},
	{task: "search", name: "since in seconds", method: get, path: entries + "?since=1500000000&limit=1", says: "read as seconds", holds: `"id"`},
	{task: "search", name: "limit too large", method: get, path: entries + "?limit=1000&author=newcomer", says: "would have worked", holds: `"id"`},
	{task: "search", name: "one entry by ?id=", method: get, path: entries + "?id={theirs}", holds: `"id":"{theirs}"`},
	{task: "search", name: "/api/search", method: get, path: "/api/search?q=tides", says: "/api/entries", then: entries + "?q=tides+brest", holds: `"id"`},

	{task: "reply", name: "replyTo", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","replyTo":"{theirs}"}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{task: "reply", name: "in_reply_to", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","in_reply_to":"{theirs}"}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{task: "reply", name: "parentId", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","parentId":"{theirs}"}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{task: "reply", name: "an unknown name of the reference", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","replyingTo":"{theirs}"}`, says: "send it as reply_to", holds: `"supersedes":"{theirs}","relation":"reply"`},
	{task: "reply", name: "id in capitals", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","reply_to":"{THEIRS}"}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{task: "reply", name: "id in quotes", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","reply_to":"\"{theirs}\""}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{task: "reply", name: "id behind #", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","reply_to":"#{theirs}"}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{task: "reply", name: "address of the entry", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","reply_to":"https://commons.example/api/entries/{theirs}"}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{task: "reply", name: "number alone", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","reply_to":"{number}"}`, says: "there is {theirs}", holds: `"supersedes":"{theirs}","relation":"reply"`},
	{task: "reply", name: "unknown id", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","reply_to":"e9999"}`, says: "GET /api/entries lists them", then: entries + ` {"agent":"me-{N}","body":"My text {N}","reply_to":"{theirs}"}`, holds: `"relation":"reply"`},
	{task: "reply", name: "POST to the entry", method: post, path: entries + "/{theirs}", body: `{"agent":"me-{N}","body":"My text {N}"}`, says: `reply_to\":\"{theirs}`, then: entries + ` {"agent":"me-{N}","body":"My text {N}","reply_to":"{theirs}"}`, holds: `"relation":"reply"`},
	{task: "reply", name: "POST to its replies", method: post, path: entries + "/{theirs}/replies", body: `{"agent":"me-{N}","body":"My text {N}"}`, says: "POST /api/entries", then: entries + ` {"agent":"me-{N}","body":"My text {N}","reply_to":"{theirs}"}`, holds: `"relation":"reply"`},

	{task: "correct", name: "PUT", method: http.MethodPut, path: entries + "/{mine}", body: `{"agent":"me-{N}","body":"My text {N}"}`, says: `supersedes\":\"{mine}`, then: entries + ` {"agent":"me-{N}","supersedes":"{mine}","relation":"correction","body":"My text {N}"}`, holds: `"relation":"correction"`},
	{task: "correct", name: "relation without supersedes", method: post, path: entries, body: `{"agent":"me-{N}","body":"My text {N}","relation":"correction"}`, says: "needs supersedes", then: entries + ` {"agent":"me-{N}","supersedes":"{mine}","body":"My text {N}"}`, holds: `"relation":"correction"`},
	{task: "retract", name: "DELETE", method: http.MethodDelete, path: entries + "/{mine}", says: `supersedes\":\"{mine}`, then: entries + ` {"agent":"me-{N}","supersedes":"{mine}","relation":"retraction"}`, holds: `"relation":"retraction"`},
	{task: "retract", name: "no text", method: post, path: entries, body: `{"agent":"me-{N}","supersedes":"{mine}","relation":"retraction"}`, holds: `"relation":"retraction"`},

	{task: "profile", name: "name and bio", method: post, path: agents, body: `{"name":"me-{N}","bio":"Looks around."}`, holds: `"description":"Looks around."`},
	{task: "profile", name: "/api/register", method: post, path: "/api/register", body: `{"id":"me-{N}"}`, says: "/api/agents", then: agents + ` {"id":"me-{N}","description":"Looks around."}`, holds: `"edit_key"`},
	{task: "profile", name: "no description", method: post, path: agents, body: `{"id":"me-{N}"}`, says: "is required for a new name", then: agents + ` {"id":"me-{N}","description":"Looks around."}`, holds: `"edit_key"`},
	{task: "profile", name: "PATCH", method: http.MethodPatch, path: agents + "/{registered}", body: `{"note":"Mine."}`, says: "edit_key", then: agents + ` {"id":"{registered}","note":"Mine.","edit_key":"{key}"}`, holds: `"note":"Mine."`},
	{task: "profile", name: "lost key", method: post, path: agents, body: `{"id":"{registered}","note":"Mine."}`, says: "its first registration returned it", holds: `"id":"{registered}"`},
	{task: "return", name: "the name as agent", method: get, path: "/api/home?agent=me-{N}", holds: `"agent":"me-{N}"`},
	{task: "return", name: "/api/notifications", method: get, path: "/api/notifications", says: "/api/home", then: "/api/home?for=me-{N}", holds: `"agent":"me-{N}"`},
	{task: "return", name: "home without a name", method: get, path: "/api/home", says: "is required: the name of the agent", then: "/api/home?for=me-{N}", holds: `"agent":"me-{N}"`},

	{task: "job", name: "action take, jobId", method: post, path: jobs, body: `{"agent":"me-{N}","action":"take","jobId":"{open}"}`, holds: `"status":"claimed"`},
	{task: "job", name: "id for job_id", method: post, path: jobs, body: `{"agent":"me-{N}","action":"claim","id":"{open}"}`, holds: `"status":"claimed"`},
	{task: "job", name: "POST to /claim", method: post, path: jobs + "/{open}/claim", body: `{"agent":"me-{N}"}`, says: "POST /api/jobs (Post, claim", then: jobs + ` {"agent":"me-{N}","action":"claim","job_id":"{open}"}`, holds: `"status":"claimed"`},
	{task: "job", name: "action start", method: post, path: jobs, body: `{"agent":"me-{N}","action":"start","job_id":"{open}"}`, says: "must be post (the default), claim", then: jobs + ` {"agent":"me-{N}","action":"claim","job_id":"{open}"}`, holds: `"status":"claimed"`},
	{task: "job", name: "no job_id", method: post, path: jobs, body: `{"agent":"me-{N}","action":"claim"}`, says: "GET /api/jobs", then: jobs + ` {"agent":"me-{N}","action":"claim","job_id":"{open}"}`, holds: `"status":"claimed"`},
	{task: "job", name: "claimed by another", method: post, path: jobs, body: `{"agent":"me-{N}","action":"result","job_id":"{taken}","result":"My result {N}"}`, says: "reply_to {taken}", then: entries + ` {"agent":"me-{N}","body":"My result {N}","reply_to":"{taken}"}`, holds: `"relation":"reply"`},
	{task: "job", name: "action deliver, text in body", method: post, path: jobs, body: `{"agent":"me-{N}","action":"deliver","job_id":"{held}","body":"My result {N}"}`, holds: `"status":"done"`},
	{task: "job", name: "action complete", method: post, path: jobs, body: `{"agent":"me-{N}","action":"complete","job_id":"{held}","result":"My result {N}"}`, holds: `"status":"done"`},
	{task: "job", name: "result without a claim", method: post, path: jobs, body: `{"agent":"me-{N}","action":"result","job_id":"{open}","result":"My result {N}"}`, says: "claim it first", holds: `"status":"claimed"`},
	{task: "job", name: "id of the claim", method: post, path: jobs, body: `{"agent":"me-{N}","action":"result","job_id":"{claim}","result":"My result {N}"}`, says: "there is {held}", holds: `"status":"done"`},
	{task: "job", name: "result for a mistyped id", method: post, path: jobs, body: `{"agent":"me-{N}","action":"result","job_id":"{held}x","result":"My result {N}"}`, says: "names no job", holds: `"status":"done"`},
	{task: "human", name: "title and description", method: post, path: humans, body: `{"agent":"me-{N}","title":"Look at the sea","description":"Say what colour it is."}`, holds: `"goal":"Look at the sea"`},
	{task: "human", name: "/api/help", method: post, path: "/api/help", body: `{"agent":"me-{N}","goal":"Look"}`, says: "/api/human-requests", then: humans + ` {"agent":"me-{N}","goal":"Look at the sea","requested_action":"Say what colour it is."}`, holds: `"status":"open"`},

	{task: "A2A", name: "a question to the service", method: post, path: "/a2a/v1/message:send", body: `{"message":{"messageId":"q-{N}","role":"ROLE_USER","parts":[{"text":"What can you do?"}]}}`, holds: "Commands: help"},
	{task: "A2A", name: "wrong role", method: post, path: "/a2a/v1/message:send", body: `{"message":{"messageId":"q-{N}","role":"human","parts":[{"text":"My text {N}"}]}}`, says: "must be user", then: `/a2a/v1/message:send {"message":{"messageId":"q-{N}","role":"ROLE_USER","parts":[{"text":"My text {N}"}]}}`, holds: "Published"},
	{task: "A2A", name: "read as a text", method: post, path: "/a2a/v1/message:send", body: say(`{"text":"read {theirs}"}`), says: `{\"command\": \"read\"`, then: "/a2a/v1/message:send " + say(`{"data":{"command":"read","id":"{theirs}"}}`), holds: "An entry of theirs"},
	{task: "A2A", name: "an unknown command", method: post, path: "/a2a/v1/message:send", body: say(`{"data":{"command":"inbox","agent":"me-{N}"}}`), says: "must be one of home, jobs", then: "/a2a/v1/message:send " + say(`{"data":{"command":"home","agent":"me-{N}"}}`), holds: "Nothing new for me-{N}"},
	{task: "MCP", name: "search", method: post, path: "/mcp", body: tool(`"search","arguments":{"query":"lighthouse"}`), says: "tools/list", then: "/mcp " + tool(`"read_entries","arguments":{"q":"lighthouse"}`), holds: "lighthouse is lit"},
	{task: "MCP", name: "post", method: post, path: "/mcp", body: tool(`"post","arguments":{"text":"My text {N}"}`), says: "tools/list", then: "/mcp " + tool(`"publish_message","arguments":{"agent":"me-{N}","body":"My text {N}"}`), holds: "Published"},
	{task: "MCP", name: "reply", method: post, path: "/mcp", body: tool(`"reply","arguments":{"id":"{theirs}","text":"My text {N}"}`), says: "tools/list", then: "/mcp " + tool(`"publish_message","arguments":{"agent":"me-{N}","reply_to":"{theirs}","body":"My text {N}"}`), holds: "Published"},
	{task: "MCP", name: "finish_job", method: post, path: "/mcp", body: tool(`"finish_job","arguments":{"agent":"me-{N}","job_id":"{held}","result":"My result {N}"}`), says: "tools/list", then: "/mcp " + tool(`"submit_job_result","arguments":{"agent":"me-{N}","job_id":"{held}","result":"My result {N}"}`), holds: "is done"},
	{task: "MCP", name: "entry_id for id", method: post, path: "/mcp", body: tool(`"get_entry","arguments":{"entry_id":"#{THEIRS}"}`), holds: "{theirs}"},
	{task: "MCP", name: "unknown tool", method: post, path: "/mcp", body: tool(`"publish","arguments":{}`), says: "publish_message", then: "/mcp " + tool(`"publish_message","arguments":{"agent":"me-{N}","text":"My text {N}"}`), holds: "Published"},
	{task: "MCP", name: "no id", method: post, path: "/mcp", body: tool(`"claim_job","arguments":{"agent":"me-{N}"}`), says: "list_jobs", then: "/mcp " + tool(`"claim_job","arguments":{"agent":"me-{N}","id":"{open}"}`), holds: "claimed by me-{N}"},
	{task: "MCP", name: "claimed by another", method: post, path: "/mcp", body: tool(`"submit_job_result","arguments":{"agent":"me-{N}","job_id":"{taken}","result":"My result {N}"}`), says: "publish_message with reply_to {taken}", then: "/mcp " + tool(`"publish_message","arguments":{"agent":"me-{N}","body":"My result {N}","reply_to":"{taken}"}`), holds: "Published"},
}

// say sends a part by A2A.
func say(part string) string {
	return `{"message":{"messageId":"q-{N}","role":"ROLE_USER","parts":[` + part + `]}}`
}

func tool(call string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":` + call + `}}`
}

// failed reports whether a call was rejected, on whichever surface.
func (a *answer) failed() bool {
	return a.Status >= http.StatusBadRequest || strings.Contains(string(a.Body), `"isError":true`) || strings.Contains(string(a.Body), `"error":{`)
}

// maxWrongTurns is the number of mistakes that take a further call. It may only fall, except for new
// mistakes.
const maxWrongTurns = 44

// makeMistakes makes all of them, and writes what each costs.
func (v *visitor) makeMistakes(table *strings.Builder) {
	table.WriteString("\n## Mistakes\n\n| task | mistake | further calls | by | bytes sent | bytes received |\n|---|---|---|---|---|---|\n")
	wrong := 0
	for i := range mistakes {
		m := &mistakes[i]
		names := v.prepare(i, m)
		before := v.mark()
		by := v.follow(m, names)
		if calls := v.calls - before.calls; calls > 2 {
			harness.Failf("%s, %s: %d calls", m.task, m.name, calls)
		}
		further := v.calls - before.calls - 1
		wrong += further
		fmt.Fprintf(table, "| %s | %s | %d | %s | %d | %d |\n", m.task, m.name, further, by, v.sent-before.sent, v.got-before.got)
	}
	fmt.Fprintf(table, "\n%d of %d mistakes are wrong turns: they take a further call.\n", wrong, len(mistakes))
	if wrong > maxWrongTurns {
		harness.Failf("%d mistakes take a further call; at most %d may", wrong, maxWrongTurns)
	}
}

// follow makes a mistake and the further call that its answer leads to, and returns
// the part of the answer that led to it.
func (v *visitor) follow(m *mistake, names *strings.Replacer) (by string) {
	path, body := names.Replace(m.path), names.Replace(m.body)
	a := v.call(m.method, path, body, m.header...)
	if !strings.Contains(string(a.Body), names.Replace(m.says)) {
		harness.Failf("%s, %s: %s %s is answered %s, which does not say %q", m.task, m.name, m.method, body, a.Body, names.Replace(m.says))
	}
	then := names.Replace(m.then)
	switch example := a.example(); {
	case then != "":
		path, body, _ = strings.Cut(then, " ")
		if by = "the text"; body == "" {
			a = v.call(get, path, "")
		} else {
			a = v.call(post, path, body)
		}
	case !a.failed():
		by = "—"
	case example == "":
		harness.Failf("%s, %s: %s is answered %s: nothing to go on with", m.task, m.name, body, a.Body)
	case m.method == get:
		by = "the example"
		path, _, _ = strings.Cut(path, "?")
		a = v.call(get, path+"?"+query(example), "")
	default:
		by = "the example"
		a = v.call(m.method, path, example)
	}
	if a.failed() || !strings.Contains(string(a.Body), names.Replace(m.holds)) {
		harness.Failf("%s, %s: %d %s, want %q", m.task, m.name, a.Status, a.Body, names.Replace(m.holds))
	}
	return by
}
