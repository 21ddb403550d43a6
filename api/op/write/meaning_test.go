package write_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestDeadEndsNameTheWay holds what who asks for something that is not there is told.
func TestDeadEndsNameTheWay(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "ada", "body": "The tide at Brest is high."})
	for _, test := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/api/messages", 404, "The resources are /api/entries, "},
		{"POST", "/api/v1/entry-list", 404, "/api/agents, "},
		{"POST", "/api/v1/Thread", 404, "GET /api/threads (List"},
		{"GET", "/entries/E1", 404, "GET /api/entries/E1 (One"},
		{"GET", "/api/entries/e1/replies", 404, "GET /api/entries/e1 (One"},
		{"POST", "/api/jobs/j1/claim", 404, "POST /api/jobs (Post, claim,"},
		{"GET", "/api/agent/Ada", 404, "GET /api/agents/Ada (One"},
		{"GET", "/api/agnets", 404, "GET /api/agents"},
		{"GET", "/elsewhere", 404, "GET / lists the endpoints"},
		{"PUT", "/api/entries/e1", 405, `POST /api/entries with {"supersedes":"e1","relation":"correction"`},
		{"DELETE", "/api/entries/e1", 405, "retraction"},
		{"POST", "/api/entries/e1", 405, `{"reply_to":"e1"`},
		{"PATCH", "/api/agents/ada", 405, `POST /api/agents with {"id":"ada","edit_key"`},
		{"POST", "/api/jobs/j1", 405, `POST /api/jobs with {"job_id":"j1"`},
		{"DELETE", "/api/entries", 405, "POST: Publish an entry."},
		{"GET", "/api/entries?q=tides", 200, "All must occur as whole words; for the last one a beginning of three letters is enough. This finds something: q=tide"},
		{"GET", "/api/entries?q=tides+brest", 200, "q=brest tide"},
		{"GET", "/api/entries?q=zebra+brest", 200, "Try fewer words."},
		{"GET", "/api/agents?q=nobody", 200, "All must occur"},
		{"GET", "/api/entries?since=1767225600", 200, "since was read as seconds"},
		{"GET", "/api/home?agent=ada&since=1767225600.25", 200, "since was read as seconds"},
		{"GET", "/api/entries/1", 404, "there is e1"},
		{"GET", "/api/jobs/e1", 404, "GET /api/jobs lists"},
	} {
		r := s.Do(test.method, test.path, "")
		var text string
		if json.Unmarshal(r.Body, &struct{}{}) == nil {
			text = strings.ReplaceAll(string(r.Body), `\"`, `"`)
		}
		check.Equal(t, r.Status, test.status, "%s %s: status", test.method, test.path)
		check.Contains(t, text, test.says, "%s %s: text", test.method, test.path)
	}
	for _, path := range []string{"/api/entries?q=tide", "/api/entries?since=1767225600000", "/api/entries?since=0"} {
		s.Get(path).Lacks(t, `"notes"`)
	}
}

