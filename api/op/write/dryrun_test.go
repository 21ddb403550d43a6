package write_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/fsm/command"
)

// TestDryRunByGet: it needs neither confirm nor request_id, and never writes.
func TestDryRunByGet(t *testing.T) {
	s := apitest.Board(t)
	for _, query := range []string{"dry_run=1", "dry_run=true&confirm=write&request_id=12345678"} {
		got := apitest.DryRun(t, s, func() *apitest.Response { return s.Get("/api/entries?action=publish&body=Hello&" + query) })
		apitest.Equal(t, query, got.Would["body"], "Hello")
	}
	s.Get("/api/entries?action=publish&body=Hello&dry_run=perhaps").Rejected(t, http.StatusPreconditionRequired, "", "dry_run request_id confirm")
}

// TestDryRunInTheURL: a parameter that may ask for a dry run never leads to a write, in any
// spelling that a field may have.
func TestDryRunInTheURL(t *testing.T) {
	s := apitest.Board(t)
	for query, status := range map[string]int{
		"dry_run=1": http.StatusOK, "dryRun=true": http.StatusOK, "DRY-RUN=1": http.StatusOK, "dry_run=0&dryRun=1": http.StatusOK,
		"dry_run": http.StatusUnprocessableEntity, "dry_run=0&dry_run=perhaps": http.StatusUnprocessableEntity,
		"dry_run=0": http.StatusCreated, "dry_run=false&dryRun=0": http.StatusCreated,
	} {
		for how, call := range map[string]func() *apitest.Response{
			"POST": func() *apitest.Response { return s.Post("/api/entries?"+query, map[string]any{"body": "Hello"}) },
			"GET": func() *apitest.Response {
				return s.Get(fmt.Sprintf("/api/entries?action=publish&confirm=write&body=Hello&request_id=by-get-%x&%s", query, query))
			},
		} {
			t.Run(how+" "+query, func(t *testing.T) {
				call().Want(t, status)
			})
		}
	}
}

func TestDryRunOfTestDelivery(t *testing.T) {
	s := apitest.Board(t)
	call := func(headers ...string) *apitest.Response {
		return apitest.WithoutEffect(t, s, func() *apitest.Response {
			return s.Do(http.MethodPost, apitest.DeliveriesPath+"/test?dry_run=true", "", headers...)
		})
	}
	call(apitest.Bearer...).Want(t, http.StatusOK, `"dry_run":true`)
	call().Want(t, http.StatusForbidden)
}

// TestDryRunOnOtherSurfaces: an argument of a tool, and a data part of a message.
func TestDryRunOnOtherSurfaces(t *testing.T) {
	s := apitest.Board(t)
	for _, p := range apitest.Publishers {
		index := s.Backend.Machine.Applied()
		got := p.Publish(t, s, map[string]any{"body": "Hello there", "agent": "ada", "dry_run": true})
		if got.Problem != nil || len(got.Notes) == 0 || got.Notes[0] != apitest.NothingWritten || got.Entry.ID != "" || s.Backend.Machine.Applied() != index {
			t.Errorf("%s: %+v %v", p.Name, got.Published, got.Problem)
		}
	}
	b := apitest.NewToolbox(t, s)
	for tool, arguments := range map[string]apitest.Args{
		"publish_entry": {"body": "Hello there", "kind": "knowledge"}, "register_agent": {"id": "ada2", "note": "Later."},
		"post_job": {"agent": "ada", "title": "A job", "body": "To be done"}, "claim_job": {"agent": "cyd", "job_id": "j2"},
		"submit_job_result": {"agent": "bob", "job_id": "j3", "result": "Done it."}, "release_job": {"agent": "bob", "job_id": "j3"},
		"close_job": {"agent": "eve", "job_id": "j2"}, "report_entry": {"entry_id": "e1", "reason": "spam", "text": "It is."},
		"request_human_help": {"agent": "ada", "goal": "An opinion", "requested_action": "Give it."},
		"mark_seen":          {"agent": "fay", "ids": []string{"e1"}, "edit_key": apitest.AgentKey},
	} {
		arguments["dry_run"] = true
		index := s.Backend.Machine.Applied()
		got := b.Use(tool, arguments)
		if got.IsError || !strings.HasPrefix(got.TextOf, apitest.NothingWritten) || !bytes.Contains(got.Body, []byte(`"dry_run":true`)) || s.Backend.Machine.Applied() != index {
			t.Errorf("%s: %s %s", tool, got.TextOf, got.Body)
		}
	}
}

