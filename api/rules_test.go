package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// publisher is a surface as the rules of publishing see it. The request_id of a NewEntry is its
// idempotency key, under any name.
type publisher struct {
	name string // in ways
	room string // the default channel of a message
	key  string // the kind of idempotency key: surfaces with the same share them
}

// outcome is the result of publishing.
type outcome struct {
	apitest.Published
	// problem is the Error object, or nil if the entry was published.
	problem *apitest.Problem
}

// publishers are the surfaces that publish.
var publishers = []publisher{{"post", "general", "request_id"}, {"a2a", "a2a", "messageId"}, {"mcp", "general", "request_id"}}

// publish sends a NewEntry, and returns the answer of any surface in one form.
func (p publisher) publish(t *testing.T, s *apitest.Server, fields map[string]any) (o outcome) {
	t.Helper()
	r := ways[p.name](s, fields)
	body, fails := json.RawMessage(r.Body), r.Status >= http.StatusBadRequest
	switch {
	case p.name == "mcp":
		result := apitest.Decoded[struct {
			Result struct {
				StructuredContent json.RawMessage
				IsError           bool
			}
		}](t, r).Result
		body, fails = result.StructuredContent, result.IsError
	case fails:
		problem := rejectionIn(t, r)
		o.problem = &problem
		return o
	case p.name == "a2a":
		body = apitest.Decoded[struct{ Message reply }](t, r).Message.Parts[1].Data
	}
	var err error
	if fails {
		err = json.Unmarshal(body, &o.problem)
	} else {
		err = json.Unmarshal(body, &o.Published)
	}
	if err != nil {
		t.Fatalf("%s: %v", r.Body, err)
	}
	return o
}

// messages numbers the messages that bring no key.
var messages atomic.Int64

// rejectedEntries are entries that break the rules of publishing, and the fields
// whose rules they break. e1 is an entry of eve, j2 a job of hers that is claimed.
var rejectedEntries = map[string]struct {
	fields map[string]any
	broken string
}{
	"body too short":        {map[string]any{"body": "abc"}, "body"},
	"body too long":         {map[string]any{"body": strings.Repeat("a", 5001)}, "body"},
	"body with controls":    {map[string]any{"body": "a bell \a rings"}, "body"},
	"no body":               {map[string]any{"title": "A title"}, "body"},
	"credential":            {map[string]any{"body": "my key: ck_" + "qz7m3kx5wb2hfn6ty4jrvdslpc" + "g6ea3oi7u2kzxm5wqb4hfnytjr"}, "body"},
	"title too short":       {map[string]any{"body": "Hello", "title": "abc"}, "title"},
	"title of a number":     {map[string]any{"body": "Hello", "title": 1234}, "title"},
	"unknown kind":          {map[string]any{"body": "Hello", "kind": "poem"}, "kind"},
	"name too short":        {map[string]any{"body": "Hello", "agent": "a"}, "agent"},
	"name too long":         {map[string]any{"body": "Hello", "agent": strings.Repeat("a", 65)}, "agent"},
	"channel too long":      {map[string]any{"body": "Hello", "channel": strings.Repeat("a", 41)}, "channel"},
	"too many tags":         {map[string]any{"body": "Hello", "tags": []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}}, "tags"},
	"tag too long":          {map[string]any{"body": "Hello", "tags": []string{strings.Repeat("a", 41)}}, "tags"},
	"tags of no texts":      {map[string]any{"body": "Hello", "tags": "[1,2]"}, "tags"},
	"tags of no text":       {map[string]any{"body": "Hello", "tags": true}, "tags"},
	"misnamed reference":    {map[string]any{"body": "Hello", "replying_to": "e1"}, "reply_to"},
	"misnamed key":          {map[string]any{"body": "Hello", "my_request_identifier": "0123456789"}, "request_id"},
	"placeholder":           {map[string]any{"body": "(your answer)"}, "body"},
	"target of a number":    {map[string]any{"body": "Hello", "reply_to": 1}, "reply_to"},
	"unknown target":        {map[string]any{"body": "Hello", "supersedes": "e99"}, "supersedes"},
	"unknown reply target":  {map[string]any{"body": "Hello", "reply_to": "e99"}, "reply_to"},
	"relation alone":        {map[string]any{"body": "Hello", "relation": "follow_up"}, "relation"},
	"unknown relation":      {map[string]any{"body": "Hello", "supersedes": "e1", "relation": "sequel"}, "relation"},
	"reply and another":     {map[string]any{"body": "Hello", "reply_to": "e1", "supersedes": "j2"}, "reply_to"},
	"reply as correction":   {map[string]any{"body": "Hello", "reply_to": "e1", "relation": "correction"}, "relation"},
	"retraction of others":  {map[string]any{"body": "Hello", "agent": "ada", "supersedes": "e1", "relation": "retraction"}, "relation"},
	"retracted claimed job": {map[string]any{"body": "Hello", "agent": "eve", "supersedes": "j2", "relation": "retraction"}, "relation"},
	"everything at once": {
		map[string]any{"body": "x", "title": "y", "kind": "poem", "agent": "z", "channel": "c", "tags": 1, "relation": "sequel"},
		"body kind agent channel title tags relation",
	},
}

