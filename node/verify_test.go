package node

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/push"
)

// TestVerifyAnswers holds what a client is told of the check of its receiver.
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
		failed, isFailed := errors.AsType[*api.ReceiverFailed](err)
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
	n := mustStart(t, local(t))
	until(t, "it leads", n.raft.Leads)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never says a word
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	hung := cluster.Member{Meta: cluster.Meta{ServerID: "hung", ClusterAddr: silent.Addr().String()}}
	if err := n.book.Update([]cluster.Member{hung}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.verifyAt(t.Context(), "hung", verifyQuestion{}); !errors.Is(err, context.Canceled) {
		t.Errorf("it waited for the one that does not lead: %v", err)
	}
}

// TestChecksThatAreNotMade holds that only what is really asked counts against a
// receiver and a sender.
func TestChecksThatAreNotMade(t *testing.T) {
	n := mustStart(t, local(t))
	until(t, "a key", func() bool { _, err := n.signingKeys(); return err == nil })
	q := verifyQuestion{URL: "https://127.0.0.1/", Agent: "ada", Sender: "sender"}
	sealer := n.signing.Swap(nil)
	for range 2 * push.VerificationsPerHour {
		if a, err := n.verifyHere(t.Context(), q); !errors.Is(err, errNoDataKey) {
			t.Fatalf("without the data key: %+v, %v", a, err)
		}
	}
	n.signing.Store(sealer)
	for range maxVerifying {
		n.verifying <- struct{}{}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * push.VerificationsPerHour {
		if a, err := n.verifyHere(ended, q); !errors.Is(err, context.Canceled) {
			t.Fatalf("while too many are asked: %+v, %v", a, err)
		}
	}
	for range maxVerifying {
		<-n.verifying
	}
	for i := range push.VerificationsPerHour + 1 {
		a, err := n.verifyHere(t.Context(), q)
		if err != nil || (a.WaitMs > 0) != (i == push.VerificationsPerHour) || a.Shared {
			t.Errorf("check %d: %+v, %v", i, a, err)
		}
	}
}
