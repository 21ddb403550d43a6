package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
)

// publisher is a surface as the rules of publishing see it: it sends the fields of
// a NewEntry, whose request_id is the idempotency key, however the surface calls it.
type publisher struct {
	name    string
	room    string // where a message goes that names no channel
	key     string // what the idempotency key is: surfaces with the same share them
	publish func(t *testing.T, s *apitest.Server, fields map[string]any) outcome
}

// outcome is what came of it.
type outcome struct {
	apitest.Published
	// problem is the Error object where the entry was rejected.
	problem *apitest.Problem
}

// publishers are the surfaces. A further one needs one adapter more.
var publishers = []publisher{
	{"http", "general", "request_id", publishByHTTP},
	{"a2a", "a2a", "messageId", publishByA2A},
	{"mcp", "general", "request_id", publishByMCP},
}

func publishByHTTP(t *testing.T, s *apitest.Server, fields map[string]any) (o outcome) {
	t.Helper()
	r := s.Post("/api/entries", fields)
	if r.Status < http.StatusBadRequest {
		r.Decode(t, &o.Published)
		return o
	}
	r.Decode(t, &o.problem)
	return o
}

func publishByA2A(t *testing.T, s *apitest.Server, fields map[string]any) (o outcome) {
	t.Helper()
	data := maps.Clone(fields)
	parts := []any{map[string]any{"data": data}}
	if text, has := data["body"]; has {
		parts = append(parts, map[string]any{"text": text})
	}
	id, keyed := data["request_id"]
	if !keyed {
		messages++
		id = "message-" + strconv.Itoa(messages)
	}
	delete(data, "body")
	delete(data, "request_id")
	r := s.Post("/a2a/v1/message:send", map[string]any{"message": map[string]any{"messageId": id, "role": "ROLE_USER", "parts": parts}})
	if r.Status == http.StatusOK {
		var answer struct{ Message reply }
		r.Decode(t, &answer)
		if err := json.Unmarshal(answer.Message.Parts[1].Data, &o.Published); err != nil {
			t.Fatalf("%s: %v", r.Body, err)
		}
		return o
	}
	var answer struct {
		Error struct{ Details json.RawMessage }
	}
	r.Decode(t, &answer)
	p := problemOf(t, answer.Error.Details)
	o.problem = &p
	return o
}

func publishByMCP(t *testing.T, s *apitest.Server, fields map[string]any) (o outcome) {
	t.Helper()
	r := s.Post("/mcp", map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": "publish_message", "arguments": fields},
	})
	var answer struct {
		Result struct {
			StructuredContent json.RawMessage
			IsError           bool
		}
	}
	r.Decode(t, &answer)
	var err error
	if answer.Result.IsError {
		err = json.Unmarshal(answer.Result.StructuredContent, &o.problem)
	} else {
		err = json.Unmarshal(answer.Result.StructuredContent, &o.Published)
	}
	if err != nil {
		t.Fatalf("%s: %v", r.Body, err)
	}
	return o
}

// messages numbers the messages that bring no key.
var messages int

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
	"tags of no text":       {map[string]any{"body": "Hello", "tags": true}, "tags"},
	"misnamed reference":    {map[string]any{"body": "Hello", "replying": "e1"}, "reply_to"},
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
// same issues are found, nothing is written, and the words are those of HTTP.
func TestRulesHoldOnEverySurface(t *testing.T) {
	s := start(t)
	s.Publish(map[string]any{"agent": "eve", "body": "An entry of eve"})
	for _, body := range []map[string]any{
		{"agent": "eve", "title": "A job", "body": "To be done"}, {"agent": "cyd", "action": "claim", "job_id": "j2"},
	} {
		if r := s.Post("/api/jobs", body); r.Status != http.StatusCreated {
			t.Fatalf("%s", r.Body)
		}
	}
	for name, rule := range rejectedEntries {
		var first *apitest.Problem
		for _, surface := range publishers {
			got := surface.publish(t, s, rule.fields)
			if got.problem == nil {
				t.Errorf("%s, %s: it was published: %+v", surface.name, name, got.Entry)
				continue
			}
			var broken []string
			for _, issue := range got.problem.Issues {
				broken = append(broken, issue.Field)
			}
			if strings.Join(broken, " ") != rule.broken {
				t.Errorf("%s, %s: problems of %v, want %s", surface.name, name, broken, rule.broken)
			}
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
	var list apitest.List
	if s.Get("/api/entries").Decode(t, &list); len(list.Entries) != 3 {
		t.Errorf("%d entries, want the 3 from before", len(list.Entries))
	}
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
		if room.Channel != "rare-room" || answer.Channel != "rare-room" || answer.Relation == nil || *answer.Relation != "reply" || *answer.Supersedes != room.ID {
			t.Errorf("%s: %+v, then %+v", surface.name, room, answer)
		}
		if taken := say(map[string]any{"body": "Never mind", "agent": "bob", "supersedes": room.ID, "relation": "retraction"}).Entry; *taken.Relation != "retraction" {
			t.Errorf("%s: %+v", surface.name, taken)
		}
		var inbox apitest.List
		if s.Get("/api/entries?for=bob").Decode(t, &inbox); len(inbox.Entries) != 1 || inbox.Entries[0].ID != answer.ID {
			t.Errorf("%s: for=bob: %+v", surface.name, inbox.Entries)
		}
		key := register(t, s, http.StatusCreated, map[string]any{"id": "cyd", "description": "Answers questions."}).EditKey
		proven := say(map[string]any{"body": "It is me", "agent": "cyd", "edit_key": key})
		nobodys := say(map[string]any{"body": "It is me", "agent": "dan", "edit_key": "ck_wrong"})
		if len(proven.Notes) != 0 || len(nobodys.Notes) != 1 || strings.Contains(string(s.Get("/api/entries").Body), key) {
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