// TestRulesHoldOnEverySurface breaks every rule of publishing on every surface: the
// same issues are found, the call does not write, and the words are those of HTTP.
func TestRulesHoldOnEverySurface(t *testing.T) {
	s := start(t)
	s.Publish(map[string]any{"agent": "eve", "body": "An entry of eve"})
	for _, body := range []map[string]any{
		{"agent": "eve", "title": "A job", "body": "To be done"}, {"agent": "cyd", "action": "claim", "job_id": "j2"},
	} {
		s.Post("/api/jobs", body).Must(t, http.StatusCreated)
	}
	for name, rule := range rejectedEntries {
		var first *apitest.Problem
		for _, surface := range publishers {
			got := surface.publish(t, s, rule.fields)
			if got.problem == nil {
				t.Errorf("%s, %s: it was published: %+v", surface.name, name, got.Entry)
				continue
			}
			apitest.Equal(t, surface.name+", "+name, got.problem.Fields(), rule.broken)
			if first == nil {
				first = got.problem
			}
			if len(first.Issues) == len(got.problem.Issues) {
				for i, issue := range got.problem.Issues {
					if issue.Field != first.Issues[i].Field || !saysTheSame(issue.Message, first.Issues[i].Message) {
						t.Errorf("%s, %s: %q, by HTTP %q", surface.name, name, issue, first.Issues[i])
					}
				}
			}
			if got.problem.Code != first.Code || got.problem.Retryable != first.Retryable || got.problem.Error != first.Error {
				t.Errorf("%s, %s: %+v, by HTTP %+v", surface.name, name, got.problem, first)
			}
		}
	}
	check.Equal(t, len(apitest.Decoded[apitest.List](t, s.Get("/api/entries")).Entries), 3, "entries, with those from before")
}

// TestEntriesComeOutAlikeOnEverySurface holds what is made of the fields.
func TestEntriesComeOutAlikeOnEverySurface(t *testing.T) {
	for _, surface := range publishers {
		s := start(t)
		say := func(fields map[string]any) outcome {
			t.Helper()
			got := surface.publish(t, s, fields)
			if got.problem != nil {
				t.Fatalf("%s: %v: %+v", surface.name, fields, got.problem)
			}
			return got
		}
		plain := say(map[string]any{"body": "One line\nand another"}).Entry
		if plain.Agent != "anonymous" || plain.Kind != "message" || plain.Title != "One line" || plain.Channel != surface.room || len(plain.Tags) != 0 {
			t.Errorf("%s: %+v", surface.name, plain)
		}
		filed := say(map[string]any{
			"body": "  A finding.\r\n", "author": "Ada Lovelace", "type": "finding", "labels": []string{"b", "a", "b"}, "subject": strings.Repeat("t", 200), "odd": 1,
		})
		if e := filed.Entry; e.Agent != "Ada-Lovelace" || e.Kind != "knowledge" || e.Channel != "knowledge" || len(e.Tags) != 2 || len(e.Title) != 180 || e.Body != "A finding." {
			t.Errorf("%s: %+v", surface.name, e)
		}
		if notes := strings.Join(filed.Notes, " "); !strings.Contains(notes, "odd") || !strings.Contains(notes, "Ada-Lovelace") || !strings.Contains(notes, "180") {
			t.Errorf("%s: notes %s", surface.name, notes)
		}
		room := say(map[string]any{"body": "Elsewhere", "agent": "bob", "channel": "Rare Room"}).Entry
		answer := say(map[string]any{"body": "@bob yes", "agent": "ada", "reply_to": room.ID}).Entry
		if room.Channel != "rare-room" || answer.Channel != "rare-room" || answer.Relation != "reply" || answer.Supersedes != room.ID {
			t.Errorf("%s: %+v, then %+v", surface.name, room, answer)
		}
		if taken := say(map[string]any{"body": "Never mind", "agent": "bob", "supersedes": room.ID, "relation": "retraction"}).Entry; taken.Relation != "retraction" {
			t.Errorf("%s: %+v", surface.name, taken)
		}
		if inbox := apitest.Decoded[apitest.List](t, s.Get("/api/entries?for=bob")); len(inbox.Entries) != 1 || inbox.Entries[0].ID != answer.ID {
			t.Errorf("%s: for=bob: %+v", surface.name, inbox.Entries)
		}
		for _, list := range []struct {
			sent any
			want []string
		}{
			{`["a","b"]`, []string{"a", "b"}},
			{" [ \"a, b\" ] ", []string{"a, b"}},
			{[]string{"Washington, DC"}, []string{"Washington, DC"}},
			{"a, b", []string{"a", "b"}},
			{"[wip], b", []string{"[wip]", "b"}},
			{"[]", []string{}},
		} {
			apitest.Equal(t, fmt.Sprint(surface.name, ", tags of ", list.sent), say(map[string]any{"body": "Filed", "tags": list.sent}).Entry.Tags, list.want)
		}
		key := register(t, s, http.StatusCreated, map[string]any{"id": "cyd", "description": "Answers questions."}).EditKey
		proven := say(map[string]any{"body": "It is me", "agent": "cyd", "edit_key": key})
		nobodys := say(map[string]any{"body": "It is me", "agent": "dan", "edit_key": "ck_wrong"})
		others := 0
		if surface.room == "a2a" {
			others = 1 // a short message names the commands
		}
		if len(proven.Notes) != others || len(nobodys.Notes) != others+1 || strings.Contains(string(s.Get("/api/entries").Body), key) {
			t.Errorf("%s: notes %v and %v", surface.name, proven.Notes, nobodys.Notes)
		}
	}
}

