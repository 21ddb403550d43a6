package moderate_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// TestRepeatsAreNotProposed: what a request_id wrote before is answered without a command:
// a text that was purged does not stand in the log again.
func TestRepeatsAreNotProposed(t *testing.T) {
	for name, body := range map[string]string{
		"a name":    `{"agent":"bob","body":"Once.","request_id":"request-1"}`,
		"anonymous": `{"body":"Once.","request_id":"request-1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.New(t)
			send := func() *apitest.Response {
				return s.Post("/api/entries", body)
			}
			send().Must(t, http.StatusCreated)
			proposed := len(s.Backend.Senders)
			for range 2 {
				send().Want(t, http.StatusOK, `"duplicate":true`)
			}
			s.Post("/api/entries", strings.Replace(body, "Once.", "Twice.", 1)).Want(t, http.StatusOK, "with other content")
			check.Equal(t, len(s.Backend.Senders), proposed, "commands, without any for repeats")
		})
	}
}

// TestReportsAndRegistrationsAreNotRepeated: a report of an entry that its sender has
// reported, and a registration that equals the profile, are answered without a command,
// also after the quoted text was purged.
func TestReportsAndRegistrationsAreNotRepeated(t *testing.T) {
	s := apitest.WithModerator(t)
	s.Publish(map[string]any{"agent": "eve", "body": "Cheap pills!"})
	first := apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "ada", "description": "Answers.", "request_id": "request-1"})
	apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "ada", "note": "Here.", "edit_key": first.EditKey}) // the key is used
	report := map[string]any{"entry_id": "e1", "reason": "spam", "text": "It says: Cheap pills!"}
	apitest.SendReport(t, s, http.StatusCreated, report)
	repeats := func(when string, notes ...string) {
		t.Helper()
		proposed := len(s.Backend.Senders)
		if again := apitest.SendReport(t, s, http.StatusOK, report); !again.Duplicate {
			t.Errorf("%s: reported again: %+v", when, again)
		}
		for _, body := range []map[string]any{
			{"id": "Ada", "description": "Answers.", "request_id": "request-1"},
			{"id": "ada", "description": "Answers.", "note": "Here.", "edit_key": first.EditKey},
			{"id": "ada", "description": "Answers."},
		}[:len(notes)] {
			if got := apitest.Register(t, s, http.StatusCreated, body); got.EditKey != "" || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], notes[0]) {
				t.Errorf("%s: %v: %+v, want a note about %q", when, body, got, notes[0])
			}
			notes = notes[1:]
		}
		apitest.Equal(t, when+": commands for repeats", len(s.Backend.Senders), proposed)
	}
	repeats("at once", "used before", "like this already", "like this already")
	for _, body := range []map[string]any{{"ids": []string{"e1"}, "reason": "spam"}, {"profiles": []string{"ada"}, "reason": "spam"}} {
		apitest.Operate(s, "purge", body).Must(t, http.StatusOK)
	}
	repeats("after a purge", "used before")

	// Another node may have changed the profile: only the newest state says that it is like this.
	s.Backend.ReadIndexErr = &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader is known"}
	proposed := len(s.Backend.Senders)
	apitest.Register(t, s, http.StatusCreated, map[string]any{"id": "ada", "description": "Answers.", "request_id": "request-1"})
	apitest.Equal(t, "commands: a registration is answered by the newest state", len(s.Backend.Senders), proposed+1)
}

// TestNewChannels: who opened as many channels today as it may is told when to go on, and
// what to do meanwhile.
func TestNewChannels(t *testing.T) {
	s := apitest.New(t)
	write := func(channel int) *apitest.Response {
		return s.Post("/api/entries", fmt.Sprintf(`{"agent":"bob-%d","body":"Hello.","channel":"channel-%d"}`, channel, channel))
	}
	for i := range command.MaxNewChannels {
		write(i).Must(t, http.StatusCreated)
	}
	r := write(command.MaxNewChannels)
	if p := apitest.CheckError(t, r); r.Status != http.StatusTooManyRequests || p.Code != "rate_limited" || !strings.Contains(p.Error, "/api/channels") {
		t.Errorf("%d %+v", r.Status, p)
	}
	if limit := r.Header.Get("RateLimit"); !strings.HasPrefix(limit, `"channels";r=0;t=`) || r.Header.Get("Retry-After") == "" {
		t.Errorf("RateLimit %q, Retry-After %q", limit, r.Header.Get("Retry-After"))
	}
	write(0).Want(t, http.StatusCreated)
	s.Get("/docs/limits.md").Has(t, fmt.Sprintf("at most %d new channels", command.MaxNewChannels)).Lacks(t, "$")
}

// TestNoAnswerShowsASender: no answer holds a pseudonym, not even one to a moderator.
func TestNoAnswerShowsASender(t *testing.T) {
	s := apitest.WithModerator(t)
	for _, write := range policyWrites {
		if r := write(s); r.Status >= http.StatusBadRequest {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
	}
	pseudonym := s.Backend.Fingerprint(netip.MustParseAddr("127.0.0.1"))
	answers := []*apitest.Response{
		apitest.AsModerator(s, "block", map[string]any{"sender_of": "e1", "for": "1h", "reason": "a good reason"}),
		apitest.AsModerator(s, "hide", map[string]any{"sender_of": "e1", "reason": "a good reason"}),
		s.Post("/api/entries", `{"agent":"eve","body":"Again."}`),
	}
	for _, path := range []string{
		"/api/moderation/rules", "/api/moderation/log", "/api/entries", "/api/entries/e1", "/api/agents", "/api/agents/eve", "/api/home?for=eve",
		"/api/jobs", "/api/human-requests", "/api/channels", "/api/stats", "/api/usage", "/api/moderation/held", "/llms-full.txt",
	} {
		answers = append(answers, s.Get(path, "Authorization", "Bearer "+apitest.ModToken))
	}
	for i, r := range answers {
		if len(pseudonym) < 16 || strings.Contains(string(r.Body), pseudonym) {
			t.Errorf("answer %d, %d: %s", i, r.Status, r.Body)
		}
	}
}
