package api_test

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// taggedPaths are reads whose answers have an entity tag.
var taggedPaths = []string{
	"/api/entries", "/api/entries?limit=2&kind=knowledge", "/api/entries?channel=den", "/api/entries?agent=ada", "/api/entries?for=bob",
	"/api/entries?thread=e1", "/api/entries?reply_to=e1", "/api/entries?tag=red", "/api/entries?since=1767225610000", "/api/entries?since=-1h", "/api/entries?unknown=1",
	"/api/entries/e1", "/api/entries/e2", "/api/entries/e3", "/api/jobs", "/api/jobs?status=all", "/api/jobs?status=claimed", "/api/jobs?claimed_by=bob",
	"/api/jobs/j1", "/api/jobs/j2", "/api/jobs/j3", "/api/human-requests", "/api/human-requests?status=all", "/api/human-requests/h2",
	"/api/agents", "/api/agents/ada", "/api/agents/bob",
	"/api/home?for=ada", "/api/home?for=bob&since=0", "/api/home?for=bob&since=1767225610000", "/api/home?for=bob&brief=1", "/api/home?for=eve&since=0", "/api/home?for=bob&since=0&unknown=1",
}

// drawWrite draws something that may change what readers see.
func drawWrite(t *rapid.T) command.Payload {
	name := rapid.SampledFrom([]string{"ada", "bob", "eve"}).Draw(t, "agent")
	author := command.Author{Agent: name, AgentKey: name}
	seq := rapid.Uint64Range(1, 4).Draw(t, "seq")
	on := command.JobAction{Author: author, Job: state.FormatID(state.TypeJob, seq)}
	order := command.Order{By: command.Operator, Reason: "spam"}
	switch rapid.IntRange(0, 13).Draw(t, "command") {
	case 0:
		return &command.PostJob{Author: author, Title: "A job", Body: "Do it."}
	case 1:
		return &command.ClaimJob{JobAction: on, TTL: rapid.SampledFrom([]int64{1, 3000, 60_000}).Draw(t, "ttl")}
	case 2:
		return &command.ReleaseJob{JobAction: on}
	case 3:
		return &command.FinishJob{JobAction: on, Result: "Done."}
	case 4:
		author.Question = true
		return &command.AskHuman{Author: author, Goal: "A goal", Action: "An action"}
	case 5:
		return &command.Register{Agent: name, AgentKey: name, Given: command.FieldNote, Note: rapid.SampledFrom([]string{"", "A note"}).Draw(t, "note"), NewKey: bytes.Repeat([]byte{1}, 32), NewRecovery: bytes.Repeat([]byte{1}, 32), Proof: command.Proof{Sender: "s", Address: true}}
	case 6:
		return &command.Hide{Order: order, IDs: []string{state.EntryID(seq)}, Unhide: rapid.Bool().Draw(t, "unhide")}
	case 7:
		return &command.Purge{Order: order, IDs: []string{state.EntryID(seq)}}
	case 8:
		seen := &command.MarkSeen{AgentKey: "bob", Proof: command.Proof{Key: bytes.Repeat([]byte{1}, 32)}}
		for n := range uint64(command.MaxSeen) {
			seen.Entries = append(seen.Entries, seq+n)
		}
		return seen
	case 9, 10:
		return &command.Tick{}
	}
	p := publishHello
	p.Agent, p.AgentKey, p.Kind = name, name, command.Kind(rapid.IntRange(1, 3).Draw(t, "kind"))
	p.Channel, p.Tags = rapid.SampledFrom([]string{"", "den"}).Draw(t, "channel"), []string{"red"}
	p.Question, p.Mentions = rapid.Bool().Draw(t, "question"), []string{"bob"}
	if rapid.Bool().Draw(t, "related") {
		p.Relation, p.Target = command.Relation(rapid.IntRange(1, 4).Draw(t, "relation")), state.EntryID(seq)
	}
	return &p
}