// TestKeysAndLimitsOnEverySurface holds that a key publishes once for each agent and
// each kind of key, whatever the second text says; and what limits come to.
func TestKeysAndLimitsOnEverySurface(t *testing.T) {
	s := start(t)
	ids := map[string]string{}
	entries := map[string]string{} // by agent and kind of key
	for _, surface := range publishers {
		for _, agent := range []string{"ada", "bob", "anonymous"} {
			fields := map[string]any{"body": "Written once", "agent": agent, "request_id": "the-same-key"}
			first := surface.publish(t, s, fields)
			fields["body"] = "Another text"
			again := surface.publish(t, s, fields)
			shared := entries[surface.key+" "+agent]
			if first.Duplicate != (shared != "") || shared != "" && shared != first.Entry.ID || !again.Duplicate || again.Entry.ID != first.Entry.ID || len(again.Notes) == 0 {
				t.Errorf("%s, %s: %+v, then %+v", surface.name, agent, first, again)
			}
			if other, known := ids[first.Entry.ID]; known && other != surface.key+" "+agent {
				t.Errorf("%s, %s: the entry of %s", surface.name, agent, other)
			}
			ids[first.Entry.ID] = surface.key + " " + agent
			entries[surface.key+" "+agent] = first.Entry.ID
			fields["body"] = "x" // its shape is wrong, and the key is known
			if known := surface.publish(t, s, fields); !known.Duplicate {
				t.Errorf("%s, %s: %+v", surface.name, agent, known)
			}
		}
	}
	var cause error
	s.Backend.Reject = func(command.Sender, command.Payload) error { return cause }
	for code, err := range map[string]error{
		"rate_limited":    &command.RateLimited{RetryAfter: time.Second},
		"not_enqueued":    &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "no leader"},
		"disk_full":       &command.Unavailable{Code: command.CodeDiskFull, Reason: "the disks are nearly full"},
		"outcome_unknown": &command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: "no answer"},
	} {
		cause = err
		for _, surface := range publishers {
			got := surface.publish(t, s, map[string]any{"body": "Hello", "agent": "ada", "request_id": "key-" + code + surface.name})
			// Every one may be sent again: the key keeps it from being written twice.
			if got.problem == nil || got.problem.Code != code || !got.problem.Retryable {
				t.Errorf("%s: %+v, want %s", surface.name, got, code)
			}
			if from := s.Backend.LastSender(); from.AgentKey != "ada" || from.Fingerprint == "" {
				t.Errorf("%s: limited as %+v", surface.name, from)
			}
		}
	}
}

// jobTools are the actions of the tools that share an operation.
var jobTools = map[string]string{
	"post_job": "post", "claim_job": "claim", "submit_job_result": "result", "release_job": "release", "close_job": "close",
}

// httpOf returns the operation that a tool runs, or that has this id.
func httpOf(t *testing.T, tool string) api.Served {
	t.Helper()
	for _, o := range api.Operations() {
		if slices.Contains(o.Tools, tool) || o.ID == tool {
			return o
		}
	}
	t.Fatalf("no operation has the tool %s", tool)
	return api.Served{}
}

// askByHTTP sends the arguments of a tool by HTTP.
func askByHTTP(t *testing.T, s *apitest.Server, tool string, arguments args) *apitest.Response {
	t.Helper()
	at := httpOf(t, tool)
	path, query, body, headers := at.Path, url.Values{}, args{}, []string(nil)
	for name, value := range arguments {
		switch text := fmt.Sprint(value); {
		case name == "id" && strings.Contains(path, "{id}"):
			path = strings.ReplaceAll(path, "{id}", url.PathEscape(text))
		case name == "edit_key" && strings.Contains(at.Path, "{id}"):
			headers = append(headers, "Authorization", "Bearer "+text)
		case at.Method == http.MethodGet || strings.Contains(at.Path, "{id}"):
			query.Set(name, text)
		default:
			body[name] = value
		}
	}
	if action := jobTools[tool]; action != "" {
		body["action"] = action
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if at.Method == http.MethodGet {
		return s.Get(path, headers...)
	}
	return s.Do(at.Method, path, mustJSON(t, body), append(headers, "Content-Type", jsonType)...)
}

func letters(n int) string { return strings.Repeat("a", n) }

func words(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = "word" + strconv.Itoa(i)
	}
	return list
}

// secret looks like a credential.
const secret = "my key: ck_" + "qz7m3kx5wb2hfn6ty4jrvdslpc" + "g6ea3oi7u2kzxm5wqb4hfnytjr"

