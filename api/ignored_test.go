package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
)

// TestRejectionsNameUnknownFields: a field that was misspelled is often why another
// one is missing.
func TestRejectionsNameUnknownFields(t *testing.T) {
	s := start(t)
	for _, test := range []struct{ path, body string }{
		{"/api/entries", `{"agent":"zed","boddy":"Hello, all"}`},
		{"/api/agents", `{"id":"zed","boddy":"Answers questions."}`},
		{"/api/jobs", `{"agent":"zed","title":"Count birds","boddy":"All of them"}`},
		{"/api/jobs", `{"agent":"zed","action":"claim","job_id":"j99","boddy":"Hello"}`},
		{"/api/human-requests", `{"agent":"zed","goal":"A goal","boddy":"Do it."}`},
		{"/a2a", say("SendMessage", "a", `[{"text":"x"},{"data":{"boddy":"Hello, all"}}]`)},
		{"/a2a", say("SendMessage", "", `[{"text":"Hello"},{"data":{"boddy":"Hello, all"}}]`)},
		{"/a2a/v1/message:send", `{"message":{"messageId":"b","role":"ROLE_USER","parts":[{"text":"x"},{"data":{"boddy":"Hello"}}]}}`},
		{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"publish_message","arguments":{"boddy":"Hello, all"}}}`},
		{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_entry","arguments":{"boddy":"e1"}}}`},
		{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_entries","arguments":{"boddy":"e1","limit":0}}}`},
	} {
		r := s.Do(http.MethodPost, test.path, test.body, "Content-Type", jsonType)
		if strings.HasPrefix(test.path, "/api/") && (r.Status < http.StatusBadRequest || len(apitest.CheckError(t, r).Notes) != 1) {
			t.Errorf("%s %s: %d %s", test.path, test.body, r.Status, r.Body)
		}
		// The other surfaces have it in a text and in the Error object.
		if n := strings.Count(string(r.Body), "ignored: boddy"); n == 0 || n < 2 && !strings.HasPrefix(test.path, "/api/") {
			t.Errorf("%s %s: %d times in %s", test.path, test.body, n, r.Body)
		}
	}
	if r := s.Post("/api/entries", map[string]any{"body": "x"}); strings.Contains(string(r.Body), `"notes"`) {
		t.Errorf("notes of nothing: %s", r.Body)
	}
}

// TestReadsNameUnknownParameters: a filter that was misspelled is none.
func TestReadsNameUnknownParameters(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/api/entries?", "/api/channels?", "/api/agents?", "/api/jobs?", "/api/human-requests?", "/api/home?for=ada&", "/api/stats?", "/api/usage?"} {
		notes := func(query string, status int) (list []string) {
			r := s.Get(path + query)
			if r.Status != status {
				t.Errorf("%s%s: %d %s", path, query, r.Status, r.Body)
			}
			var answer struct{ Notes []string }
			if err := json.Unmarshal(r.Body, &answer); err != nil {
				t.Fatal(err)
			}
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
		if r := s.Get("/api/entries" + query); strings.Contains(string(r.Body), `"notes"`) {
			t.Errorf("notes of nothing: %s", r.Body)
		}
	}
	// The same call finds its own entity tag again.
	const misspelled = "/api/home?for=ada&wiat=60"
	tag := s.Get(misspelled).Header.Get("ETag")
	if r := s.Do(http.MethodGet, misspelled, "", "If-None-Match", tag); r.Status != http.StatusNotModified {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	// Calls that differ in what they say of themselves have different tags.
	if other := s.Get("/api/home?for=ada").Header.Get("ETag"); other == tag {
		t.Error("the note of an ignored parameter can hide behind a 304")
	}
}

// TestBodiesSaidToBeAnother: what was sent under the type of something else is told
// apart, where it can be.
func TestBodiesSaidToBeAnother(t *testing.T) {
	s := start(t)
	const form = "application/x-www-form-urlencoded"
	r := s.Do(http.MethodPost, "/api/entries", "agent=ada&body=Hello", "Content-Type", jsonType)
	if p := apitest.CheckError(t, r); p.Code != "malformed_body" || !strings.Contains(p.Issues[0].Message, "looks like a form; send that as "+form) {
		t.Errorf("%s", r.Body)
	}
	r = s.Do(http.MethodPost, "/api/entries", "Hello all", "Content-Type", form)
	if p := apitest.CheckError(t, r); r.Status != http.StatusUnprocessableEntity || len(p.Notes) == 0 || !strings.Contains(p.Notes[0], "Content-Type: text/plain") {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}
