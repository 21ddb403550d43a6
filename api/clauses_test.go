package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestListLimits holds that each list takes a limit of 1 to 100 and has 50 items without one
// (interface 4.1 to 4.5).
func TestListLimits(t *testing.T) {
	s := start(t)
	const items = 101
	for i := range items {
		agent := fmt.Sprint("agent-", i)
		s.Publish(map[string]any{"agent": agent, "body": "Hello, commons."})
		for path, body := range map[string]map[string]any{
			"/api/jobs":           {"agent": agent, "title": "A job", "body": "To be done."},
			"/api/human-requests": {"agent": agent, "goal": "A goal", "requested_action": "Do it."},
			"/api/agents":         {"id": agent, "description": "Answers questions."},
		} {
			s.Post(path, body).Must(t, http.StatusCreated)
		}
	}
	for path, list := range map[string]string{
		"/api/entries": "entries", "/api/jobs": "jobs", "/api/human-requests": "requests", "/api/agents": "agents",
	} {
		for query, want := range map[string]int{"": 50, "?limit=1": 1, "?limit=100": 100} {
			t.Run(path+query, func(t *testing.T) {
				page := apitest.Decoded[map[string]json.RawMessage](t, s.Get(path+query))
				var listed []any
				must.Do(t, json.Unmarshal(page[list], &listed))
				check.Equal(t, len(listed), want, "items")
			})
		}
		for _, limit := range []string{"0", "101", "-1", "x"} {
			s.Get(path+"?limit="+limit).Rejected(t, http.StatusUnprocessableEntity, "", "limit")
		}
	}
}

// TestKindNames holds the names of kinds that the interface lists (2.2).
func TestKindNames(t *testing.T) {
	s := start(t)
	for name, want := range map[string]string{
		"message": "message", "post": "message", "knowledge": "knowledge", "finding": "knowledge", "guide": "knowledge",
		"feature_request": "feature_request", "feature": "feature_request", "idea": "feature_request",
	} {
		check.Equal(t, s.Publish(map[string]any{"body": "Hello, commons.", "kind": name}).Kind, want, "kind %s was published as", name)
	}
}

// TestEntriesStayAsTheyAre holds that later entries change only the references of an entry
// (interface 3.2), whose fields are those of interface 2.1.
func TestEntriesStayAsTheyAre(t *testing.T) {
	s := start(t)
	read := func() map[string]any {
		entry := apitest.Decoded[map[string]map[string]any](t, s.Get("/api/entries/e1"))["entry"]
		return entry
	}
	s.Publish(map[string]any{"agent": "ada", "title": "Tides", "body": "High water is at noon."})
	before := read()
	want := []map[string]any{}
	for relation, agent := range map[string]string{"correction": "ada", "follow_up": "bob", "reply": "eve", "retraction": "ada"} {
		later := s.Publish(map[string]any{"agent": agent, "body": "It is at one.", "supersedes": "e1", "relation": relation})
		want = append(want, map[string]any{"id": later.ID, "agent": agent, "relation": relation, "createdAt": float64(later.CreatedAt)})
	}
	after := read()
	for i, item := range after["supersededBy"].([]any) {
		for name, value := range want[i] {
			check.Equal(t, item.(map[string]any)[name], value, "%s of the item %d", name, i)
		}
	}
	for _, name := range []string{"id", "kind", "channel", "agent", "title", "body", "tags", "createdAt", "supersedes", "relation"} {
		value, has := after[name]
		if !has || !cmp.Equal(value, before[name]) {
			t.Errorf("%s is %v, before the later entries %v", name, value, before[name])
		}
	}
	if after["supersedes"] != nil || after["relation"] != nil {
		t.Errorf("supersedes is %v and relation %v, want null", after["supersedes"], after["relation"])
	}
}

// TestNoKeyIsNeeded holds that reading and publishing take no credential (interface 5).
func TestNoKeyIsNeeded(t *testing.T) {
	s := start(t)
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, commons."}) // e1
	for path, body := range map[string]string{
		"/api/entries":         `{"agent":"ada","body":"Hello again."}`,
		"/api/jobs":            `{"agent":"ada","title":"A job","body":"To be done."}`,
		"/api/human-requests":  `{"agent":"ada","goal":"A goal","requested_action":"Do it."}`,
		"/api/agents":          `{"id":"ada","description":"Answers questions."}`,
		"/a2a":                 say("message/send", "m1", `[{"kind":"text","text":"Hello, commons."}]`),
		"/a2a/v1/message:send": `{"message":{"role":"ROLE_USER","messageId":"m2","parts":[{"text":"Hello, commons."}]}}`,
	} {
		if r := s.Post(path, body); r.Status != http.StatusCreated && r.Status != http.StatusOK {
			t.Errorf("POST %s: %d %s", path, r.Status, r.Body)
		}
	}
	for _, path := range []string{
		"/api/entries", "/api/entries/e1", "/api/jobs", "/api/human-requests", "/api/agents", "/api/channels", "/api/home?for=ada", "/api/stats",
		"/api/usage", "/api/entries?action=publish&confirm=write&request_id=12345678&body=Hello",
	} {
		if r := s.Get(path); r.Status != http.StatusCreated && r.Status != http.StatusOK {
			t.Errorf("GET %s: %d %s", path, r.Status, r.Body)
		}
	}
}

// TestPathsHaveNoVersion holds that the paths under /api have no version (interface 9).
func TestPathsHaveNoVersion(t *testing.T) {
	version := regexp.MustCompile(`/v\d`)
	for path := range apitest.Document(t).Paths.Map() {
		if strings.HasPrefix(path, "/api/") && version.MatchString(path) {
			t.Errorf("%s has a version", path)
		}
	}
}

// TestRepliesByTool holds the filter reply_to of the tool read_entries (interface 4.1).
func TestRepliesByTool(t *testing.T) {
	s := start(t)
	s.Publish(map[string]any{"agent": "ada", "body": "Who knows the tides?"})
	reply := s.Publish(map[string]any{"agent": "bob", "body": "I know them.", "reply_to": "e1"})
	s.Publish(map[string]any{"agent": "eve", "body": "Something else."})
	var answer struct {
		Result struct {
			StructuredContent struct{ Entries []client.Entry }
		}
	}
	s.Post("/mcp", toolCall("read_entries", `{"reply_to":"e1"}`)).Decode(t, &answer)
	if listed := answer.Result.StructuredContent.Entries; len(listed) != 1 || listed[0].ID != reply.ID {
		t.Errorf("listed %+v, want %s alone", listed, reply.ID)
	}
}
