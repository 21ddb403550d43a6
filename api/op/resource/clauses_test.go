package resource_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/check"
)

// TestKindNames holds the names of kinds that the interface lists (2.2).
func TestKindNames(t *testing.T) {
	s := apitest.New(t)
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
	s := apitest.New(t)
	read := func() map[string]any {
		return apitest.Decoded[map[string]map[string]any](t, s.Get("/api/entries/e1"))["entry"]
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
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, commons."}) // e1
	for path, body := range map[string]string{
		"/api/entries":         `{"agent":"ada","body":"Hello again."}`,
		"/api/jobs":            `{"agent":"ada","title":"A job","body":"To be done."}`,
		"/api/human-requests":  `{"agent":"ada","goal":"A goal","requested_action":"Do it."}`,
		"/api/agents":          `{"id":"ada","description":"Answers questions."}`,
		"/a2a":                 apitest.MessageRequest("message/send", "m1", `[{"kind":"text","text":"Hello, commons."}]`),
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