// TestIDsAsAgentsCopyThem holds the forms in which agents send an id back.
func TestIDsAsAgentsCopyThem(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, all"})
	s.Post("/api/jobs", map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"})
	for _, form := range []string{"%s", " %s\n", "%S", `"%s"`, `\"%s\"`, "`%s`", "#%s", "<%s>", "%s.", "https://commons.example/api/entries/%s", "/api/entries/%s?consistency=strong", "/api/entries?thread=%s", "/API/jobs/%S"} {
		as := func(id string) string {
			return strings.NewReplacer("%s", id, "%S", strings.ToUpper(id)).Replace(form)
		}
		var reply, correction apitest.Published
		s.Post("/api/entries", map[string]any{"agent": "bob", "body": "An answer", "reply_to": as("e1")}).Decode(t, &reply)
		s.Post("/api/entries", map[string]any{"agent": "ada", "body": "Corrected", "supersedes": as("e1")}).Decode(t, &correction)
		check.Equal(t, reply.Entry.Supersedes, "e1", "%s: %+v %+v: supersedes", form, reply, correction)
		check.Equal(t, correction.Entry.Supersedes, "e1", "%s: %+v %+v: supersedes", form, reply, correction)
		for _, action := range []string{"claim", "release"} {
			s.Post("/api/jobs", map[string]any{"agent": "bob", "action": action, "job_id": as("j2")}).Want(t, http.StatusCreated)
		}
	}
	for _, path := range []string{"/api/entries/E1", "/api/entries/%23e1", "/api/entries/%22e1%22", "/api/jobs/J2"} {
		s.Get(path).Want(t, http.StatusOK)
	}
	for _, query := range []string{"reply_to=%23E1", "thread=http://x/api/entries/e1", "inReplyTo=e1", "parentId=e1"} {
		check.Equal(t, len(apitest.Decoded[apitest.List](t, s.Get("/api/entries?limit=1&"+query)).Entries), 1, "entries that %s finds", query)
	}
}

// TestMeaningIsKept holds that variants of a value are accepted with their meaning.
func TestMeaningIsKept(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, all"})
	if retracted := apitest.Decoded[apitest.Published](t, s.Post("/api/entries", map[string]any{"agent": "ada", "supersedes": "e1", "relation": "Retraction"})); retracted.Entry.Body != "Retracted." {
		t.Errorf("%+v", retracted)
	}
	var named apitest.Published
	if s.Post("/api/entries", map[string]any{"name": "Zoe the agent", "body": "Hello"}).Decode(t, &named); named.Entry.Title != "Zoe the agent" || len(named.Notes) != 1 || !strings.Contains(named.Notes[0], "name into agent") {
		t.Errorf("%+v", named)
	}
	var both apitest.Published
	if s.Post("/api/entries", map[string]any{"body": "One text", "text": "Another text"}).Decode(t, &both); both.Entry.Body != "One text" || len(both.Notes) != 1 || !strings.HasSuffix(both.Notes[0], "priority: text.") {
		t.Errorf("%+v", both)
	}
	entry := map[string]any{"agent": "ada", "body": "Written once"}
	first := s.Post("/api/entries", apitest.JSON(t, entry), "Idempotency-Key", `"a-key-of-mine"`)
	entry["request_id"] = nil
	again := s.Post("/api/entries", apitest.JSON(t, entry), "Idempotency-Key", "a-key-of-mine")
	check.Equal(t, first.Status, http.StatusCreated, "status")
	check.Equal(t, again.Status, http.StatusOK, "status")
	s.Post("/api/entries?agent=ada&min_index=1", map[string]any{"body": "Whose is it?"}).Has(t, "Parameters of the URL were ignored: agent.")
	job := apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"}).Job.ID
	for _, step := range []struct{ agent, action, status string }{
		{"bob", "claim", "claimed"}, {"bob", "release", "open"}, {"bob", "Claim", "claimed"}, {"bob", "result", "done"},
	} {
		got := apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": step.agent, "action": step.action, "id": job, "text": "Seven birds"})
		check.Equal(t, got.Job.Status, step.status, "%s: status of the job", step.action)
	}
	s.Post("/api/human-requests", map[string]any{"agent": "ada", "title": "Look at the sea", "description": "Say how high it is."}).Want(t, http.StatusCreated)
	if p := apitest.CheckError(t, s.Post("/api/entries", "{'body'")); p.Issues[0].Field == "body" {
		t.Errorf("%+v", p)
	}
	s.Backend.Reject = func(command.Sender, command.Payload) error {
		return &command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: "no answer"}
	}
	s.Post("/api/entries", map[string]any{"agent": "ada", "body": "Hello", "request_id": "12345678"}).Has(t, "Send it again as it is").WantHeader(t, "Retry-After", "")
}

// TestShortMessagesAreExplained: a short text without a data part is published with a note
// that names the commands.
func TestShortMessagesAreExplained(t *testing.T) {
	s := apitest.New(t)
	for _, test := range []struct {
		name, parts string
		noted       bool
	}{
		{"question to the service", `[{"text":"What can you do?"}]`, true},
		{"sign of life", `[{"text":"ping"},{"data":{"agent":"ada"}}]`, true},
		{"nearly a command", `[{"text":"read e12"}]`, true},
		{"filed", `[{"text":"ping"},{"data":{"channel":"general"}}]`, false},
		{"long", `[{"text":"` + strings.Repeat("The tide is high. ", 10) + `"}]`, false},
		{"lines", `[{"text":"ping\npong"}]`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := s.Post("/a2a", apitest.MessageRequest("SendMessage", test.name, test.parts)).Has(t, "Published: ")
			apitest.Equal(t, "noted in "+string(r.Body), strings.Contains(string(r.Body), `"notes":["Commands: help, latest, search <words>, channels.`), test.noted)
			apitest.Equal(t, "data part in "+string(r.Body), strings.Contains(string(r.Body), `{\"command\": \"jobs\"}`), test.noted)
		})
	}
}

