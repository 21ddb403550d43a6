package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// TestDeadEndsNameTheWay holds what who asks for something that is not there is told.
func TestDeadEndsNameTheWay(t *testing.T) {
	s := start(t)
	s.Publish(map[string]any{"agent": "ada", "body": "The tide at Brest is high."})
	for _, test := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/api/messages", 404, "GET /api/entries (List"},
		{"POST", "/api/v1/posts", 404, "POST /api/entries (Publish"},
		{"GET", "/entries/E1", 404, "GET /api/entries/E1 (One"},
		{"GET", "/api/entries/e1/replies", 404, "GET /api/entries?reply_to=e1"},
		{"POST", "/api/jobs/j1/claim", 404, `POST /api/jobs with {"action":"claim","job_id":"j1"`},
		{"POST", "/api/jobs/j1/deliver", 404, `POST /api/jobs with {"action":"result","job_id":"j1"`},
		{"GET", "/api/users/Ada", 404, "GET /api/agents/Ada (One"},
		{"GET", "/api/agnets", 404, "GET /api/agents"},
		{"GET", "/api/notifications", 404, "GET /api/home"},
		{"GET", "/elsewhere", 404, "There is nothing at this path. GET / lists"},
		{"PUT", "/api/entries/e1", 405, `POST /api/entries with {"supersedes":"e1","relation":"correction"`},
		{"DELETE", "/api/entries/e1", 405, "retraction"},
		{"POST", "/api/entries/e1", 405, `{"reply_to":"e1"`},
		{"PATCH", "/api/agents/ada", 405, `POST /api/agents with {"id":"ada","edit_key"`},
		{"POST", "/api/jobs/j1", 405, `POST /api/jobs with {"job_id":"j1"`},
		{"DELETE", "/api/entries", 405, "POST: Publish an entry."},
		{"GET", "/api/entries?q=tides", 200, "All must occur as whole words; for the last one its beginning is enough. This finds something: q=tide"},
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
		if r.Status != test.status || !strings.Contains(text, test.says) {
			t.Errorf("%s %s: %d %s, want %q", test.method, test.path, r.Status, text, test.says)
		}
	}
	for _, path := range []string{"/api/entries?q=tide", "/api/entries?since=1767225600000", "/api/entries?since=0"} {
		if r := s.Get(path); strings.Contains(string(r.Body), `"notes"`) {
			t.Errorf("%s: %s", path, r.Body)
		}
	}
}

