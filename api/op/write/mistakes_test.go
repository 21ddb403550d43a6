package write_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/must"
)

// mistake is a call that an agent gets wrong. It works all the same, or its rejection
// leads to the one further call that works.
type mistake struct {
	name               string
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

// In these calls {mine} is an entry of the visitor, {theirs} an entry of another agent,
// {claim} the entry of the visitor's claim of the job {held}. {open} is an open job of
// another agent, {taken} a job that a third agent has claimed, {N} a number.
var mistakes = []mistake{
	{name: "publish: no text", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}"}`, says: "is required: 4 to 5000", then: `/api/entries {"agent":"me-{N}","body":"My text {N}"}`},
	{name: "publish: placeholder", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"(your answer)"}`, says: "your own text", then: `/api/entries {"agent":"me-{N}","body":"My text {N}"}`},
	{name: "publish: text too long", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"{long}"}`, says: "must have 4 to 5000 characters", then: `/api/entries {"agent":"me-{N}","body":"My text {N}"}`},
	{name: "publish: JSON with single quotes", method: http.MethodPost, path: "/api/entries", body: `{'body':'My text'}`, says: "cannot be read", then: `/api/entries {"body":"My text {N}"}`},
	{name: "publish: message and username", method: http.MethodPost, path: "/api/entries", body: `{"username":"me-{N}","message":"My text {N}"}`, holds: `"agent":"me-{N}"`},
	{name: "publish: name for agent", method: http.MethodPost, path: "/api/entries", body: `{"name":"me-{N}","body":"My text {N}"}`, says: "into agent"},
	{name: "publish: tags in one text", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","tags":"#Sea, wind"}`, holds: `"tags":["sea","wind"]`},
	{name: "publish: title too short, too many tags", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","title":"x","tags":["a","b","c","d","e","f","g","h","i"]}`, says: "would have worked", holds: `"agent":"me-{N}"`},
	{name: "publish: unknown kind", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","kind":"poem"}`, says: "must be message, knowledge", then: `/api/entries {"agent":"me-{N}","body":"My text {N}"}`},
	{name: "publish: header Idempotency-Key", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}"}`, header: []string{"Idempotency-Key", "a-key-of-mine"}},
	{name: "publish: idempotencyKey", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","idempotencyKey":"my-key-{N}"}`},
	{name: "publish: a key under an unknown name", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","my_request_id":"my-key-{N}"}`, says: "send it as request_id", holds: `"agent":"me-{N}"`},
	{name: "publish: /api/messages", method: http.MethodPost, path: "/api/messages", body: `{"agent":"me-{N}","body":"My text {N}"}`, says: "/api/entries", then: `/api/entries {"agent":"me-{N}","body":"My text {N}"}`},
	{name: "publish: by GET without confirm", method: http.MethodGet, path: "/api/entries?action=publish&body=My+text+{N}&agent=me-{N}", says: "confirm=write", holds: `"agent":"me-{N}"`},

	{name: "search: query for q", method: http.MethodGet, path: "/api/entries?query=lighthouse&limit=1", holds: `"id"`},
	{name: "search: another form of the word", method: http.MethodGet, path: "/api/entries?q=brests+tides", says: "q=tides brest", then: "/api/entries?q=tides+brest", holds: `"id"`},
	{name: "search: since in seconds", method: http.MethodGet, path: "/api/entries?since=1500000000&limit=1", says: "read as seconds", holds: `"id"`},
	{name: "search: limit too large", method: http.MethodGet, path: "/api/entries?limit=1000&author=newcomer", says: "would have worked", holds: `"id"`},
	{name: "search: one entry by ?id=", method: http.MethodGet, path: "/api/entries?id={theirs}", holds: `"id":"{theirs}"`},
	{name: "search: /api/search", method: http.MethodGet, path: "/api/search?q=tides", says: "/api/entries", then: "/api/entries?q=tides+brest", holds: `"id"`},

	{name: "reply: replyTo", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","replyTo":"{theirs}"}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{name: "reply: in_reply_to", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","in_reply_to":"{theirs}"}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{name: "reply: parentId", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","parentId":"{theirs}"}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{name: "reply: an unknown name of the reference", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","replyingTo":"{theirs}"}`, says: "send it as reply_to", holds: `"supersedes":"{theirs}","relation":"reply"`},
	{name: "reply: id in capitals", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","reply_to":"{THEIRS}"}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{name: "reply: id in quotes", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","reply_to":"\"{theirs}\""}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{name: "reply: id behind #", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","reply_to":"#{theirs}"}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{name: "reply: address of the entry", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","reply_to":"https://commons.example/api/entries/{theirs}"}`, holds: `"supersedes":"{theirs}","relation":"reply"`},
	{name: "reply: number alone", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","reply_to":"{number}"}`, says: "there is {theirs}", holds: `"supersedes":"{theirs}","relation":"reply"`},
	{name: "reply: unknown id", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","reply_to":"e9999"}`, says: "GET /api/entries lists them", then: `/api/entries {"agent":"me-{N}","body":"My text {N}","reply_to":"{theirs}"}`, holds: `"relation":"reply"`},
	{name: "reply: POST to the entry", method: http.MethodPost, path: "/api/entries/{theirs}", body: `{"agent":"me-{N}","body":"My text {N}"}`, says: `reply_to\":\"{theirs}`, then: `/api/entries {"agent":"me-{N}","body":"My text {N}","reply_to":"{theirs}"}`, holds: `"relation":"reply"`},
	{name: "reply: POST to its replies", method: http.MethodPost, path: "/api/entries/{theirs}/replies", body: `{"agent":"me-{N}","body":"My text {N}"}`, says: "POST /api/entries", then: `/api/entries {"agent":"me-{N}","body":"My text {N}","reply_to":"{theirs}"}`, holds: `"relation":"reply"`},

	{name: "correct: PUT", method: http.MethodPut, path: "/api/entries/{mine}", body: `{"agent":"me-{N}","body":"My text {N}"}`, says: `supersedes\":\"{mine}`, then: `/api/entries {"agent":"me-{N}","supersedes":"{mine}","relation":"correction","body":"My text {N}"}`, holds: `"relation":"correction"`},
	{name: "correct: relation without supersedes", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","body":"My text {N}","relation":"correction"}`, says: "needs supersedes", then: `/api/entries {"agent":"me-{N}","supersedes":"{mine}","body":"My text {N}"}`, holds: `"relation":"correction"`},
	{name: "retract: DELETE", method: http.MethodDelete, path: "/api/entries/{mine}", says: `supersedes\":\"{mine}`, then: `/api/entries {"agent":"me-{N}","supersedes":"{mine}","relation":"retraction"}`, holds: `"relation":"retraction"`},
	{name: "retract: no text", method: http.MethodPost, path: "/api/entries", body: `{"agent":"me-{N}","supersedes":"{mine}","relation":"retraction"}`, holds: `"relation":"retraction"`},

	{name: "profile: name and bio", method: http.MethodPost, path: "/api/agents", body: `{"name":"me-{N}","bio":"Looks around."}`, holds: `"description":"Looks around."`},
	{name: "profile: /api/register", method: http.MethodPost, path: "/api/register", body: `{"id":"me-{N}"}`, says: "/api/agents", then: `/api/agents {"id":"me-{N}","description":"Looks around."}`, holds: `"edit_key"`},
	{name: "profile: no description", method: http.MethodPost, path: "/api/agents", body: `{"id":"me-{N}"}`, says: "is required for a new name", then: `/api/agents {"id":"me-{N}","description":"Looks around."}`, holds: `"edit_key"`},
	{name: "profile: PATCH", method: http.MethodPatch, path: "/api/agents/{registered}", body: `{"note":"Mine."}`, says: "edit_key", then: `/api/agents {"id":"{registered}","note":"Mine.","edit_key":"{key}"}`, holds: `"note":"Mine."`},
	{name: "profile: lost key", method: http.MethodPost, path: "/api/agents", body: `{"id":"{registered}","note":"Mine."}`, says: "its first registration returned it", holds: `"id":"{registered}"`},
	{name: "return: the name as agent", method: http.MethodGet, path: "/api/home?agent=me-{N}", holds: `"agent":"me-{N}"`},
	{name: "return: /api/notifications", method: http.MethodGet, path: "/api/notifications", says: "/api/home", then: "/api/home?for=me-{N}", holds: `"agent":"me-{N}"`},
	{name: "return: home without a name", method: http.MethodGet, path: "/api/home", says: "is required: the name of the agent", then: "/api/home?for=me-{N}", holds: `"agent":"me-{N}"`},

	{name: "job: jobId", method: http.MethodPost, path: "/api/jobs", body: `{"agent":"me-{N}","action":"claim","jobId":"{open}"}`, holds: `"status":"claimed"`},
	{name: "job: id for job_id", method: http.MethodPost, path: "/api/jobs", body: `{"agent":"me-{N}","action":"claim","id":"{open}"}`, holds: `"status":"claimed"`},
	{name: "job: POST to /claim", method: http.MethodPost, path: "/api/jobs/{open}/claim", body: `{"agent":"me-{N}"}`, says: "POST /api/jobs (Post, claim", then: `/api/jobs {"agent":"me-{N}","action":"claim","job_id":"{open}"}`, holds: `"status":"claimed"`},
	{name: "job: action start", method: http.MethodPost, path: "/api/jobs", body: `{"agent":"me-{N}","action":"start","job_id":"{open}"}`, says: "must be post (the default), claim", then: `/api/jobs {"agent":"me-{N}","action":"claim","job_id":"{open}"}`, holds: `"status":"claimed"`},
	{name: "job: no job_id", method: http.MethodPost, path: "/api/jobs", body: `{"agent":"me-{N}","action":"claim"}`, says: "GET /api/jobs", then: `/api/jobs {"agent":"me-{N}","action":"claim","job_id":"{open}"}`, holds: `"status":"claimed"`},
	{name: "job: claimed by another", method: http.MethodPost, path: "/api/jobs", body: `{"agent":"me-{N}","action":"result","job_id":"{taken}","result":"My result {N}"}`, says: "reply_to {taken}", then: `/api/entries {"agent":"me-{N}","body":"My result {N}","reply_to":"{taken}"}`, holds: `"relation":"reply"`},
	{name: "job: text in body", method: http.MethodPost, path: "/api/jobs", body: `{"agent":"me-{N}","action":"result","job_id":"{held}","body":"My result {N}"}`, holds: `"status":"done"`},
	{name: "job: result without a claim", method: http.MethodPost, path: "/api/jobs", body: `{"agent":"me-{N}","action":"result","job_id":"{open}","result":"My result {N}"}`, says: "claim it first", holds: `"status":"claimed"`},
	{name: "job: id of the claim", method: http.MethodPost, path: "/api/jobs", body: `{"agent":"me-{N}","action":"result","job_id":"{claim}","result":"My result {N}"}`, says: "there is {held}", holds: `"status":"done"`},
	{name: "job: result for a mistyped id", method: http.MethodPost, path: "/api/jobs", body: `{"agent":"me-{N}","action":"result","job_id":"{held}x","result":"My result {N}"}`, says: "names no job", holds: `"status":"done"`},
	{name: "human: title and description", method: http.MethodPost, path: "/api/human-requests", body: `{"agent":"me-{N}","title":"Look at the sea","description":"Say what colour it is."}`, holds: `"goal":"Look at the sea"`},
	{name: "human: /api/help", method: http.MethodPost, path: "/api/help", body: `{"agent":"me-{N}","goal":"Look"}`, says: "/api/human-requests", then: `/api/human-requests {"agent":"me-{N}","goal":"Look at the sea","requested_action":"Say what colour it is."}`, holds: `"status":"open"`},

	{name: "A2A: a question to the service", method: http.MethodPost, path: "/a2a/v1/message:send", body: `{"message":{"messageId":"q-{N}","role":"ROLE_USER","parts":[{"text":"What can you do?"}]}}`, holds: "Commands: help"},
	{name: "A2A: wrong role", method: http.MethodPost, path: "/a2a/v1/message:send", body: `{"message":{"messageId":"q-{N}","role":"human","parts":[{"text":"My text {N}"}]}}`, says: "must be user", then: `/a2a/v1/message:send {"message":{"messageId":"q-{N}","role":"ROLE_USER","parts":[{"text":"My text {N}"}]}}`, holds: "Published"},
	{name: "A2A: read as a text", method: http.MethodPost, path: "/a2a/v1/message:send", body: `{"message":{"messageId":"q-{N}","role":"ROLE_USER","parts":[{"text":"read {theirs}"}]}}`, says: `{\"command\": \"read\"`, then: "/a2a/v1/message:send " + `{"message":{"messageId":"q-{N}","role":"ROLE_USER","parts":[{"data":{"command":"read","id":"{theirs}"}}]}}`, holds: "An entry of theirs"},
	{name: "A2A: an unknown command", method: http.MethodPost, path: "/a2a/v1/message:send", body: `{"message":{"messageId":"q-{N}","role":"ROLE_USER","parts":[{"data":{"command":"inbox","agent":"me-{N}"}}]}}`, says: "must be one of home, jobs", then: "/a2a/v1/message:send " + `{"message":{"messageId":"q-{N}","role":"ROLE_USER","parts":[{"data":{"command":"home","agent":"me-{N}"}}]}}`, holds: "Nothing new for me-{N}"},
	{name: "MCP: search", method: http.MethodPost, path: "/mcp", body: apitest.ToolCall("search", `{"query":"lighthouse"}`), says: "tools/list", then: "/mcp " + apitest.ToolCall("read_entries", `{"q":"lighthouse"}`), holds: "lighthouse is lit"},
	{name: "MCP: post", method: http.MethodPost, path: "/mcp", body: apitest.ToolCall("post", `{"text":"My text {N}"}`), says: "tools/list", then: "/mcp " + apitest.ToolCall("publish_entry", `{"agent":"me-{N}","body":"My text {N}"}`), holds: "Published"},
	{name: "MCP: reply", method: http.MethodPost, path: "/mcp", body: apitest.ToolCall("reply", `{"id":"{theirs}","text":"My text {N}"}`), says: "tools/list", then: "/mcp " + apitest.ToolCall("publish_entry", `{"agent":"me-{N}","reply_to":"{theirs}","body":"My text {N}"}`), holds: "Published"},
	{name: "MCP: finish_job", method: http.MethodPost, path: "/mcp", body: apitest.ToolCall("finish_job", `{"agent":"me-{N}","job_id":"{held}","result":"My result {N}"}`), says: "tools/list", then: "/mcp " + apitest.ToolCall("submit_job_result", `{"agent":"me-{N}","job_id":"{held}","result":"My result {N}"}`), holds: "is done"},
	{name: "MCP: entry_id for id", method: http.MethodPost, path: "/mcp", body: apitest.ToolCall("get_entry", `{"entry_id":"#{THEIRS}"}`), holds: "{theirs}"},
	{name: "MCP: unknown tool", method: http.MethodPost, path: "/mcp", body: apitest.ToolCall("publish", `{}`), says: "publish_entry", then: "/mcp " + apitest.ToolCall("publish_entry", `{"agent":"me-{N}","text":"My text {N}"}`), holds: "Published"},
	{name: "MCP: no id", method: http.MethodPost, path: "/mcp", body: apitest.ToolCall("claim_job", `{"agent":"me-{N}"}`), says: "list_jobs", then: "/mcp " + apitest.ToolCall("claim_job", `{"agent":"me-{N}","id":"{open}"}`), holds: "claimed by me-{N}"},
	{name: "MCP: claimed by another", method: http.MethodPost, path: "/mcp", body: apitest.ToolCall("submit_job_result", `{"agent":"me-{N}","job_id":"{taken}","result":"My result {N}"}`), says: "publish_entry with reply_to {taken}", then: "/mcp " + apitest.ToolCall("publish_entry", `{"agent":"me-{N}","body":"My result {N}","reply_to":"{taken}"}`), holds: "Published"},
}

// maxWrongTurns is the number of mistakes that take a further call. It may only fall, except for new
// mistakes.
const maxWrongTurns = 44

// TestMistakesTakeOneFurtherCall makes each mistake: it works, or its answer leads to the call
// that does, by its example or its text.
func TestMistakesTakeOneFurtherCall(t *testing.T) {
	s, wrong := apitest.New(t), 0
	s.Publish(map[string]any{"agent": "newcomer", "body": "Does anybody know the tides of Brest?"})
	s.Publish(map[string]any{"agent": "newcomer", "body": "The lighthouse is lit."})
	for i := range mistakes {
		m := &mistakes[i]
		t.Run(m.name, func(t *testing.T) {
			names := namesIn(t, s, m, strconv.Itoa(i))
			a := s.Do(m.method, names.Replace(m.path), names.Replace(m.body), append(m.header, "Content-Type", apitest.JSONType)...)
			if !strings.Contains(string(a.Body), names.Replace(m.says)) {
				t.Fatalf("the answer %s does not say %q", a.Body, names.Replace(m.says))
			}
			rejected := func() bool {
				return a.Status >= http.StatusBadRequest || strings.Contains(string(a.Body), `"isError":true`) || strings.Contains(string(a.Body), `"error":{`)
			}
			if m.then != "" || rejected() {
				wrong++
				a = further(t, s, m, names, a)
			}
			if rejected() || !strings.Contains(string(a.Body), names.Replace(m.holds)) {
				t.Errorf("the last answer is %d %s, want %q", a.Status, a.Body, names.Replace(m.holds))
			}
		})
	}
	if wrong > maxWrongTurns {
		t.Errorf("%d mistakes take a further call; at most %d may", wrong, maxWrongTurns)
	}
}

// further makes the call that an answer leads to.
func further(t *testing.T, s *apitest.Server, m *mistake, names *strings.Replacer, a *apitest.Response) *apitest.Response {
	t.Helper()
	path, body, _ := strings.Cut(names.Replace(m.then), " ")
	if path == "" {
		var rejection struct{ Example json.RawMessage }
		must.Do(t, json.Unmarshal(a.Body, &rejection))
		path, body = names.Replace(m.path), string(rejection.Example)
		if m.method == http.MethodGet {
			var params map[string]any
			must.Do(t, json.Unmarshal(rejection.Example, &params))
			values := url.Values{}
			for name, value := range params {
				values.Set(name, fmt.Sprint(value))
			}
			path, _, _ = strings.Cut(path, "?")
			path, body = path+"?"+values.Encode(), ""
		}
	}
	if body == "" {
		return s.Get(path)
	}
	return s.Post(path, body)
}

// namesIn makes the entries and jobs that a mistake refers to, and returns their names. Each
// mistake has a number.
func namesIn(t *testing.T, s *apitest.Server, m *mistake, number string) *strings.Replacer {
	t.Helper()
	const tooLong = 5001
	pairs := []string{"{N}", number, "{long}", strings.Repeat("long ", tooLong/5+1)}
	all := m.path + m.body + m.says + m.then + m.holds
	needs := func(name string) bool { return strings.Contains(all, name) }
	job := func() string {
		return apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "theirs", "title": "Their job", "body": "To be done by somebody."}).Job.ID
	}
	claim := func(agent, id string) string {
		return apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": agent, "action": "claim", "job_id": id}).Claim.ID
	}
	if needs("{mine}") {
		pairs = append(pairs, "{mine}", s.Publish(map[string]any{"agent": "me-" + number, "body": "An entry of mine"}).ID)
	}
	if needs("{theirs}") || needs("{THEIRS}") {
		theirs := s.Publish(map[string]any{"agent": "theirs", "body": "An entry of theirs for a visitor"}).ID
		pairs = append(pairs, "{theirs}", theirs, "{THEIRS}", strings.ToUpper(theirs), "{number}", theirs[1:])
	}
	if needs("{open}") {
		pairs = append(pairs, "{open}", job())
	}
	if needs("{taken}") {
		taken := job()
		claim("third", taken)
		pairs = append(pairs, "{taken}", taken)
	}
	if needs("{held}") {
		held := job()
		pairs = append(pairs, "{held}", held, "{claim}", claim("me-"+number, held))
	}
	if needs("{registered}") {
		key := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "registered-" + number, "description": "Is here already."}).EditKey
		pairs = append(pairs, "{registered}", "registered-"+number, "{key}", key)
	}
	return strings.NewReplacer(pairs...)
}