// withoutInstants is an answer without what the tag of home does not cover.
func withoutInstants(body []byte) string {
	var kept []string
	for part := range strings.SplitSeq(string(body), `,"`) {
		if !strings.HasPrefix(part, `since":`) && !strings.HasPrefix(part, `now":`) && !strings.HasPrefix(part, "nextCheck") && !strings.Contains(part, "GET /api/home?") {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "\n")
}

// TestTagsAreOfOneAnswer draws commands: a tag names one answer for good, and who has the
// newest one gets 304 with it.
func TestTagsAreOfOneAnswer(t *testing.T) {
	b := apitest.NewBackend(t)
	s := apitest.Start(t, b)
	answers := map[string]map[string]string{} // by path and tag
	bob := command.Author{Agent: "bob", AgentKey: "bob", Proof: command.Proof{Sender: "s", Address: true, Key: bytes.Repeat([]byte{1}, 32)}}
	mention := publishHello
	mention.Agent, mention.AgentKey, mention.Mentions = "eve", "eve", []string{"bob"}
	for _, c := range []command.Payload{
		&command.Register{Agent: "bob", AgentKey: "bob", Given: command.FieldNote, Note: "A note", NewKey: bob.Proof.Key, NewRecovery: bob.Proof.Key, Proof: command.Proof{Sender: "s", Address: true}},
		&command.PostJob{Author: command.Author{Agent: "ada", AgentKey: "ada"}, Title: "A job", Body: "Do it."},
		&command.ClaimJob{JobAction: command.JobAction{Author: bob, Job: "j1"}, TTL: 60_000},
		&mention,
	} {
		b.Apply(c)
	}
	served := 0
	rapid.Check(t, func(rt *rapid.T) {
		if b.Ahead += rapid.SampledFrom([]time.Duration{0, 0, 0, time.Minute, 25 * time.Hour, 100 * time.Hour}).Draw(rt, "pause"); served > 0 {
			b.Apply(drawWrite(rt))
		}
		served++
		for _, path := range taggedPaths {
			have := answers[path]
			if have == nil {
				have = map[string]string{}
				answers[path] = have
			}
			// Whatever a client has: 304 only with the answer that it would get.
			all := strings.Join(slices.Collect(maps.Keys(have)), ", ")
			again := get(s, path, all)
			full := get(s, path, "")
			tag, text := full.Header.Get("ETag"), withoutInstants(full.Body)
			if full.Status != http.StatusOK {
				if tag != "" || again.Status != full.Status {
					rt.Fatalf("%s: %d, tag %q, and with tags %d", path, full.Status, tag, again.Status)
				}
				continue
			}
			if tag == "" {
				rt.Fatalf("%s has no tag", path)
			}
			if before, known := have[tag]; known && before != text {
				rt.Fatalf("%s: two answers with one tag\n%s\n\n%s", path, before, text)
			}
			if again.Status == http.StatusNotModified && (again.Header.Get("ETag") != tag || len(again.Body) > 0) {
				rt.Fatalf("%s: 304 with tag %q and %q, the answer has %q", path, again.Header.Get("ETag"), again.Body, tag)
			}
			if _, known := have[tag]; known != (again.Status == http.StatusNotModified) {
				rt.Fatalf("%s: %d with all tags so far; that of the answer is among them: %t", path, again.Status, known)
			}
			have[tag] = text
		}
	})
}

// get asks with the tags that a client has.
func get(s *apitest.Server, path, tags string) *apitest.Response {
	if tags == "" {
		return s.Get(path)
	}
	return s.Get(path, "If-None-Match", tags)
}

// TestVersionTags: what has no tag, what any tag means, and of whom a tag is.
func TestVersionTags(t *testing.T) {
	b := apitest.NewBackend(t)
	s := apitest.Start(t, b, func(c *api.Config) { c.Build = "one" })
	s.Publish(map[string]any{"agent": "ada", "body": "Hello, commons."})
	receipt := sendReport(t, s, http.StatusCreated, map[string]any{"entry_id": "e1", "reason": "spam", "text": "Spam"})
	for _, path := range []string{"/api/entries?q=hello", "/api/jobs?q=x", "/api/entries/e9", "/api/channels", "/api/stats", reportsPath + "/" + receipt.Report.ID} {
		if r := s.Get(path, "If-None-Match", "*"); r.Header.Get("ETag") != "" || r.Status == http.StatusNotModified {
			t.Errorf("%s: %d, tag %s", path, r.Status, r.Header.Get("ETag"))
		}
	}
	tag := s.Get("/api/entries/e1").Header.Get("ETag")
	for _, sent := range []string{tag, "*", `W/"x", ` + tag, strings.TrimPrefix(tag, "W/")} {
		if r := s.Get("/api/entries/e1", "If-None-Match", sent); r.Status != http.StatusNotModified || r.Header.Get("ETag") != tag || len(r.Body) > 0 {
			t.Errorf("If-None-Match %s: %d %s", sent, r.Status, r.Body)
		}
	}
	s.Do(http.MethodHead, "/api/entries/e1", "", "If-None-Match", tag).Want(t, http.StatusNotModified)
	same := apitest.Start(t, b, func(c *api.Config) { c.Build = "one" })
	same.Get("/api/entries/e1", "If-None-Match", tag).Want(t, http.StatusNotModified)
	for _, build := range []string{"two", "", ""} {
		other := apitest.Start(t, b, func(c *api.Config) { c.Build = build })
		other.Get("/api/entries/e1", "If-None-Match", tag).Want(t, http.StatusOK)
	}
}
