package propose

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// status says how an attempt to have a group applied ended. The numbers stand
// on the wire.
type status uint8

const (
	// statusApplied: the leader's state machine has applied the group, apart
	// from the commands that the rate limits refused.
	statusApplied status = 1
	// statusNotEnqueued: nothing of the group was handed to Raft, or Raft
	// certainly did not append it. Another attempt may succeed.
	statusNotEnqueued status = 2
	// statusOverloaded: as statusNotEnqueued, and the leader wants no more now.
	statusOverloaded status = 3
	// statusInvalid: as statusNotEnqueued, and no attempt with this group can succeed.
	statusInvalid status = 4
	// statusUnknown: the group may be in the log, now or later.
	statusUnknown status = 5
)

// verdict is the end of one attempt.
type verdict struct {
	status  status
	index   uint64    // of the log entry, with statusApplied; 0 when all were refused
	refused []refusal // by the rate limits, whatever the status; ascending
	charged bool      // the rate limits were asked: what is not refused was charged
	reason  string    // one clause for a person
	cause   error     // local attempts only
}

// refusal is one command over a rate limit. It was not handed to Raft.
type refusal struct {
	pos        int // in the group
	retryAfter time.Duration
}

// raftVerdict waits for a log entry and returns the verdict on its groups.
func raftVerdict(f raft.ApplyFuture) verdict {
	err := f.Error()
	switch {
	case err == nil:
		return verdict{status: statusApplied, index: f.Index()}
	case neverAppended(err):
		return verdict{status: statusNotEnqueued, reason: err.Error(), cause: err}
	}
	return verdict{status: statusUnknown, reason: err.Error(), cause: err}
}

// neverAppended reports whether an error of raft.Apply's future proves that the
// entry is not in the log and never will be. In raft v1.7.3:
//
//   - ErrNotLeader answers entries that the main loop takes from its channel as
//     a follower, a candidate, or a leader that is removing itself; none of
//     them was dispatched.
//   - ErrLeadershipTransferInProgress answers them before dispatch, too.
//   - ErrEnqueueTimeout comes from Apply itself, when the channel did not take
//     the entry in time.
//
// Everything else is unknown: ErrLeadershipLost and ErrAbortedByRestore answer
// dispatched entries, ErrRaftShutdown comes from both sides of the dispatch, and
// a failed write to the log may have left the entry there.
func neverAppended(err error) bool {
	return errors.Is(err, raft.ErrNotLeader) ||
		errors.Is(err, raft.ErrLeadershipTransferInProgress) ||
		errors.Is(err, raft.ErrEnqueueTimeout)
}