// TestDryRunIsNoOracle: blocks and watch words have one answer.
func TestDryRunIsNoOracle(t *testing.T) {
	const reviewed = "It would be refused."
	byOperator := command.Order{By: command.Operator}
	long := strings.Repeat("Buy these pills, they are cheap and good for you today. ", 20)
	for name, rule := range map[string]command.Payload{
		"a watch word":        &command.SetRule{Order: byOperator, Kind: command.RulePattern, Subject: "pills"},
		"a blocked name":      &command.SetRule{Order: byOperator, Kind: command.RuleName, Subject: "eve", For: 1 << 30},
		"a blocked network":   &command.SetRule{Order: byOperator, Kind: command.RuleNetwork, Subject: "127.0.0.0/8", For: 1 << 30},
		"a blocked sender":    &command.SetRule{Order: byOperator, Kind: command.RuleSender, Subject: "e1", For: 1 << 30},
		"a channel is frozen": &command.SetRule{Order: byOperator, Kind: command.RuleChannel, Subject: "general", For: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.Board(t)
			s.Backend.Apply(rule)
			body := map[string]any{"agent": "eve", "body": long, "dry_run": true}
			if name == "a channel is frozen" { // which everybody may know
				apitest.WithoutEffect(t, s, func() *apitest.Response { return s.Post("/api/entries", body) }).Want(t, http.StatusForbidden)
				return
			}
			got := apitest.DryRun(t, s, func() *apitest.Response { return s.Post("/api/entries", body) })
			apitest.Equal(t, "notes", got.Notes, []string{apitest.NothingWritten, reviewed})
		})
	}
}

// TestDryRunOfARepeat checks the note that the write would be a repeat.
func TestDryRunOfARepeat(t *testing.T) {
	s := apitest.Board(t)
	body := map[string]any{"agent": "ada", "body": "Hello", "request_id": "request-1"}
	s.Publish(body)
	body["dry_run"] = true
	got := apitest.DryRun(t, s, func() *apitest.Response { return s.Post("/api/entries", body) })
	if len(got.Notes) < 2 || !strings.Contains(got.Notes[1], "repeats") {
		t.Errorf("%v", got.Notes)
	}
	next := map[string]any{"agent": "ada", "action": "claim", "next": map[string]any{}, "request_id": "request-2"}
	s.Post("/api/jobs", next).Must(t, http.StatusCreated)
	next["dry_run"] = true
	got = apitest.DryRun(t, s, func() *apitest.Response { return s.Post("/api/jobs", next) })
	if len(got.Notes) < 2 || !strings.Contains(got.Notes[1], "repeats") {
		t.Errorf("a claim of the next job: %v", got.Notes)
	}
	profile := map[string]any{"id": "cyd", "note": "First.", "request_id": "request-3"}
	s.Post("/api/agents", profile).Must(t, http.StatusCreated)
	profile["note"], profile["dry_run"] = "Second.", true
	got = apitest.DryRun(t, s, func() *apitest.Response { return s.Post("/api/agents", profile) })
	if len(got.Notes) < 2 || !strings.Contains(got.Notes[1], "replace the keys, which were never used") {
		t.Errorf("a registration whose answer was lost: %v", got.Notes)
	}
	delete(profile, "dry_run")
	keyOf := func() string {
		return apitest.Decoded[client.Registered](t, s.Post("/api/agents", profile).Must(t, http.StatusCreated)).EditKey
	}
	former := keyOf()
	profile["edit_key"], profile["rotate_key"], profile["request_id"] = former, true, "request-4"
	profile["edit_key"] = keyOf()
	s.Backend.Apply(&command.SetRule{Order: command.Order{By: command.Operator}, Kind: command.RuleAll, For: 1 << 30})
	lost := maps.Clone(profile)
	for _, dryRun := range []bool{true, false} {
		lost["edit_key"], lost["dry_run"] = former, dryRun
		s.Post("/api/agents", lost).Want(t, http.StatusForbidden, "writes_frozen")
	}
	profile["dry_run"] = true // with the new key, by which its holder has the answer
	got = apitest.DryRun(t, s, func() *apitest.Response { return s.Post("/api/agents", profile) })
	if len(got.Notes) < 2 || !strings.Contains(got.Notes[1], "write nothing either") {
		t.Errorf("a rotation whose answer arrived: %v", got.Notes)
	}
}

