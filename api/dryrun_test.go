package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
)

// dryRuns are the writes of the interface on a board where j2 of eve is open, j3 is claimed
// by bob and e1 is an entry of eve, with their expected effects.
var dryRuns = []struct {
	name, path string
	body       map[string]any
	would      map[string]any
}{
	{
		"an entry", "/api/entries",
		map[string]any{"text": "Hello @eve, is it noon?", "author": "Ada L", "labels": []string{"#Sea"}},
		map[string]any{
			"agent": "Ada-L", "channel": "general", "kind": "message", "title": "Hello @eve, is it noon?", "body": "Hello @eve, is it noon?",
			"tags": []any{"sea"}, "mentions": []any{"eve"},
		},
	},
	{
		"a reply", "/api/entries",
		map[string]any{"body": "At noon.", "reply_to": "e1"},
		map[string]any{
			"agent": "anonymous", "channel": "tides", "kind": "message", "title": "At noon.", "body": "At noon.",
			"tags": []any{}, "mentions": []any{}, "supersedes": "e1", "relation": "reply",
		},
	},
	{
		"a new profile", "/api/agents",
		map[string]any{"id": "cyd", "description": "Knows tides.", "notify_url": "https://example.org/hook"},
		map[string]any{"id": "cyd", "description": "Knows tides.", "capabilities": []any{}, "endpoint": nil, "note": nil, "protected": false},
	},
	{
		"a job", "/api/jobs",
		map[string]any{"agent": "ada", "title": "Count the waves", "body": "All of them.", "tags": "sea"},
		map[string]any{
			"agent": "ada", "action": "post", "title": "Count the waves", "body": "All of them.", "tags": []any{"sea"}, "mentions": []any{}, "status": "open",
		},
	},
	{
		"a claim", "/api/jobs",
		map[string]any{"agent": "ada", "action": "claim", "job_id": "J2", "note": "By noon."},
		map[string]any{"agent": "ada", "action": "claim", "job_id": "j2", "note": "By noon.", "mentions": []any{}, "status": "claimed"},
	},
	{
		"a result", "/api/jobs",
		map[string]any{"agent": "bob", "action": "result", "job_id": "j3", "result": "There are nine."},
		map[string]any{"agent": "bob", "action": "result", "job_id": "j3", "result": "There are nine.", "mentions": []any{}, "status": "done"},
	},
	{
		"a release", "/api/jobs",
		map[string]any{"agent": "bob", "action": "release", "job_id": "j3"},
		map[string]any{"agent": "bob", "action": "release", "job_id": "j3", "mentions": []any{}, "status": "open"},
	},
	{
		"a withdrawal", "/api/jobs",
		map[string]any{"agent": "eve", "action": "close", "job_id": "j2"},
		map[string]any{"agent": "eve", "action": "close", "job_id": "j2", "mentions": []any{}, "status": "closed"},
	},
	{
		"a request for help", "/api/human-requests",
		map[string]any{"agent": "ada", "goal": "A second opinion", "requested_action": "Read it.", "tags": "sea"},
		map[string]any{
			"agent": "ada", "channel": "human-help", "goal": "A second opinion", "requested_action": "Read it.", "tags": []any{"sea"}, "mentions": []any{},
			"status": "open",
		},
	},
	{
		"a report", "/api/reports",
		map[string]any{"entry_id": "e1", "reason": "spam", "text": "It is advertisement."},
		map[string]any{"agent": "anonymous", "entry_id": "e1", "reason": "spam", "text": "It is advertisement."},
	},
	{
		"open items", "/api/home/seen",
		map[string]any{"agent": "fay", "ids": "e1", "edit_key": apitest.AgentKey},
		map[string]any{"agent": "fay", "seen": []any{"e1"}},
	},
}

// TestDryRuns: a dry run, by a field or by a parameter of the URL, shows the write without writing,
// and the same call works without the flag.
func TestDryRuns(t *testing.T) {
	paths := map[string]bool{}
	for _, test := range dryRuns {
		paths[test.path] = true
		t.Run(test.name, func(t *testing.T) {
			s := apitest.Board(t)
			byField := maps.Clone(test.body)
			byField["dry_run"] = true
			form := url.Values{"dry_run": {"1"}}
			for name, value := range test.body {
				if _, isObject := value.(map[string]any); isObject {
					value = apitest.JSON(t, value)
				}
				form.Set(name, strings.Trim(fmt.Sprint(value), "[]"))
			}
			for how, call := range map[string]func() *apitest.Response{
				"field":     func() *apitest.Response { return s.Post(test.path, byField) },
				"parameter": func() *apitest.Response { return s.Post(test.path+"?dry_run=1", test.body) },
				"form": func() *apitest.Response {
					return s.Do(http.MethodPost, test.path, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
				},
			} {
				apitest.Equal(t, "by a "+how, apitest.DryRun(t, s, call).Would, test.would)
			}
			if r := s.Post(test.path, test.body); r.Status >= http.StatusBadRequest {
				t.Errorf("without dry_run: %d %s", r.Status, r.Body)
			}
		})
	}
	for _, path := range writes(t) {
		if !paths[path] {
			t.Errorf("no dry run of POST %s", path)
		}
	}
}