// toolRules are calls that break the rules of everything but publishing, and the code
// and the fields of the rejection. Of eve's jobs j2 is claimed by cyd, j4 open, j5
// withdrawn and j6 done. ada is pushed to, fay is not; both have the key hookKey. No receiver answers.
var toolRules = []struct {
	tool         string
	arguments    args
	code, fields string
}{
	{"post_job", args{}, "validation_failed", "agent title body"},
	{"post_job", args{"agent": "a", "title": "A job", "body": "To be done"}, "validation_failed", "agent"},
	{"post_job", args{"agent": letters(command.MaxName + 1), "title": "A job", "body": "To be done"}, "validation_failed", "agent"},
	{"post_job", args{"agent": 1, "title": "A job", "body": "To be done"}, "validation_failed", "agent"},
	{"post_job", args{"agent": "ada", "title": "abc", "body": "To be done"}, "validation_failed", "title"},
	{"post_job", args{"agent": "ada", "title": []int{1}, "body": "To be done"}, "validation_failed", "title"},
	{"post_job", args{"agent": "ada", "title": "A job", "body": "abc"}, "validation_failed", "body"},
	{"post_job", args{"agent": "ada", "title": "A job", "body": letters(command.MaxBody + 1)}, "validation_failed", "body"},
	{"post_job", args{"agent": "ada", "title": "A job", "body": "a bell \a rings"}, "validation_failed", "body"},
	{"post_job", args{"agent": "ada", "title": "A job", "body": secret}, "validation_failed", "body"},
	{"post_job", args{"agent": "ada", "title": "A job", "body": "To be done", "tags": words(command.MaxTags + 1)}, "validation_failed", "tags"},
	{"post_job", args{"agent": "ada", "title": "A job", "body": "To be done", "tags": []string{letters(command.MaxTag + 1)}}, "validation_failed", "tags"},
	{"post_job", args{"agent": "ada", "title": "A job", "body": "To be done", "tags": true}, "validation_failed", "tags"},
	{"post_job", args{"agent": "ada", "title": "A job", "body": "To be done", "reply_to": "e1"}, "validation_failed", "reply_to"},
	{"claim_job", args{"agent": "bob", "job_id": "j4", "parent_job": "j4"}, "validation_failed", "parent_job"},
	{"post_job", args{"agent": "ada", "title": "A job", "body": "To be done", "request_id": "short"}, "validation_failed", "request_id"},
	{"post_job", args{"agent": "ada", "title": "A job", "body": "To be done", "request_id": letters(command.MaxRequestID + 1)}, "validation_failed", "request_id"},
	{"post_job", args{"agent": "a", "title": "b", "body": "c", "tags": 1, "request_id": "d"}, "validation_failed", "agent request_id title body tags"},

	{"claim_job", args{}, "validation_failed", "agent job_id"},
	{"claim_job", args{"agent": "bob", "job_id": 4}, "validation_failed", "job_id"},
	{"claim_job", args{"agent": "bob", "job_id": letters(command.MaxTarget + 1)}, "validation_failed", "job_id"},
	{"claim_job", args{"agent": "bob", "job_id": "j4", "note": letters(command.MaxJobNote + 1)}, "validation_failed", "note"},
	{"claim_job", args{"agent": "bob", "job_id": "j4", "note": secret}, "validation_failed", "note"},
	{"claim_job", args{"agent": "b", "job_id": "j99", "note": 1}, "validation_failed", "agent note job_id"},
	{"claim_job", args{"agent": "bob", "job_id": "j99"}, "unknown_job", "job_id"},
	{"claim_job", args{"agent": "bob", "job_id": "e1"}, "unknown_job", "job_id"},
	{"claim_job", args{"agent": "eve", "job_id": "j4"}, "own_job", "agent"},
	{"claim_job", args{"agent": "bob", "job_id": "j2"}, "job_claimed", "job_id"},
	{"claim_job", args{"agent": "eve", "job_id": "j2"}, "own_job", "agent job_id"},
	{"claim_job", args{"agent": "bob", "job_id": "j5"}, "job_closed", "job_id"},
	{"claim_job", args{"agent": "bob", "job_id": "j6"}, "job_done", "job_id"},

	{"submit_job_result", args{}, "validation_failed", "agent job_id result"},
	{"submit_job_result", args{"agent": "bob", "job_id": "j4", "result": "  "}, "validation_failed", "result job_id"},
	{"submit_job_result", args{"agent": "bob", "job_id": "j4", "result": letters(command.MaxJobResult + 1)}, "validation_failed", "result job_id"},
	{"submit_job_result", args{"agent": "bob", "job_id": "j4", "result": true}, "validation_failed", "result job_id"},
	{"submit_job_result", args{"agent": "bob", "job_id": "j4", "result": secret}, "validation_failed", "result job_id"},
	{"submit_job_result", args{"agent": "bob", "job_id": "j99", "result": "Done it."}, "unknown_job", "job_id"},
	{"submit_job_result", args{"agent": "eve", "job_id": "j4", "result": "Done it."}, "own_job", "agent job_id"},
	{"submit_job_result", args{"agent": "bob", "job_id": "j2", "result": "Done it."}, "job_claimed", "job_id"},
	{"submit_job_result", args{"agent": "bob", "job_id": "j5", "result": "Done it."}, "job_closed", "job_id"},
	{"submit_job_result", args{"agent": "bob", "job_id": "j6", "result": "Done it."}, "job_done", "job_id"},

	{"claim_job", args{"agent": "bob", "next": "any"}, "validation_failed", "next"},
	{"claim_job", args{"agent": "bob", "next": args{"odd": 1}}, "validation_failed", "next"},
	{"claim_job", args{"agent": "bob", "next": args{"tags": words(command.MaxTags + 1)}, "wait": 61}, "validation_failed", "wait next"},
	{"claim_job", args{"agent": "bob", "next": args{"max_age_hours": 0}, "note": letters(command.MaxJobNote + 1)}, "validation_failed", "note next"},

	{"release_job", args{}, "validation_failed", "agent job_id"},
	{"release_job", args{"agent": "bob", "job_id": "j99"}, "unknown_job", "job_id"},
	{"release_job", args{"agent": "bob", "job_id": "j4"}, "not_claimed", "job_id"},
	{"submit_job_result", args{"agent": "bob", "job_id": "j4", "result": "Done it."}, "not_claimed", "job_id"},
	{"claim_job", args{"agent": "cyd", "job_id": "j2"}, "too_many_renewals", "job_id"},
	{"claim_job", args{"agent": "cyd", "job_id": "j4"}, "too_many_claims", "agent"},
	{"release_job", args{"agent": "bob", "job_id": "j2"}, "job_claimed", "job_id"},
	{"release_job", args{"agent": "bob", "job_id": "j5"}, "job_closed", "job_id"},
	{"release_job", args{"agent": "bob", "job_id": "j6"}, "job_done", "job_id"},

	{"close_job", args{}, "validation_failed", "agent job_id"},
	{"close_job", args{"agent": "eve", "job_id": "j99"}, "unknown_job", "job_id"},
	{"close_job", args{"agent": "bob", "job_id": "j4"}, "not_poster", "agent"},
	{"close_job", args{"agent": "eve", "job_id": "j2"}, "job_claimed", "job_id"},
	{"close_job", args{"agent": "bob", "job_id": "j2"}, "not_poster", "agent job_id"},
	{"close_job", args{"agent": "eve", "job_id": "j5"}, "job_closed", "job_id"},
	{"close_job", args{"agent": "eve", "job_id": "j6"}, "job_done", "job_id"},

	{"register_agent", args{}, "validation_failed", "id"},
	{"register_agent", args{"id": "a", "description": "Answers."}, "validation_failed", "id"},
	{"register_agent", args{"id": letters(command.MaxName + 1), "description": "Answers."}, "validation_failed", "id"},
	{"register_agent", args{"id": "anonymous", "description": "Answers."}, "validation_failed", "id"},
	{"register_agent", args{"id": "gus"}, "validation_failed", "description"},
	{"register_agent", args{"id": "gus", "description": "abc"}, "validation_failed", "description"},
	{"register_agent", args{"id": "gus", "description": letters(command.MaxDescription + 1)}, "validation_failed", "description"},
	{"register_agent", args{"id": "gus", "description": secret}, "validation_failed", "description"},
	{"register_agent", args{"id": "gus", "description": "Answers.", "capabilities": words(command.MaxCapabilities + 1)}, "validation_failed", "capabilities"},
	{"register_agent", args{"id": "gus", "description": "Answers.", "capabilities": []string{letters(command.MaxCapability + 1)}}, "validation_failed", "capabilities"},
	{"register_agent", args{"id": "gus", "description": "Answers.", "capabilities": true}, "validation_failed", "capabilities"},
	{"register_agent", args{"id": "gus", "description": "Answers.", "endpoint": "nowhere"}, "validation_failed", "endpoint"},
	{"register_agent", args{"id": "gus", "description": "Answers.", "note": letters(command.MaxNote + 1)}, "validation_failed", "note"},
	{"register_agent", args{"id": "gus", "description": "Answers.", "notify_url": "http://example.org/hook"}, "validation_failed", "notify_url"},
	{"register_agent", args{"id": "gus", "description": "Answers.", "notify_url": "https://127.0.0.1/hook"}, "validation_failed", "notify_url"},
	{"register_agent", args{"id": "gus", "description": "Answers.", "notify_url": "https://deaf.example/hook"}, "validation_failed", "notify_url"},
	{"register_agent", args{"id": "gus", "description": "Answers.", "request_id": "short"}, "validation_failed", "request_id"},
	{"register_agent", args{"id": "ada", "description": "Answers other questions."}, "wrong_edit_key", "edit_key"},
	{"register_agent", args{"id": "ada", "description": "Answers other questions.", "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"register_agent", args{"id": "ada", "description": "Answers other questions.", "edit_key": 1}, "validation_failed", "edit_key"},
	{"register_agent", args{"id": "a", "description": 1, "capabilities": 1, "endpoint": 1, "note": 1, "notify_url": 1}, "validation_failed", "id description capabilities endpoint note notify_url"},

	{"request_human_help", args{}, "validation_failed", "agent goal requested_action"},
	{"request_human_help", args{"agent": "a", "goal": "Look at the sea", "requested_action": "Say how high it is."}, "validation_failed", "agent"},
	{"request_human_help", args{"agent": "ada", "goal": "a", "requested_action": "b"}, "validation_failed", "goal requested_action"},
	{"request_human_help", args{"agent": "ada", "goal": letters(command.MaxHelpGoal + 1), "requested_action": letters(command.MaxHelpAction + 1)}, "validation_failed", "goal requested_action"},
	{"request_human_help", args{"agent": "ada", "goal": "Look at the sea", "requested_action": "Say how high it is.", "context": letters(command.MaxHelpContext + 1), "constraints": letters(command.MaxHelpBounds + 1)}, "validation_failed", "context constraints"},
	{"request_human_help", args{"agent": "ada", "goal": "Look at the sea", "requested_action": secret}, "validation_failed", "requested_action"},
	{"request_human_help", args{"agent": "ada", "goal": "Look at the sea", "requested_action": "Say how high it is.", "tags": words(command.MaxHelpTags + 1)}, "validation_failed", "tags"},
	{"request_human_help", args{"agent": "ada", "goal": 1, "requested_action": 2, "context": 3, "constraints": 4, "tags": 5, "request_id": 6}, "validation_failed", "goal requested_action context constraints tags request_id"},

	{"listDeliveries", args{"id": "nobody", "edit_key": hookKey}, "not_found", "id"},
	{"listDeliveries", args{"id": "ada"}, "wrong_edit_key", "edit_key"},
	{"listDeliveries", args{"id": "ada", "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"testDelivery", args{"id": "nobody", "edit_key": hookKey}, "not_found", "id"},

	{"post_job", args{"agent": "fay", "title": "A job", "body": "To be done", "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"request_human_help", args{"agent": "fay", "goal": "A goal", "requested_action": "Do it.", "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"close_job", args{"agent": "fay", "job_id": "j8"}, "proof_required", "edit_key"},
	{"claim_job", args{"agent": "fay", "job_id": "j9"}, "proof_required", "edit_key"},
	{"release_job", args{"agent": "fay", "job_id": "j9"}, "proof_required", "edit_key"},
	{"submit_job_result", args{"agent": "fay", "job_id": "j9", "result": "Done it."}, "proof_required", "edit_key"},
	{"post_job", args{"agent": "hal", "title": "A job", "body": "To be done"}, "name_protected", "edit_key"},
	{"claim_job", args{"agent": "hal", "job_id": "j4", "note": letters(command.MaxJobNote + 1)}, "validation_failed", "note edit_key"},
	{"register_agent", args{"id": "be11a", "note": "Later."}, "validation_failed", "id"},
	{"register_agent", args{"id": "ivy", "note": "Later.", "protected": true}, "name_in_use", "protected"},
	{"register_agent", args{"id": "fay", "protected": "yes", "rotate_key": 1}, "validation_failed", "protected rotate_key"},
	{"register_agent", args{"id": "fay", "rotate_key": true}, "wrong_edit_key", "edit_key"},
	{"register_agent", args{"id": "fay", "recovery_key": "crk_wrong"}, "wrong_recovery_key", "recovery_key"},
	{"register_agent", args{"id": "nobody", "recovery_key": "crk_wrong"}, "wrong_recovery_key", "recovery_key"},
	{"register_agent", args{"id": "fay", "recovery_key": "crk_wrong", "note": "Later."}, "validation_failed", "recovery_key"},
	{"register_agent", args{"id": "fay", "recovery_key": 7, "delete": 1}, "validation_failed", "delete recovery_key"},
	{"register_agent", args{"id": "fay", "delete": true}, "wrong_edit_key", "edit_key"},
	{"register_agent", args{"id": "nobody", "delete": true}, "not_found", "id"},
	{"testDelivery", args{"id": "ada"}, "wrong_edit_key", "edit_key"},
	{"testDelivery", args{"id": "ada", "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"testDelivery", args{"id": "fay", "edit_key": hookKey}, "no_receiver", "notify_url"},

	{"home", args{}, "validation_failed", "for"},
	{"mark_seen", args{}, "validation_failed", "agent ids"},
	{"mark_seen", args{"agent": "fay", "ids": []string{"e1", "x"}, "edit_key": hookKey}, "validation_failed", "ids"},
	{"mark_seen", args{"agent": "fay", "ids": words(command.MaxSeen + 1), "edit_key": hookKey}, "validation_failed", "ids"},
	{"mark_seen", args{"agent": "fay", "ids": []string{"e1"}}, "proof_required", "edit_key"},
	{"mark_seen", args{"agent": "nobody", "ids": []string{"e1"}}, "proof_required", "edit_key"},
	{"mark_seen", args{"agent": "fay", "ids": []string{"e1"}, "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"report_entry", args{}, "validation_failed", "entry_id reason text"},
	{"report_entry", args{"entry_id": "e1", "reason": "rude", "text": letters(command.MaxReport + 1), "agent": "a"}, "validation_failed", "reason text agent"},
	{"report_entry", args{"entry_id": letters(command.MaxTarget + 1), "reason": "spam", "text": "abc"}, "validation_failed", "entry_id text"},
	{"report_entry", args{"entry_id": 1, "reason": 2, "text": 3, "edit_key": 4}, "validation_failed", "entry_id reason text edit_key"},
	{"report_entry", args{"entry_id": "e99", "reason": "spam", "text": "It is advertisement."}, "validation_failed", "entry_id"},
	{"report_entry", args{"entry_id": "e1", "reason": "spam", "text": "It is advertisement.", "agent": "fay", "edit_key": "ck_wrong"}, "wrong_edit_key", "edit_key"},
	{"home", args{"for": "a", "since": "yesterday", "wait": 61, "consistency": "weak"}, "validation_failed", "for since wait consistency"},
	{"home", args{"for": letters(command.MaxName + 1), "wait": -1, "min_index": -1}, "validation_failed", "for wait min_index"},
	{"read_entries", args{"kind": "poem", "channel": "c", "agent": "a", "for": "b", "since": "yesterday", "limit": 0, "consistency": "weak"}, "validation_failed", "kind channel agent for since limit consistency"},
	{"read_entries", args{"tag": letters(command.MaxTag + 1), "thread": letters(command.MaxTarget + 1), "reply_to": letters(command.MaxTarget + 1), "q": letters(command.MaxSearch + 1), "limit": command.MaxList + 1}, "validation_failed", "tag thread reply_to q limit"},
	{"read_entries", args{"cursor": "AXk8q1dWYQ"}, "validation_failed", "cursor"},
	{"read_entries", args{"q": "a bell \a rings"}, "validation_failed", "q"},
	{"get_thread", args{"thread": letters(command.MaxTarget + 1), "limit": 0}, "validation_failed", "thread limit"},
	{"get_entry", args{"id": "e99"}, "not_found", "id"},
	{"get_entry", args{"id": "e1", "consistency": "weak"}, "validation_failed", "consistency"},
	{"get_agent", args{"id": "nobody", "consistency": "weak"}, "not_found", "id"},
	{"get_agent", args{"id": "ada", "consistency": "weak"}, "validation_failed", "consistency"},
	{"get_job", args{"id": "e1"}, "not_found", "id"},
	{"get_job", args{"id": "j2", "consistency": "weak"}, "validation_failed", "consistency"},
	{"followEvents", args{"kind": "poem", "channel": "c", "agent": "a", "for": "b", "event": "party", "last_event_id": "x", "wait": 61, "limit": 0}, "validation_failed", "kind channel agent for limit event wait last_event_id"},
	{"list_jobs", args{"status": "lost", "q": letters(command.MaxSearch + 1), "limit": 0}, "validation_failed", "status q limit"},
	{"list_jobs", args{"agent": "a", "claimed_by": "b"}, "validation_failed", "agent claimed_by"},
	{"list_jobs", args{"claimed_by": "bob", "status": "open"}, "validation_failed", "status"},
	{"list_jobs", args{"cursor": "AXk8q1dWYQ"}, "validation_failed", "cursor"},
	{"list_agents", args{"q": letters(command.MaxSearch + 1), "limit": 0}, "validation_failed", "q limit"},
	{"listHumanRequests", args{"status": "claimed", "agent": "a", "q": letters(command.MaxSearch + 1), "limit": 0}, "validation_failed", "agent status q limit"},
	{"getHumanRequest", args{"id": "j2"}, "not_found", "id"},
	{"getHumanRequest", args{"id": "e99", "consistency": "weak"}, "not_found", "id"},
	{"listThreads", args{"sort": "old", "channel": "c", "unanswered": 2, "limit": 0, "cursor": "x"}, "validation_failed", "channel unanswered sort limit"},
	{"listThreads", args{"sort": "active", "unanswered": 1}, "validation_failed", "sort"},
	{"list_channels", args{"consistency": "weak"}, "validation_failed", "consistency"},
	{"stats", args{"consistency": "weak"}, "validation_failed", "consistency"},
	{"getUsage", args{"days": command.MaxUsageDays + 1, "consistency": "weak"}, "validation_failed", "days consistency"},
}

// notOfRules are the codes that no rule of the interface leads to: the request could
// not be read, or the cluster could not serve it.
var notOfRules = []command.Code{
	wire.CodeCrossSite,
	"malformed_body", "malformed_request", "method_not_allowed", "request_timeout", "body_too_large", "unsupported_media_type",
	"headers_too_large", "cross_site", "confirmation_required", "rate_limited", "internal_error", "not_ready", "moderators_only", "blocked", "writes_frozen", "index_ahead",
	command.CodeNotEnqueued, command.CodeOutcomeUnknown, command.CodeNoLeader, command.CodeDiskFull, command.CodeBehind,
}

// saysTheSame reports whether a tool says what HTTP says, but for what HTTP says in its
// own terms, and for an example that needs what stands in a path.
func saysTheSame(byMCP, byHTTP string) bool {
	if byMCP == byHTTP {
		return true
	}
	if ofHTTP.MatchString(byHTTP) || strings.Contains(byHTTP, "action=close") {
		return !ofHTTP.MatchString(byMCP) && strings.HasPrefix(byMCP, byHTTP[:10])
	}
	return strings.TrimSuffix(byMCP, wire.ExampleWorks) == strings.TrimSuffix(byHTTP, wire.ExampleWorks)
}

// keyedTools need an edit_key, which no example holds.
var keyedTools = []string{"mark_seen"}

// checkToolExample calls a tool, and holds that the example of invalid arguments works.
func checkToolExample(t *testing.T, b *toolbox, tool string, arguments any) {
	t.Helper()
	got := b.use(tool, arguments)
	p := got.problem(t)
	if p.Code != "validation_failed" {
		return
	}
	found := exampleTool.FindStringSubmatch(got.text)
	if found == nil || string(p.Example) == "{}" {
		t.Errorf("%s %v: no example: %s", tool, arguments, got.text)
		return
	}
	keyed := slices.Contains(keyedTools, tool)
	if keyed && !slices.Contains(p.Notes, wire.KeyLeftOut) {
		t.Errorf("%s %v: the notes of the example %s do not name the key: %v", tool, arguments, p.Example, p.Notes)
	}
	if again := b.use(found[1], anyJSON(t, p.Example)); again.isError && !keyed {
		t.Errorf("%s %v: the example %s: %s", tool, arguments, p.Example, again.text)
	}
}

// TestRulesHoldForTools breaks the rules of the other operations by HTTP and by MCP: the same
// issues are found, in the same words, and the calls do not write. It covers every tool and code.
func TestRulesHoldForTools(t *testing.T) {
	s := start(t)
	hook(s.Backend)
	keyed(s.Backend, "fay", "hal")
	s.Backend.Apply(&command.ProtectName{AgentKey: "hal", Protected: true})
	s.Backend.Verify = func(string, string) error { return &op.ReceiverFailed{Reason: "did not answer"} }
	b := newToolbox(t, s)
	for _, step := range []struct {
		tool      string
		arguments args
	}{
		{"publish_entry", args{"agent": "eve", "body": "An entry of eve"}},
		{"post_job", args{"agent": "eve", "title": "A claimed job", "body": "To be done"}}, // j2
		{"claim_job", args{"agent": "cyd", "job_id": "j2"}},
		{"post_job", args{"agent": "eve", "title": "An open job", "body": "To be done"}},     // j4
		{"post_job", args{"agent": "eve", "title": "A withdrawn job", "body": "To be done"}}, // j5
		{"close_job", args{"agent": "eve", "job_id": "j5"}},
		{"post_job", args{"agent": "eve", "title": "A finished job", "body": "To be done"}}, // j6
		{"claim_job", args{"agent": "cyd", "job_id": "j6"}},
		{"post_job", args{"agent": "fay", "title": "A job of fay", "body": "To be done", "edit_key": hookKey}}, // j8
		{"post_job", args{"agent": "eve", "title": "A job for fay", "body": "To be done"}},                     // j9
		{"claim_job", args{"agent": "fay", "job_id": "j9", "edit_key": hookKey}},
		{"submit_job_result", args{"agent": "cyd", "job_id": "j6", "result": "Done it."}},
		{"register_agent", args{"id": "bella", "note": "Later."}},
		{"claim_job", args{"agent": "cyd", "job_id": "j2"}},                              // ec
		{"claim_job", args{"agent": "cyd", "job_id": "j2"}},                              // ed
		{"post_job", args{"agent": "eve", "title": "Another one", "body": "To be done"}}, // je
		{"post_job", args{"agent": "eve", "title": "Another one", "body": "To be done"}}, // jf
		{"post_job", args{"agent": "eve", "title": "Another one", "body": "To be done"}}, // jg
		{"post_job", args{"agent": "eve", "title": "Another one", "body": "To be done"}}, // jh
		{"claim_job", args{"agent": "cyd", "job_id": "je"}},
		{"claim_job", args{"agent": "cyd", "job_id": "jf"}},
		{"claim_job", args{"agent": "cyd", "job_id": "jg"}},
		{"claim_job", args{"agent": "cyd", "job_id": "jh"}},
	} {
		if got := b.use(step.tool, step.arguments); got.isError {
			t.Fatalf("%s: %s", step.tool, got.text)
		}
	}
	s.Backend.Apply(&command.Publish{
		Agent: "ivy", AgentKey: "ivy", Kind: command.KindMessage, Title: "Another ivy", Body: "Another ivy", Proof: command.Proof{Sender: "elsewhere"},
	})
	state := func() (all string) {
		for _, path := range []string{"/api/entries", "/api/jobs?status=all", "/api/agents", "/api/human-requests"} {
			all += string(s.Get(path).Body)
		}
		return all + string(s.Get(hookPath, bearer...).Body)
	}
	before := state()
	tools, codes := map[string]bool{}, map[command.Code]bool{}
	for _, rule := range toolRules {
		call := fmt.Sprintf("%s %.200s", rule.tool, mustJSON(t, rule.arguments))
		r := askByHTTP(t, s, rule.tool, rule.arguments)
		byHTTP := apitest.CheckError(t, r)
		check.Equal(t, byHTTP.Code, rule.code, "%s: code", call)
		check.Equal(t, byHTTP.Fields(), rule.fields, "%s: fields", call)
		codes[command.Code(rule.code)] = true
		if b.inputs[rule.tool] == nil { // an operation without a tool
			continue
		}
		got := b.use(rule.tool, rule.arguments)
		var byMCP apitest.Problem
		if err := json.Unmarshal(got.body, &byMCP); err != nil || !got.isError {
			t.Errorf("%s: %s %v", call, got.body, err)
			continue
		}
		if byMCP.Code != byHTTP.Code || byMCP.Retryable != byHTTP.Retryable || !saysTheSame(byMCP.Error, byHTTP.Error) || len(byMCP.Issues) != len(byHTTP.Issues) ||
			!slices.EqualFunc(byMCP.Issues, byHTTP.Issues, func(a, b client.Issue) bool {
				return a.Field == b.Field && saysTheSame(a.Message, b.Message)
			}) {
			t.Errorf("%s: by MCP %s, by HTTP %s", call, got.body, r.Body)
		}
		tools[rule.tool] = true
	}
	apitest.Equal(t, "the state", state(), before)
	for _, rule := range toolRules {
		if tools[rule.tool] {
			checkToolExample(t, b, rule.tool, rule.arguments)
		}
	}
	for tool := range b.inputs {
		if !tools[tool] && tool != "publish_entry" {
			t.Errorf("no rule of %s is broken", tool)
		}
	}
	for _, code := range wire.Codes() {
		if codes[code] == slices.Contains(notOfRules, code) {
			t.Errorf("%s: a rule leads to it: %t, and it is one of notOfRules: %t", code, codes[code], !codes[code])
		}
	}
}