// TestQuestionIsAMessage reads kind question as message, in writes and in lists.
func TestQuestionIsAMessage(t *testing.T) {
	s := apitest.New(t)
	r := s.Post("/api/entries", map[string]any{"agent": "ada", "kind": "Question", "body": "Who knows the tides?"})
	var written struct {
		Entry apitest.Entry
		Notes []string
	}
	r.Decode(t, &written)
	check.Equal(t, r.Status, http.StatusCreated, "status")
	check.Equal(t, written.Entry.Kind, "message", "kind")
	if len(written.Notes) != 1 || !strings.Contains(written.Notes[0], "question was read as message") {
		t.Errorf("notes %q", written.Notes)
	}
	s.Get("/api/entries?kind=question").Has(t, `"id":"e1"`, "question was read as message")
}

// TestSinceInSeconds reads ten digits as seconds wherever a since is taken.
func TestSinceInSeconds(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, commons."})
	const seconds = "1767225600"
	calls := map[string]func() *apitest.Response{
		"tool read_entries": func() *apitest.Response {
			return s.Post("/mcp", apitest.ToolCall("read_entries", `{"since":`+seconds+`}`))
		},
		"tool home": func() *apitest.Response {
			return s.Post("/mcp", apitest.ToolCall("home", `{"for":"bob","since":"`+seconds+`"}`))
		},
	}
	for _, path := range []string{"/api/entries?", "/api/home?for=bob&", "/api/home?for=bob&brief=1&"} {
		calls[path] = func() *apitest.Response { return s.Get(path + "since=" + seconds) }
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			r := call()
			r.Want(t, http.StatusOK, "since was read as seconds: send milliseconds, such as "+seconds+"000.")
		})
	}
}

// TestManyNamesOfOneField: however many fields a body has, and whatever they stand for,
// the answer names a few.
func TestManyNamesOfOneField(t *testing.T) {
	s := apitest.New(t)
	var same, references strings.Builder
	for i := range 2_000 {
		line := func(at int) string { return strings.Repeat("_", i>>at&7) }
		fmt.Fprintf(&same, `,"%sb%so%sd%sy":%d`, line(0), line(3), line(6), line(9), i)
		fmt.Fprintf(&references, `,"reply_%d":%d`, i, i)
	}
	for what, body := range map[string]string{
		"names of the body": `{"body":[` + strings.Repeat("1,", 5_000) + `1]` + same.String() + `}`,
		"references":        `{"body":"Hello"` + references.String() + `}`,
	} {
		r := s.Post("/api/entries", body)
		if r.Status >= 500 || len(r.Body) > 8<<10 {
			t.Errorf("%s: %d, %d bytes: %.300s", what, r.Status, len(r.Body), r.Body)
		}
	}
}

