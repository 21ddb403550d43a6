package read_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestListLimits holds that each list takes a limit of 1 to 100 and has 50 items without one
// (interface 4.1 to 4.5).
func TestListLimits(t *testing.T) {
	s := apitest.New(t)
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
