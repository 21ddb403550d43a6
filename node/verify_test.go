package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api"
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
		"too many":            {a: verifyAnswer{WaitMs: 7000}, limited: "A receiver and a sender have at most 10 checks"},
		"too many, of others": {a: verifyAnswer{WaitMs: 7000, Shared: true}, limited: "others have used up these"},
	} {
		err := tt.a.asError()
		limited, isLimited := errors.AsType[*api.RateLimited](err)
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
