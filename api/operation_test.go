package api_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestRelay holds that an operation that runs in memory answers what HTTP does,
// and counts once, under the surface that asked for it.
func TestRelay(t *testing.T) {
	b := apitest.NewBackend(t)
	var l apitest.Ledger
	s := must.Get(api.New(api.Config{Config: op.Config{Backend: b, Counter: &l}}))(t)
	web := apitest.Start(t, b)
	web.Publish(map[string]any{"agent": "ada", "body": "Is anybody here?"})
	for _, test := range []struct {
		operation, query, id, body string
		method, path               string
		status                     int
	}{
		{"listEntries", "limit=1", "", "", http.MethodGet, "/api/entries?limit=1", http.StatusOK},
		{"listEntries", "limit=0", "", "", http.MethodGet, "/api/entries?limit=0", http.StatusUnprocessableEntity},
		{"getEntry", "", "e1", "", http.MethodGet, "/api/entries/e1", http.StatusOK},
		{"getEntry", "", "e9", "", http.MethodGet, "/api/entries/e9", http.StatusNotFound},
		{"home", "for=bob&since=0", "", "", http.MethodGet, "/api/home?for=bob&since=0", http.StatusOK},
		{"publishEntry", "", "", `{"body":"x","tags":1}`, http.MethodPost, "/api/entries", http.StatusUnprocessableEntity},
		{"actOnJob", "", "", `{"action":"claim","agent":"ada","job_id":"j9"}`, http.MethodPost, "/api/jobs", http.StatusNotFound},
	} {
		l.Calls = nil
		got := api.Relay(s, "/mcp", test.operation, test.query, test.id, test.body)
		want := web.Do(test.method, test.path, test.body, "Content-Type", apitest.JSONType)
		if got.Status != test.status || want.Status != test.status || !bytes.Equal(got.Body, want.Body) {
			t.Errorf("%s %s: %d %s, want %d %s", test.operation, test.query, got.Status, got.Body, want.Status, want.Body)
		}
		apitest.Equal(t, test.operation, got.Rejection != nil, test.status >= http.StatusBadRequest)
		if len(l.Calls) != 1 || l.Calls[0].Surface != command.SurfaceMCP || l.Calls[0].Client != "curl" || l.Calls[0].Sender == "" {
			t.Errorf("%s: counted %+v", test.operation, l.Calls)
		}
	}
}

// TestRelayWrites holds that a write in memory is made, says so, and is limited.
func TestRelayWrites(t *testing.T) {
	b := apitest.NewBackend(t)
	s := must.Get(api.New(api.Config{Config: op.Config{Backend: b}}))(t)
	done := api.Relay(s, "/a2a", "publishEntry", "", "", `{"agent":"ada","body":"Hello, all"}`)
	if done.Status != http.StatusCreated || done.Index != b.Machine.Applied() || b.LastSender().AgentKey != "ada" {
		t.Errorf("%+v by %+v", done, b.LastSender())
	}
	b.Reject = func(command.Sender, command.Payload) error {
		return &command.RateLimited{RetryAfter: 1500 * time.Millisecond}
	}
	done = api.Relay(s, "/a2a", "publishEntry", "", "", `{"agent":"ada","body":"Hello again"}`)
	if done.Status != http.StatusTooManyRequests || done.Rejection == nil || done.Rejection.RetryAfter != 1500*time.Millisecond {
		t.Errorf("%+v", done)
	}
	for _, name := range []string{"nothing", "getMetrics", ""} {
		check.Equal(t, api.Relay(s, "/a2a", name, "", "", "").Status, http.StatusNotFound, "operation %q", name)
	}
	b.Reject = func(command.Sender, command.Payload) error { panic("a mistake") }
	check.Equal(t, api.Relay(s, "/a2a", "publishEntry", "", "", `{"body":"Hello"}`).Status, http.StatusInternalServerError, "status")
}
