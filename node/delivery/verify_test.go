package delivery

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/push"
)

// TestVerifyAnswers holds which error a client gets for the check of its receiver.
func TestVerifyAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		a       verifyAnswer
		limited string // the message of a 429
		failed  string
	}{
		"passed":              {},
		"failed":              {a: verifyAnswer{Reason: push.TimedOut}, failed: "did not answer within 5 seconds"},
		"too many":            {a: verifyAnswer{WaitMs: 7000}, limited: "A sender has at most 10 checks"},
		"too many, of others": {a: verifyAnswer{WaitMs: 7000, Shared: true}, limited: "others have used up these"},
	} {
		err := tt.a.asError()
		limited, isLimited := errors.AsType[*command.RateLimited](err)
		failed, isFailed := errors.AsType[*FailedError](err)
		if isLimited != (tt.limited != "") || isFailed != (tt.failed != "") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if isLimited && (limited.RetryAfter != 7*time.Second || !strings.Contains(limited.Limit.Message, tt.limited)) {
			t.Errorf("%s: %v, %+v", name, limited.RetryAfter, limited.Limit)
		}
		if isFailed && failed.Reason != tt.failed {
			t.Errorf("%s: %q", name, failed.Reason)
		}
	}
}

// TestVerifyTurnsToTheNextLeader asks a node that does not answer, and does not lead:
// this one does.
func TestVerifyTurnsToTheNextLeader(t *testing.T) {
	led := make(chan struct{})
	h := newTestbed(t, func(c *Config) {
		hung := silent(t).Addr().String()
		c.Client = &http.Client{Transport: &http.Transport{DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			close(led)
			return (&net.Dialer{}).DialContext(ctx, network, hung)
		}}}
		c.UntilAnotherLeads = func(ctx context.Context, _ string) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			go func() {
				<-led // it was asked; now another one leads
				cancel()
			}()
			return ctx, cancel
		}
	})
	h.cfg.LeaderID = func() string { return "hung" }
	check.Err(t, check.Last(h.verifyByLeader(t.Context(), verifyQuestion{})), context.Canceled, "ask a follower")
}

// TestChecksThatAreNotMade holds that only what is really asked counts against a
// receiver and a sender.
func TestChecksThatAreNotMade(t *testing.T) {
	h := newTestbed(t, nil)
	h.lead(t)
	q := verifyQuestion{URL: "https://127.0.0.1/", Agent: "ada", Sender: "sender"}
	for range maxVerifying {
		h.verifying <- struct{}{}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * push.VerificationsPerHour {
		check.Err(t, check.Last(h.verifyHere(ended, q)), context.Canceled, "while too many are asked")
	}
	for range maxVerifying {
		<-h.verifying
	}
	for i := range push.VerificationsPerHour + 1 {
		a, err := h.verifyHere(t.Context(), q)
		if err != nil || (a.WaitMs > 0) != (i == push.VerificationsPerHour) || a.Shared {
			t.Errorf("check %d: %+v, %v", i, a, err)
		}
	}
}

// TestVerificationsAfterAStepOfTheClock: a clock that was ahead, and is set right, keeps no sender from
// verifications for longer than their window.
func TestVerificationsAfterAStepOfTheClock(t *testing.T) {
	var ahead atomic.Int64
	ahead.Store(int64(48 * time.Hour))
	h := newTestbed(t, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } })
	for range push.VerificationsPerHour {
		wait, _ := h.verifications.Admit("hooks.example", "a sender")
		check.Equal(t, wait, 0, "wait")
	}
	ahead.Store(0)
	if wait, _ := h.verifications.Admit("hooks.example", "a sender"); wait <= 0 || wait > time.Hour {
		t.Errorf("a sender with all its verifications waits for %v", wait)
	}
}
