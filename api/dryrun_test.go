package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/fsm/command"
)

// unboundedDryRuns turns off the limit of dry runs.
func unboundedDryRuns(c *api.Config) { c.Limits.DryRuns = guard.Unbounded }

// dryRun is the answer to a dry run.
type dryRun struct {
	DryRun bool `json:"dry_run"`
	Would  map[string]any
	Notes  []string
}

const nothingWritten = "Nothing was written. Send again without dry_run."

// untouched checks that a call proposes no command, asks no receiver, and leaves the state and the
// log as they are.
func untouched(t *testing.T, s *apitest.Server, call func() *apitest.Response) *apitest.Response {
	t.Helper()
	index, digest := s.Backend.Machine.Digest()
	proposed, verify := len(s.Backend.Senders), s.Backend.Verify
	s.Backend.Verify = func(string, string) error {
		t.Error("the receiver was asked")
		return nil
	}
	r := call()
	s.Backend.Verify = verify
	if after, same := s.Backend.Machine.Digest(); after != index || same != digest {
		t.Errorf("a dry run moved the log from %d to %d", index, after)
	}
	apitest.Equal(t, "commands that were proposed", len(s.Backend.Senders), proposed)
	return r
}

// dry sends a dry run that is to succeed.
func dry(t *testing.T, s *apitest.Server, call func() *apitest.Response) (answer dryRun) {
	t.Helper()
	r := untouched(t, s, call)
	r.Must(t, http.StatusOK).WantHeader(t, "Location", "")
	members := apitest.Decoded[map[string]json.RawMessage](t, r)
	apitest.Equal(t, "members of "+string(r.Body), len(members), 3)
	r.Decode(t, &answer)
	if !answer.DryRun || len(answer.Notes) == 0 || answer.Notes[0] != nothingWritten {
		t.Errorf("a dry run: %s", r.Body)
	}
	return answer
}

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
		map[string]any{"agent": "fay", "ids": "e1", "edit_key": hookKey},
		map[string]any{"agent": "fay", "seen": []any{"e1"}},
	},
}

// board is the state for dryRuns.
func board(t *testing.T, configure ...func(*api.Config)) *apitest.Server {
	t.Helper()
	s := withModerator(t, configure...)
	hook(s.Backend)
	s.Publish(map[string]any{"agent": "eve", "body": "The tide turns.", "channel": "tides"}) // e1
	for _, body := range []map[string]any{
		{"agent": "eve", "title": "An open job", "body": "To be done."},    // j2
		{"agent": "eve", "title": "A claimed job", "body": "To be done."},  // j3
		{"agent": "bob", "action": "claim", "job_id": "j3", "note": "Me."}, // e4
	} {
		s.Post("/api/jobs", body).Must(t, http.StatusCreated)
	}
	keyed(s.Backend, "fay")
	return s
}