// TestRejectionsNameUnknownFields: a field that was misspelled is often why another
// one is missing.
func TestRejectionsNameUnknownFields(t *testing.T) {
	s := apitest.New(t)
	for _, test := range []struct{ path, body string }{
		{"/api/entries", `{"agent":"zed","boddy":"Hello, all"}`},
		{"/api/agents", `{"id":"zed","boddy":"Answers questions."}`},
		{"/api/jobs", `{"agent":"zed","title":"Count birds","boddy":"All of them"}`},
		{"/api/jobs", `{"agent":"zed","action":"claim","job_id":"j99","boddy":"Hello"}`},
		{"/api/human-requests", `{"agent":"zed","goal":"A goal","boddy":"Do it."}`},
		{"/a2a", apitest.MessageRequest("SendMessage", "a", `[{"text":"x"},{"data":{"boddy":"Hello, all"}}]`)},
		{"/a2a", apitest.MessageRequest("SendMessage", "", `[{"text":"Hello"},{"data":{"boddy":"Hello, all"}}]`)},
		{"/a2a/v1/message:send", `{"message":{"messageId":"b","role":"ROLE_USER","parts":[{"text":"x"},{"data":{"boddy":"Hello"}}]}}`},
		{"/mcp", apitest.ToolCall("publish_entry", `{"boddy":"Hello, all"}`)},
		{"/mcp", apitest.ToolCall("get_entry", `{"boddy":"e1"}`)},
		{"/mcp", apitest.ToolCall("read_entries", `{"boddy":"e1","limit":0}`)},
	} {
		r := s.Post(test.path, test.body)
		if strings.HasPrefix(test.path, "/api/") && (r.Status < http.StatusBadRequest || !strings.HasPrefix(apitest.CheckError(t, r).Notes[0], "Unknown fields")) {
			t.Errorf("%s %s: %d %s", test.path, test.body, r.Status, r.Body)
		}
		// The other surfaces have it in a text and in the Error object.
		if n := strings.Count(string(r.Body), "ignored: boddy"); n == 0 || n < 2 && !strings.HasPrefix(test.path, "/api/") {
			t.Errorf("%s %s: %d times in %s", test.path, test.body, n, r.Body)
		}
	}
	s.Post("/api/entries", map[string]any{"body": "Hello", "title": "x"}).Lacks(t, `"notes"`)
}

// TestReadsNameUnknownParameters checks the note about a misspelled filter.
func TestReadsNameUnknownParameters(t *testing.T) {
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "ada", "body": "The tide at Brest is high."})
	apitest.ActOnJob(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"})
	s.Post("/api/agents", map[string]any{"id": "ada", "description": "Reads tide tables."}).Want(t, http.StatusCreated)
	for _, path := range []string{"/api/entries?", "/api/channels?", "/api/agents?", "/api/jobs?", "/api/human-requests?", "/api/home?for=ada&", "/api/stats?", "/api/usage?", "/api/entries/e1?", "/api/jobs/j2?", "/api/agents/ada?"} {
		notes := func(query string, status int) (list []string) {
			r := s.Get(path+query).Want(t, status)
			var answer struct{ Notes []string }
			must.Do(t, json.Unmarshal(r.Body, &answer))
			return answer.Notes
		}
		before := len(notes("consistency=strong", http.StatusOK))
		const ignored = "Unknown parameters were ignored: boddy, sort."
		if got := notes("boddy=ada&sort=up", http.StatusOK); len(got) != before+1 || !strings.HasPrefix(got[before], ignored) {
			t.Errorf("%s: %q", path, got)
		}
		if got := notes("boddy=ada&sort=up&consistency=weak", http.StatusUnprocessableEntity); len(got) != 1 || !strings.HasPrefix(got[0], ignored) {
			t.Errorf("%s: rejected: %q", path, got)
		}
	}
	for _, query := range []string{"", "?limit=5&author="} {
		s.Get("/api/entries"+query).Lacks(t, `"notes"`)
	}
	// The same call finds its own entity tag again.
	const misspelled = "/api/home?for=ada&wiat=60"
	tag := s.Get(misspelled).Header.Get("ETag")
	s.Get(misspelled, "If-None-Match", tag).Want(t, http.StatusNotModified)
	// Calls that describe themselves differently have different tags.
	if other := s.Get("/api/home?for=ada").Header.Get("ETag"); other == tag {
		t.Error("the note of an ignored parameter can hide behind a 304")
	}
}

// TestBodiesSaidToBeAnother: what was sent under the type of something else is told
// apart, where it can be.
func TestBodiesSaidToBeAnother(t *testing.T) {
	s := apitest.New(t)
	const form = "application/x-www-form-urlencoded"
	r := s.Post("/api/entries", "agent=ada&body=Hello")
	if p := apitest.CheckError(t, r); p.Code != "malformed_body" || !strings.Contains(p.Issues[0].Message, "looks like a form; send that as "+form) {
		t.Errorf("%s", r.Body)
	}
	r = s.Do(http.MethodPost, "/api/entries", "Hello all", "Content-Type", form)
	if p := apitest.CheckError(t, r); r.Status != http.StatusUnprocessableEntity || len(p.Notes) == 0 || !strings.Contains(p.Notes[0], "Content-Type: text/plain") {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}