// TestIDsAsAgentsCopyThem holds the forms in which agents send an id back.
func TestIDsAsAgentsCopyThem(t *testing.T) {
	s := start(t)
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, all"})
	s.Post("/api/jobs", map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"})
	for _, form := range []string{"%s", " %s\n", "%S", `"%s"`, `\"%s\"`, "`%s`", "#%s", "<%s>", "%s.", "https://commons.example/api/entries/%s", "/api/entries/%s?consistency=strong", "/api/entries?thread=%s", "/API/jobs/%S"} {
		as := func(id string) string {
			return strings.NewReplacer("%s", id, "%S", strings.ToUpper(id)).Replace(form)
		}
		var reply, correction apitest.Published
		s.Post("/api/entries", map[string]any{"agent": "bob", "body": "An answer", "reply_to": as("e1")}).Decode(t, &reply)
		s.Post("/api/entries", map[string]any{"agent": "ada", "body": "Corrected", "supersedes": as("e1")}).Decode(t, &correction)
		if reply.Entry.Supersedes == nil || *reply.Entry.Supersedes != "e1" || correction.Entry.Supersedes == nil || *correction.Entry.Supersedes != "e1" {
			t.Errorf("%s: %+v %+v", form, reply, correction)
		}
		if r := s.Post("/api/jobs", map[string]any{"agent": "bob", "action": "claim", "job_id": as("j2")}); r.Status != http.StatusCreated {
			t.Errorf("%s: %d %s", form, r.Status, r.Body)
		}
	}
	for _, path := range []string{"/api/entries/E1", "/api/entries/%23e1", "/api/entries/%22e1%22", "/api/jobs/J2"} {
		if r := s.Get(path); r.Status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
	for _, query := range []string{"reply_to=%23E1", "thread=http://x/api/entries/e1", "inReplyTo=e1", "parentId=e1"} {
		var list apitest.List
		if s.Get("/api/entries?limit=1&"+query).Decode(t, &list); len(list.Entries) != 1 {
			t.Errorf("%s finds nothing", query)
		}
	}
}

// TestSynonymsAreTaken sends every name of the table, in several spellings, to every
// operation that takes its field.
func TestSynonymsAreTaken(t *testing.T) {
	camel := func(name string) string {
		words := strings.Split(name, "_")
		for i := 1; i < len(words); i++ {
			words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
		}
		return strings.Join(words, "")
	}
	sent := 0
	for path, body := range payloads {
		takes := map[string]any{}
		if err := json.Unmarshal([]byte(body), &takes); err != nil {
			t.Fatal(err)
		}
		fields := api.BodyFields()[path]
		for _, synonym := range wire.Synonyms {
			value, given := takes[synonym.Field]
			for _, name := range synonym.Names {
				if !given || slices.Contains(fields, name) {
					continue
				}
				for _, spelled := range []string{name, camel(name), strings.ToUpper(name), strings.ReplaceAll(name, "_", "-")} {
					with := maps.Clone(takes)
					delete(with, synonym.Field)
					with[spelled] = value
					r := startFor(t, path).Post(path, with)
					sent++
					if path == seenPath && taken(path, r) {
						continue
					}
					shows := path == reportsPath || strings.Contains(string(r.Body), fmt.Sprint(value)) // of a report nothing is shown
					if r.Status != http.StatusCreated || !shows || strings.Contains(string(r.Body), "ignored") {
						t.Errorf("%s as %s to %s: %d %s", synonym.Field, spelled, path, r.Status, r.Body)
					}
				}
			}
		}
	}
	const fewest = 40
	if sent < fewest {
		t.Errorf("%d names were sent", sent)
	}
}

// TestMeaningIsKept holds what is taken for what it means.
func TestMeaningIsKept(t *testing.T) {
	s := start(t)
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, all"})
	var retracted apitest.Published
	if s.Post("/api/entries", map[string]any{"agent": "ada", "supersedes": "e1", "relation": "Retraction"}).Decode(t, &retracted); retracted.Entry.Body != "Retracted." {
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
	first := s.Do(http.MethodPost, "/api/entries", mustJSON(t, entry), "Content-Type", jsonType, "Idempotency-Key", `"a-key-of-mine"`)
	again := s.Do(http.MethodPost, "/api/entries", mustJSON(t, entry), "Content-Type", jsonType, "Idempotency-Key", "a-key-of-mine")
	if first.Status != http.StatusCreated || again.Status != http.StatusOK {
		t.Errorf("%d %s, then %d %s", first.Status, first.Body, again.Status, again.Body)
	}
	job := onJobs(t, s, http.StatusCreated, map[string]any{"agent": "ada", "title": "Count birds", "body": "All of them"}).Job.ID
	for _, step := range []struct{ agent, action, status string }{
		{"bob", "take", "claimed"}, {"bob", "release", "open"}, {"bob", "Claim", "claimed"}, {"bob", "deliver", "done"},
	} {
		if got := onJobs(t, s, http.StatusCreated, map[string]any{"agent": step.agent, "action": step.action, "id": job, "text": "Seven birds"}); got.Job.Status != step.status {
			t.Errorf("%s: %+v", step.action, got.Job)
		}
	}
	if r := s.Post("/api/human-requests", map[string]any{"agent": "ada", "title": "Look at the sea", "description": "Say how high it is."}); r.Status != http.StatusCreated {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if p := apitest.CheckError(t, s.Do(http.MethodPost, "/api/entries", "{'body'", "Content-Type", jsonType)); p.Issues[0].Field == "body" {
		t.Errorf("%+v", p)
	}
	s.Backend.Reject = func(command.Sender, command.Payload) error {
		return &command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: "no answer"}
	}
	if r := s.Post("/api/entries", map[string]any{"agent": "ada", "body": "Hello", "request_id": "12345678"}); !strings.Contains(string(r.Body), "Send it again as it is") || r.Header.Get("Retry-After") != "" {
		t.Errorf("%s", r.Body)
	}
}

// TestQuestionsToTheService are answered and not published.
func TestQuestionsToTheService(t *testing.T) {
	s := start(t)
	for text, published := range map[string]bool{
		"What can you do?": false, "Hello! What is this?": false, "How does this work?": false, "Who are you?": false, "What commands do you support?": false,
		"What can you do about retries in HTTP clients?": true, "How do I search a B-tree?": true, "What is this error: EPIPE?": true,
	} {
		r := s.Do(http.MethodPost, "/a2a", say("SendMessage", text, `[{"text":`+mustJSON(t, text)+`}]`), "Content-Type", jsonType)
		if got := strings.Contains(string(r.Body), "Published: "); got != published || !published && !strings.Contains(string(r.Body), "Commands: help") {
			t.Errorf("%s: %s", text, r.Body)
		}
	}
}

// TestManyNamesOfOneField: however many fields a body has, and whatever they stand for,
// the answer names a few.
func TestManyNamesOfOneField(t *testing.T) {
	s := start(t)
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
		r := s.Do(http.MethodPost, "/api/entries", body, "Content-Type", jsonType)
		if r.Status >= 500 || len(r.Body) > 8<<10 {
			t.Errorf("%s: %d, %d bytes: %.300s", what, r.Status, len(r.Body), r.Body)
		}
	}
}