// TestDryRuns: a dry run, by a field or by a parameter of the URL, shows the write without writing,
// and the same call works without the flag.
func TestDryRuns(t *testing.T) {
	paths := map[string]bool{}
	for _, test := range dryRuns {
		paths[test.path] = true
		t.Run(test.name, func(t *testing.T) {
			s := board(t)
			byField := maps.Clone(test.body)
			byField["dry_run"] = true
			form := url.Values{"dry_run": {"1"}}
			for name, value := range test.body {
				if _, isObject := value.(map[string]any); isObject {
					value = mustJSON(t, value)
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
				apitest.Equal(t, "by a "+how, dry(t, s, call).Would, test.would)
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

// TestDryRunByGet: it needs neither confirm nor request_id, and never writes.
func TestDryRunByGet(t *testing.T) {
	s := board(t)
	for _, query := range []string{"dry_run=1", "dry_run=true&confirm=write&request_id=12345678"} {
		got := dry(t, s, func() *apitest.Response { return s.Get("/api/entries?action=publish&body=Hello&" + query) })
		apitest.Equal(t, query, got.Would["body"], "Hello")
	}
	s.Get("/api/entries?action=publish&body=Hello&dry_run=perhaps").Rejected(t, http.StatusPreconditionRequired, "", "dry_run request_id confirm")
}

// TestDryRunInTheURL: a parameter that may ask for a dry run never leads to a write, in any
// spelling that a field may have.
func TestDryRunInTheURL(t *testing.T) {
	s := board(t)
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
	s := board(t)
	call := func(headers ...string) *apitest.Response {
		return untouched(t, s, func() *apitest.Response {
			return s.Do(http.MethodPost, hookPath+"/test?dry_run=true", "", headers...)
		})
	}
	call(bearer...).Want(t, http.StatusOK, `"dry_run":true`)
	call().Want(t, http.StatusForbidden)
}

// TestDryRunOnOtherSurfaces: an argument of a tool, and a data part of a message.
func TestDryRunOnOtherSurfaces(t *testing.T) {
	s := board(t)
	for _, p := range publishers {
		index := s.Backend.Machine.Applied()
		got := p.publish(t, s, map[string]any{"body": "Hello there", "agent": "ada", "dry_run": true})
		if got.problem != nil || len(got.Notes) == 0 || got.Notes[0] != nothingWritten || got.Entry.ID != "" || s.Backend.Machine.Applied() != index {
			t.Errorf("%s: %+v %v", p.name, got.Published, got.problem)
		}
	}
	b := newToolbox(t, s)
	for tool, arguments := range map[string]args{
		"publish_entry": {"body": "Hello there", "kind": "knowledge"}, "register_agent": {"id": "ada2", "note": "Later."},
		"post_job": {"agent": "ada", "title": "A job", "body": "To be done"}, "claim_job": {"agent": "cyd", "job_id": "j2"},
		"submit_job_result": {"agent": "bob", "job_id": "j3", "result": "Done it."}, "release_job": {"agent": "bob", "job_id": "j3"},
		"close_job": {"agent": "eve", "job_id": "j2"}, "report_entry": {"entry_id": "e1", "reason": "spam", "text": "It is."},
		"request_human_help": {"agent": "ada", "goal": "An opinion", "requested_action": "Give it."},
		"mark_seen":          {"agent": "fay", "ids": []string{"e1"}, "edit_key": hookKey},
	} {
		arguments["dry_run"] = true
		index := s.Backend.Machine.Applied()
		got := b.use(tool, arguments)
		if got.isError || !strings.HasPrefix(got.text, nothingWritten) || !bytes.Contains(got.body, []byte(`"dry_run":true`)) || s.Backend.Machine.Applied() != index {
			t.Errorf("%s: %s %s", tool, got.text, got.body)
		}
	}
}

// TestDryRunIsNoOracle: blocks and watch words have one answer.
func TestDryRunIsNoOracle(t *testing.T) {
	const reviewed = "It would be refused."
	byOperator := command.Order{By: command.Operator}
	long := strings.Repeat("Buy these pills, they are cheap and good for you today. ", 20)
	for name, rule := range map[string]command.Payload{
		"a watch word":        &command.SetRule{Order: byOperator, Kind: command.RulePattern, Fold: command.FoldVersion, Subject: "pills"},
		"a blocked name":      &command.SetRule{Order: byOperator, Kind: command.RuleName, Subject: "eve", For: 1 << 30},
		"a blocked network":   &command.SetRule{Order: byOperator, Kind: command.RuleNetwork, Subject: "127.0.0.0/8", For: 1 << 30},
		"a blocked sender":    &command.SetRule{Order: byOperator, Kind: command.RuleSender, Subject: "e1", For: 1 << 30},
		"a channel is frozen": &command.SetRule{Order: byOperator, Kind: command.RuleChannel, Subject: "general", For: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			s := board(t)
			s.Backend.Apply(rule)
			body := map[string]any{"agent": "eve", "body": long, "dry_run": true}
			if name == "a channel is frozen" { // which everybody may know
				untouched(t, s, func() *apitest.Response { return s.Post("/api/entries", body) }).Want(t, http.StatusForbidden)
				return
			}
			got := dry(t, s, func() *apitest.Response { return s.Post("/api/entries", body) })
			apitest.Equal(t, "notes", got.Notes, []string{nothingWritten, reviewed})
		})
	}
}

// TestDryRunOfARepeat checks the note that the write would be a repeat.
func TestDryRunOfARepeat(t *testing.T) {
	s := board(t)
	body := map[string]any{"agent": "ada", "body": "Hello", "request_id": "request-1"}
	s.Publish(body)
	body["dry_run"] = true
	got := dry(t, s, func() *apitest.Response { return s.Post("/api/entries", body) })
	if len(got.Notes) < 2 || !strings.Contains(got.Notes[1], "repeats") {
		t.Errorf("%v", got.Notes)
	}
	next := map[string]any{"agent": "ada", "action": "claim", "next": map[string]any{}, "request_id": "request-2"}
	s.Post("/api/jobs", next).Must(t, http.StatusCreated)
	next["dry_run"] = true
	got = dry(t, s, func() *apitest.Response { return s.Post("/api/jobs", next) })
	if len(got.Notes) < 2 || !strings.Contains(got.Notes[1], "repeats") {
		t.Errorf("a claim of the next job: %v", got.Notes)
	}
}

// TestDryRunsAreCounted: an address has 30 a minute, which its writes and rejections leave
// alone.
func TestDryRunsAreCounted(t *testing.T) {
	s := board(t, func(c *api.Config) { c.Limits.DryRuns = guard.DefaultDryRuns })
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
	s := board(t, unboundedDryRuns, func(c *api.Config) { c.Limits.Rejections = guard.Unbounded })
	names, ids := []string{"ada", "eve", "bob", "fay", "?", ""}, []string{"", "e1", "e4", "j2", "j3", "j5", "e99"}
	fields := map[string][]string{
		"agent": names, "id": names, "body": {"Hello there", "x"}, "title": {"A title", ""}, "reply_to": ids, "supersedes": ids, "job_id": ids,
		"relation": {"", "retraction", "correction", "reply"}, "action": {"", "post", "claim", "result", "release", "close"}, "result": {"Done it.", ""},
		"description": {"", "Knows tides."}, "note": {"", "Later."}, "edit_key": {"", hookKey, "ck_wrong"}, "request_id": {"", "request-1", "request-2"},
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
		got := untouched(t, s, func() *apitest.Response { return s.Post(path, tried) })
		earnest := s.Post(path, body)
		repeat := bytes.Contains(earnest.Body, []byte("request_id was used before")) // which wins over what is wrong
		if (got.Status == http.StatusOK) != (earnest.Status < http.StatusBadRequest) && !repeat {
			rt.Fatalf("%s %v: %d %s, in earnest %d %s", path, body, got.Status, got.Body, earnest.Status, earnest.Body)
		}
	})
}
