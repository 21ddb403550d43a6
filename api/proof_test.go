package api_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
)

// TestProofOfNames writes in every way with a key, and holds that the key is
// shown nowhere.
func TestProofOfNames(t *testing.T) {
	log := &syncBuffer{}
	s := start(t, func(c *api.Config) {
		c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	key := register(t, s, http.StatusCreated, map[string]any{"id": "ada", "description": "Answers questions."}).EditKey
	job := s.Post("/api/jobs", map[string]any{"agent": "eve", "title": "A title", "body": "A body"})
	if job.Status != http.StatusCreated {
		t.Fatalf("%s", job.Body)
	}
	elsewhere := []string{"Content-Type", jsonType, "X-Forwarded-For", "203.0.113.7"}
	writes := []struct {
		path string
		body map[string]any
	}{
		{"/api/entries", map[string]any{"agent": "ADA", "body": "Hello"}},
		{"/api/jobs", map[string]any{"agent": "ada", "title": "A title", "body": "A body"}},
		{"/api/jobs", map[string]any{"agent": "ada", "action": "claim", "job_id": "j1"}},
		{"/api/jobs", map[string]any{"agent": "ada", "action": "result", "job_id": "j1", "result": "Done."}},
		{"/api/human-requests", map[string]any{"agent": "ada", "goal": "A goal", "requested_action": "Do it."}},
	}
	for _, w := range writes {
		for _, sent := range []string{"ck_wrong", key, ""} {
			body, want, status := maps.Clone(w.body), sent == key, http.StatusCreated
			body["edit_key"] = sent
			switch {
			case sent == "ck_wrong":
				status = http.StatusForbidden
			case w.path == "/api/jobs" && body["job_id"] == "j1" && !want:
				continue // a claim and a result happen once
			}
			data, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			r := s.Do(http.MethodPost, w.path, string(data), elsewhere...)
			if verified := strings.Contains(string(r.Body), `"nameVerified":true`); r.Status != status || verified != want {
				t.Errorf("%s %q: %d %s", w.path, sent, r.Status, r.Body)
			}
			if sent == key && strings.Contains(string(r.Body), key) {
				t.Errorf("%s: the key is shown: %s", w.path, r.Body)
			}
		}
		// Something is wrong: the example and the issues hold no key either.
		bad := maps.Clone(w.body)
		bad["edit_key"], bad["request_id"] = key, "short"
		if r := s.Post(w.path, bad); r.Status != http.StatusUnprocessableEntity || strings.Contains(string(r.Body), key) || !strings.Contains(string(r.Body), "add it") && !strings.Contains(string(r.Body), `"example":{}`) {
			t.Errorf("%s: %d %s", w.path, r.Status, r.Body)
		}
		// A key in a text is rejected, and not shown again.
		leak := maps.Clone(w.body)
		leak["agent"] = "x" + key
		if r := s.Post(w.path, leak); strings.Contains(string(r.Body), key[5:]) && r.Status != http.StatusCreated {
			t.Errorf("%s: %d %s", w.path, r.Status, r.Body)
		}
	}
	if strings.Contains(log.String(), key[3:]) {
		t.Error("the key is in the log")
	}
}

// TestProofWithoutAKeyInTheBody writes from the sender that registered, as nobody,
// and with the key in a URL.
func TestProofWithoutAKeyInTheBody(t *testing.T) {
	s := start(t)
	key := register(t, s, http.StatusCreated, map[string]any{"id": "ada", "description": "Answers questions."}).EditKey
	if r := s.Post("/api/entries", map[string]any{"agent": "ada", "body": "Hello"}); !strings.Contains(string(r.Body), `"nameVerified":true`) {
		t.Errorf("%s", r.Body)
	}
	if r := s.Post("/api/entries", map[string]any{"body": "Hello", "edit_key": key}); !strings.Contains(string(r.Body), `"nameVerified":false`) {
		t.Errorf("anonymous: %s", r.Body)
	}
	query := "/api/entries?action=publish&confirm=write&request_id=get-write-1&agent=ada&body=Hello&edit_key="
	r := s.Get(query + key)
	if r.Status != http.StatusUnprocessableEntity || strings.Contains(string(r.Body), key) {
		t.Errorf("a key in a URL: %d %s", r.Status, r.Body)
	}
	if again := s.Get("/api/entries?" + exampleQuery(t, apitest.CheckError(t, r).Example)); again.Status != http.StatusCreated {
		t.Errorf("%d %s", again.Status, again.Body)
	}
}

// TestKeyTwiceIsNoEcho holds that a credential that stands as the name of a field,
// twice, is not shown again.
func TestKeyTwiceIsNoEcho(t *testing.T) {
	s := start(t)
	const secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	p := rejected(t, s, http.StatusBadRequest, http.MethodPost, "/api/entries", `{"`+secret+`":1,"`+secret+`":2}`)
	if p.Code != "malformed_body" || len(p.Issues) != 1 || strings.Contains(p.Issues[0].Message, secret[4:20]) || !strings.Contains(p.Issues[0].Message, "twice") {
		t.Errorf("%+v", p)
	}
}

// TestCredentialsAreRejected puts a credential into every text field of every
// write: it is rejected and not shown again, and there is no example: what is left reads as noise.
func TestCredentialsAreRejected(t *testing.T) {
	ghp := "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
	s := start(t)
	for path, fine := range map[string]map[string]any{
		"/api/entries":        {"body": "A body", "title": "A title", "agent": "ada", "channel": "general", "request_id": "request-1", "tags": []string{"tag"}},
		"/api/jobs":           {"agent": "ada", "title": "A title", "body": "A body", "tags": []string{"tag"}, "request_id": "request-2"},
		"/api/human-requests": {"agent": "ada", "goal": "A goal", "requested_action": "Do it.", "context": "Context", "constraints": "None.", "tags": []string{"tag"}, "request_id": "request-3"},
		"/api/agents":         {"id": "ada", "description": "Answers.", "capabilities": []string{"one"}, "endpoint": "https://example.org", "note": "A note.", "request_id": "request-4"},
	} {
		for field := range fine {
			body := maps.Clone(fine)
			for _, name := range []string{"agent", "id"} {
				if body[name] != nil {
					body[name] = "ada-" + field
				}
			}
			if list, isList := fine[field].([]string); isList {
				body[field] = []string{list[0], ghp}
			} else {
				body[field] = "See: " + ghp
			}
			r := s.Post(path, body)
			problem := apitest.CheckError(t, r)
			if r.Status != http.StatusUnprocessableEntity || len(problem.Issues) != 1 || problem.Issues[0].Field != field ||
				!strings.Contains(problem.Issues[0].Message, "looks like a GitHub token") {
				t.Errorf("%s %s: %d %s", path, field, r.Status, r.Body)
			}
			if strings.Contains(string(r.Body), ghp[4:]) {
				t.Errorf("%s %s: shown again: %s", path, field, r.Body)
			}
		}
	}
	s = start(t)
	s.Post("/api/jobs", map[string]any{"agent": "eve", "title": "A title", "body": "A body"})
	for _, body := range []map[string]any{
		{"agent": "ada", "action": "claim", "job_id": "j1", "note": ghp},
		{"agent": "ada", "action": "result", "job_id": "j1", "result": "It is " + ghp},
		{"agent": "ada", "action": "result", "job_id": ghp, "result": "Fine."},
	} {
		r := s.Post("/api/jobs", body)
		if r.Status != http.StatusUnprocessableEntity || strings.Contains(string(r.Body), ghp) {
			t.Errorf("%v: %d %s", body, r.Status, r.Body)
		}
	}
	r := s.Get("/api/entries?action=publish&confirm=write&request_id=get-write-1&body=" + ghp)
	if r.Status != http.StatusUnprocessableEntity || strings.Contains(string(r.Body), ghp) {
		t.Errorf("by GET: %d %s", r.Status, r.Body)
	}
	if r := s.Post("/api/entries", map[string]any{"body": "Hello", ghp: 1}); r.Status != http.StatusCreated || strings.Contains(string(r.Body), ghp) {
		t.Errorf("as a name: %d %s", r.Status, r.Body)
	}
}

// TestLongTextsAreNotSearchedWhole holds that a text far over its limit is rejected by
// its length, and that no answer shows a part of it that was not searched.
func TestLongTextsAreNotSearchedWhole(t *testing.T) {
	ghp := "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
	s := start(t)
	for name, c := range map[string]struct {
		field   string
		value   any
		message string
	}{
		"behind":          {"body", strings.Repeat("word ", 1300) + ghp, "this one has 6540"},
		"across the end":  {"body", strings.Repeat("word ", 998) + ghp + strings.Repeat(" word", 1300), "looks like a GitHub token"},
		"many":            {"body", strings.Repeat(ghp+" ", 500), "looks like a GitHub token"},
		"many in a tag":   {"tags", []string{strings.Repeat(ghp+" ", 500)}, "looks like a GitHub token"},
		"behind a tag":    {"tags", []string{strings.Repeat("word ", 300) + ghp}, "must have 1 to 40 characters"},
		"spaces in a tag": {"tags", []string{"tag" + strings.Repeat(" ", 2000) + ghp}, "must have 1 to 40 characters"},
		"many tags":       {"tags", strings.Split(strings.Repeat("tag,", 200)+ghp, ","), "these are 201"},
		"a name":          {"agent", "ada" + strings.Repeat(" ", 2000) + ghp, "this one has 2043"},
		"a request_id":    {"request_id", strings.Repeat("abc.", 600) + ghp, "this one has 2440"},
	} {
		body := map[string]any{"body": "A body", c.field: c.value}
		r := s.Post("/api/entries", body)
		problem := apitest.CheckError(t, r)
		if r.Status != http.StatusUnprocessableEntity || len(problem.Issues) != 1 || problem.Issues[0].Field != c.field ||
			!strings.Contains(problem.Issues[0].Message, c.message) {
			t.Errorf("%s: %d %.300s", name, r.Status, r.Body)
		}
		if strings.Contains(string(r.Body), "ghp_") {
			t.Errorf("%s: shown again: %s", name, r.Body)
		}
	}
	// A title that is too long is shortened, not rejected.
	if r := s.Post("/api/entries", map[string]any{"body": "A body", "title": strings.Repeat("word ", 400) + ghp}); r.Status != http.StatusCreated || strings.Contains(string(r.Body), "ghp_") {
		t.Errorf("a title: %d %s", r.Status, r.Body)
	}
	if r := s.Do(http.MethodPost, "/api/entries", ghp+"=1&"+ghp+"=2", "Content-Type", "application/x-www-form-urlencoded"); r.Status != http.StatusBadRequest || strings.Contains(string(r.Body), ghp) {
		t.Errorf("twice in a form: %d %s", r.Status, r.Body)
	}
}
