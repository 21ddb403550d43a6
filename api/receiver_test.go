package api_test

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
)

const hookURL = "https://example.org/hook"

// receivers notes which receivers were asked and answers with err.
type receivers struct {
	mu    sync.Mutex
	asked []string
	err   error
}

func (r *receivers) verify(agent, notifyURL string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, agent+" "+notifyURL)
	return r.err
}

// took returns who was asked since the last call.
func (r *receivers) took() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	return asked
}

func (r *receivers) answer(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func startWithReceivers(t *testing.T) (*apitest.Server, *receivers) {
	t.Helper()
	s, r := start(t), &receivers{}
	s.Backend.Verify = r.verify
	return s, r
}

// TestReceiversAreAsked holds who is asked and who is not.
func TestReceiversAreAsked(t *testing.T) {
	s, r := startWithReceivers(t)
	fields := map[string]any{"id": "Ada", "description": "Answers questions.", "notify_url": hookURL, "request_id": "ada-register-1"}
	first := register(t, s, http.StatusCreated, fields)
	if asked := r.took(); !slices.Equal(asked, []string{"Ada " + hookURL}) {
		t.Fatalf("at the registration: asked %q", asked)
	}
	if !strings.Contains(strings.Join(first.Notes, " "), "answered the challenge") {
		t.Errorf("notes %q", first.Notes)
	}
	view := s.Backend.View()
	defer view.Release()
	if hooked, err := view.Hooked("ada", hookURL); !hooked || err != nil {
		t.Errorf("hooked: %v, %v", hooked, err)
	}
	steps := []struct {
		name   string
		status int
		body   map[string]any
		asked  []string
	}{
		{"no address", http.StatusCreated, map[string]any{"id": "ada", "note": "Hm.", "edit_key": first.EditKey}, nil},
		{"the same request", http.StatusCreated, fields, nil},
		{"the same request_id with another address", http.StatusCreated, map[string]any{"id": "ada", "notify_url": hookURL + "/2", "request_id": "ada-register-1"}, nil},
		{"the same address", http.StatusCreated, map[string]any{"id": "ada", "notify_url": hookURL, "edit_key": first.EditKey}, nil},
		{"another without key", http.StatusForbidden, map[string]any{"id": "ada", "notify_url": hookURL + "/3"}, nil},
		{"another with a wrong key", http.StatusForbidden, map[string]any{"id": "ada", "notify_url": hookURL + "/3", "edit_key": "ck_nope"}, nil},
		{"another with another problem", http.StatusUnprocessableEntity, map[string]any{"id": "ada", "notify_url": hookURL + "/3", "note": 5, "edit_key": first.EditKey}, nil},
		{"another", http.StatusCreated, map[string]any{"id": "ada", "notify_url": hookURL + "/3", "edit_key": first.EditKey}, []string{"ada " + hookURL + "/3"}},
		{"off", http.StatusCreated, map[string]any{"id": "ada", "notify_url": "off", "edit_key": first.EditKey}, nil},
		{"on again", http.StatusCreated, map[string]any{"id": "ada", "notify_url": hookURL, "edit_key": first.EditKey}, []string{"ada " + hookURL}},
		{"a new name without a description", http.StatusUnprocessableEntity, map[string]any{"id": "bob", "notify_url": hookURL}, nil},
	}
	for _, step := range steps {
		if got := s.Post("/api/agents", step.body); got.Status != step.status {
			t.Errorf("%s: %d %s", step.name, got.Status, got.Body)
		}
		if asked := r.took(); !slices.Equal(asked, step.asked) {
			t.Errorf("%s: asked %q, want %q", step.name, asked, step.asked)
		}
	}
}

// TestReceiverIsTakenBackMeanwhile holds that no notify_url is stored that nothing
// is pushed to, whatever others write between the look at the profile and the write.
func TestReceiverIsTakenBackMeanwhile(t *testing.T) {
	for _, times := range []int{1, 2, 3} {
		s, r := startWithReceivers(t)
		first := register(t, s, http.StatusCreated, map[string]any{"id": "ada", "description": "Answers.", "notify_url": hookURL})
		r.took()
		key := sha256.Sum256([]byte(first.EditKey))
		set := func(url string) {
			s.Backend.Apply(&command.Register{
				Agent: "ada", AgentKey: "ada", Given: command.FieldNotifyURL, NotifyURL: url, NotifyVerified: url != "",
				NewKey: key[:], Proof: command.Proof{Key: key[:]},
			})
		}
		again := 0
		s.Backend.Reject = func(command.Sender, command.Payload) error {
			if again++; again <= times {
				set("")
			}
			return nil
		}
		s.Backend.OnReadIndex = func() {
			if again > 0 && again < times {
				set(hookURL)
			}
		}
		got := s.Post("/api/agents", map[string]any{"id": "ada", "description": "Answers more.", "notify_url": hookURL, "edit_key": first.EditKey})
		view := s.Backend.View()
		hooked, err := view.Hooked("ada", hookURL)
		view.Release()
		if err != nil {
			t.Fatal(err)
		}
		asked := r.took()
		if times < 3 {
			if got.Status != http.StatusCreated || !hooked || len(asked) != 1 || !strings.Contains(string(got.Body), "answered the challenge") {
				t.Errorf("taken back %d times: %d %s, pushed to: %v, asked %q", times, got.Status, got.Body, hooked, asked)
			}
			continue
		}
		problem := apitest.CheckError(t, got)
		if got.Status != http.StatusUnprocessableEntity || hooked || len(problem.Issues) != 1 || problem.Issues[0].Field != "notify_url" {
			t.Errorf("taken back %d times: %d %s, pushed to: %v, asked %q", times, got.Status, got.Body, hooked, asked)
		}
	}
}

// TestReceiverFails holds what the sender of a registration is told.
func TestReceiverFails(t *testing.T) {
	s, r := startWithReceivers(t)
	body := map[string]any{"id": "ada", "description": "Answers questions.", "notify_url": hookURL}
	r.answer(&api.ReceiverFailed{Reason: "answered with the status 404"})
	rejected := s.Post("/api/agents", body)
	problem := apitest.CheckError(t, rejected)
	if rejected.Status != http.StatusUnprocessableEntity || len(problem.Issues) != 1 || problem.Issues[0].Field != "notify_url" ||
		!strings.Contains(problem.Issues[0].Message, "the receiver answered with the status 404. It has to") {
		t.Errorf("a failed check: %d %s", rejected.Status, rejected.Body)
	}
	if got := s.Get("/api/agents/ada"); got.Status != http.StatusNotFound {
		t.Errorf("the profile was written: %s", got.Body)
	}
	if string(problem.Example) != "{}" {
		t.Errorf("the example %s has lost the notify_url", problem.Example)
	}

	body = map[string]any{"id": "eve", "description": "Answers questions.", "notify_url": hookURL, "capabilities": []string{""}}
	other := apitest.CheckError(t, s.Post("/api/agents", body))
	if len(other.Issues) != 1 || other.Issues[0].Field != "capabilities" {
		t.Errorf("another problem: %+v", other.Issues)
	}

	body = map[string]any{"id": "bob", "description": "Answers questions.", "notify_url": hookURL}
	r.answer(&command.RateLimited{RetryAfter: 90 * time.Second, Limit: &command.RateLimit{
		Name: "verifications", Quota: 10, Window: time.Hour, Message: "Too many checks.", Field: "notify_url",
	}})
	limited := s.Post("/api/agents", body)
	for header, want := range map[string]string{
		"Retry-After": "90", "RateLimit": `"verifications";r=0;t=90`, "RateLimit-Policy": `"verifications";q=10;w=3600`,
	} {
		if got := limited.Header.Get(header); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
	if limited.Status != http.StatusTooManyRequests || apitest.CheckError(t, limited).Error != "Too many checks. Wait 90 seconds." {
		t.Errorf("too many checks: %d %s", limited.Status, limited.Body)
	}

	r.took()
	s.Backend.ReadIndexErr = &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader is known"}
	if got := s.Post("/api/agents", body); got.Status != http.StatusServiceUnavailable || len(r.took()) > 0 {
		t.Errorf("without a leader: %d %s", got.Status, got.Body)
	}
	s.Backend.ReadIndexErr = nil

	r.answer(context.DeadlineExceeded)
	if got := s.Post("/api/agents", body); got.Status != http.StatusServiceUnavailable || apitest.CheckError(t, got).Code != "not_enqueued" {
		t.Errorf("no answer in time: %d %s", got.Status, got.Body)
	}
}