// TestDryRunsAreCounted: an address has 30 a minute, which its writes and rejections leave
// alone.
func TestDryRunsAreCounted(t *testing.T) {
	s := apitest.Board(t, func(c *api.Config) { c.Limits.DryRuns = guard.DefaultDryRuns })
	body := map[string]any{"body": "Hello", "dry_run": true}
	for range guard.DefaultDryRuns {
		s.Post("/api/entries", body).Must(t, http.StatusOK)
	}
	r := s.Post("/api/entries", body)
	if r.Status != http.StatusTooManyRequests || !strings.HasPrefix(r.Header.Get("RateLimit-Policy"), `"dry-runs";q=30;w=60`) {
		t.Errorf("one more: %d %s %s", r.Status, r.Header.Get("RateLimit-Policy"), r.Body)
	}
	s.Post("/api/entries", map[string]any{"body": "Hello"}).Want(t, http.StatusCreated)
}

// TestDryRunTellsTheTruth draws writes, sends each as a dry run and then in earnest: a dry
// run changes neither the state nor the log, and it succeeds exactly if the write does.
func TestDryRunTellsTheTruth(t *testing.T) {
	s := apitest.Board(t, apitest.UnboundedDryRuns, func(c *api.Config) { c.Limits.Rejections = guard.Unbounded })
	names, ids := []string{"ada", "eve", "bob", "fay", "?", ""}, []string{"", "e1", "e4", "j2", "j3", "j5", "e99"}
	fields := map[string][]string{
		"agent": names, "id": names, "body": {"Hello there", "x"}, "title": {"A title", ""}, "reply_to": ids, "supersedes": ids, "job_id": ids,
		"relation": {"", "retraction", "correction", "reply"}, "action": {"", "post", "claim", "result", "release", "close"}, "result": {"Done it.", ""},
		"description": {"", "Knows tides."}, "note": {"", "Later."}, "edit_key": {"", apitest.AgentKey, "ck_wrong"}, "request_id": {"", "request-1", "request-2"},
		"entry_id": ids, "reason": {"spam", "rude"}, "text": {"It is spam."}, "ids": ids, "goal": {"A goal"}, "requested_action": {"Do it."},
	}
	rapid.Check(t, func(rt *rapid.T) {
		pick := func(name string, values []string) string { return rapid.SampledFrom(values).Draw(rt, name) }
		path := pick("path", []string{"/api/entries", "/api/jobs", "/api/agents", "/api/reports", "/api/home/seen", "/api/human-requests"})
		body := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if value := pick(name, fields[name]); value != "" && rapid.IntRange(0, 3).Draw(rt, "give "+name) > 0 {
				body[name] = value
			}
		}
		tried := maps.Clone(body)
		tried["dry_run"] = true
		got := apitest.WithoutEffect(t, s, func() *apitest.Response { return s.Post(path, tried) })
		earnest := s.Post(path, body)
		repeat := bytes.Contains(earnest.Body, []byte("request_id was used before")) // which wins over what is wrong
		if (got.Status == http.StatusOK) != (earnest.Status < http.StatusBadRequest) && !repeat {
			rt.Fatalf("%s %v: %d %s, in earnest %d %s", path, body, got.Status, got.Body, earnest.Status, earnest.Body)
		}
	})
}
