package moderate_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// rejectedEntries are entries that break the rules of publishing, and the fields
// whose rules they break. e1 is an entry of eve's, and j2 a claimed job of hers.
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
	s := apitest.New(t)
	s.Publish(map[string]any{"agent": "eve", "body": "An entry of eve"})
	for _, body := range []map[string]any{
		{"agent": "eve", "title": "A job", "body": "To be done"}, {"agent": "cyd", "action": "claim", "job_id": "j2"},
	} {
		s.Post("/api/jobs", body).Must(t, http.StatusCreated)
	}
	for name, rule := range rejectedEntries {
		var first *apitest.Problem
		for _, surface := range apitest.Publishers {
			got := surface.Publish(t, s, rule.fields)
			if got.Problem == nil {
				t.Errorf("%s, %s: it was published: %+v", surface.Name, name, got.Entry)
				continue
			}
			apitest.Equal(t, surface.Name+", "+name, got.Problem.Fields(), rule.broken)
			if first == nil {
				first = got.Problem
			}
			if len(first.Issues) == len(got.Problem.Issues) {
				for i, issue := range got.Problem.Issues {
					if issue.Field != first.Issues[i].Field || !apitest.SaysTheSame(issue.Message, first.Issues[i].Message) {
						t.Errorf("%s, %s: %q, by HTTP %q", surface.Name, name, issue, first.Issues[i])
					}
				}
			}
			if got.Problem.Code != first.Code || got.Problem.Retryable != first.Retryable || got.Problem.Error != first.Error {
				t.Errorf("%s, %s: %+v, by HTTP %+v", surface.Name, name, got.Problem, first)
			}
		}
	}
	check.Equal(t, len(apitest.Decoded[apitest.List](t, s.Get("/api/entries")).Entries), 3, "entries, with those from before")
}

// TestEntriesComeOutAlikeOnEverySurface holds what is made of the fields.
func TestEntriesComeOutAlikeOnEverySurface(t *testing.T) {
	for _, surface := range apitest.Publishers {
		s := apitest.New(t)
		say := func(fields map[string]any) apitest.Outcome {
			t.Helper()
			got := surface.Publish(t, s, fields)
			if got.Problem != nil {
				t.Fatalf("%s: %v: %+v", surface.Name, fields, got.Problem)
			}
			return got
		}
		plain := say(map[string]any{"body": "One line\nand another"}).Entry
		if plain.Agent != "anonymous" || plain.Kind != "message" || plain.Title != "One line" || plain.Channel != surface.Room || len(plain.Tags) != 0 {
			t.Errorf("%s: %+v", surface.Name, plain)
		}
		filed := say(map[string]any{
			"body": "  A finding.\r\n", "author": "Ada Lovelace", "type": "finding", "labels": []string{"b", "a", "b"}, "subject": strings.Repeat("t", 200), "odd": 1,
		})
		if e := filed.Entry; e.Agent != "Ada-Lovelace" || e.Kind != "knowledge" || e.Channel != "knowledge" || len(e.Tags) != 2 || len(e.Title) != 180 || e.Body != "A finding." {
			t.Errorf("%s: %+v", surface.Name, e)
		}
		if notes := strings.Join(filed.Notes, " "); !strings.Contains(notes, "odd") || !strings.Contains(notes, "Ada-Lovelace") || !strings.Contains(notes, "180") {
			t.Errorf("%s: notes %s", surface.Name, notes)
		}
		room := say(map[string]any{"body": "Elsewhere", "agent": "bob", "channel": "Rare Room"}).Entry
		answer := say(map[string]any{"body": "@bob yes", "agent": "ada", "reply_to": room.ID}).Entry
		if room.Channel != "rare-room" || answer.Channel != "rare-room" || answer.Relation != "reply" || answer.Supersedes != room.ID {
			t.Errorf("%s: %+v, then %+v", surface.Name, room, answer)
		}
		if taken := say(map[string]any{"body": "Never mind", "agent": "bob", "supersedes": room.ID, "relation": "retraction"}).Entry; taken.Relation != "retraction" {
			t.Errorf("%s: %+v", surface.Name, taken)
		}
		if inbox := apitest.Decoded[apitest.List](t, s.Get("/api/entries?for=bob")); len(inbox.Entries) != 1 || inbox.Entries[0].ID != answer.ID {
			t.Errorf("%s: for=bob: %+v", surface.Name, inbox.Entries)
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
			apitest.Equal(t, fmt.Sprint(surface.Name, ", tags of ", list.sent), say(map[string]any{"body": "Filed", "tags": list.sent}).Entry.Tags, list.want)
		}
		key := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "cyd", "description": "Answers questions."}).EditKey
		proven := say(map[string]any{"body": "It is me", "agent": "cyd", "edit_key": key})
		nobodys := say(map[string]any{"body": "It is me", "agent": "dan", "edit_key": "ck_wrong"})
		others := 0
		if surface.Room == "a2a" {
			others = 1 // a short message names the commands
		}
		if len(proven.Notes) != others || len(nobodys.Notes) != others+1 || strings.Contains(string(s.Get("/api/entries").Body), key) {
			t.Errorf("%s: notes %v and %v", surface.Name, proven.Notes, nobodys.Notes)
		}
	}
}

// TestKeysAndLimitsOnEverySurface holds that a key publishes once for each agent and
// each kind of key, whatever the second text says; and what limits come to.
func TestKeysAndLimitsOnEverySurface(t *testing.T) {
	s := apitest.New(t)
	ids := map[string]string{}
	entries := map[string]string{} // by agent and kind of key
	for _, surface := range apitest.Publishers {
		for _, agent := range []string{"ada", "bob", "anonymous"} {
			fields := map[string]any{"body": "Written once", "agent": agent, "request_id": "the-same-key"}
			first := surface.Publish(t, s, fields)
			fields["body"] = "Another text"
			again := surface.Publish(t, s, fields)
			shared := entries[surface.Key+" "+agent]
			if first.Duplicate != (shared != "") || shared != "" && shared != first.Entry.ID || !again.Duplicate || again.Entry.ID != first.Entry.ID || len(again.Notes) == 0 {
				t.Errorf("%s, %s: %+v, then %+v", surface.Name, agent, first, again)
			}
			if other, known := ids[first.Entry.ID]; known && other != surface.Key+" "+agent {
				t.Errorf("%s, %s: the entry of %s", surface.Name, agent, other)
			}
			ids[first.Entry.ID] = surface.Key + " " + agent
			entries[surface.Key+" "+agent] = first.Entry.ID
			fields["body"] = "x" // its shape is wrong, and the key is known
			if known := surface.Publish(t, s, fields); !known.Duplicate {
				t.Errorf("%s, %s: %+v", surface.Name, agent, known)
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
		for _, surface := range apitest.Publishers {
			got := surface.Publish(t, s, map[string]any{"body": "Hello", "agent": "ada", "request_id": "key-" + code + surface.Name})
			// Every one may be sent again: the key keeps it from being written twice.
			if got.Problem == nil || got.Problem.Code != code || !got.Problem.Retryable {
				t.Errorf("%s: %+v, want %s", surface.Name, got, code)
			}
			if from := s.Backend.LastSender(); from.AgentKey != "ada" || from.Fingerprint == "" {
				t.Errorf("%s: limited as %+v", surface.Name, from)
			}
		}
	}
}
