package propose

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// status says how an attempt to have a group applied ended. The numbers are sent
// between nodes.
type status uint8

const (
	// statusApplied: the leader's state machine has applied the group, apart
	// from the commands over a rate limit or the budget.
	statusApplied status = 1
	// statusNotEnqueued: nothing of the group was handed to Raft, or Raft
	// certainly did not append it. Another attempt may succeed.
	statusNotEnqueued status = 2
	// statusOverloaded: as statusNotEnqueued, and the leader accepts no more now.
	statusOverloaded status = 3
	// statusInvalid: as statusNotEnqueued, and no attempt with this group can succeed.
	statusInvalid status = 4
	// statusUnknown: the group may be in the log, now or later.
	statusUnknown status = 5
)

// result is the end of one attempt. Its exported fields travel as JSON.
type result struct {
	Status   status      `json:"status"`
	Index    uint64      `json:"index,omitempty"`    // of the log entry, with statusApplied; 0 when all were rejected
	Rejected []rejection `json:"rejected,omitempty"` // by the rate limits and the budget, whatever the status; ascending
	Charged  bool        `json:"charged,omitempty"`  // the rate limits were asked: what is not rejected was charged
	Reason   string      `json:"reason,omitempty"`   // one clause for a person; strangers see it
	cause    error       // on this node alone
}

// rejection is one command over a rate limit or the budget. It was not handed to Raft.
type rejection struct {
	Position   int           `json:"position"` // in the group
	RetryAfter time.Duration `json:"retryAfter"`
	OverBudget bool          `json:"overBudget,omitempty"` // and RetryAfter is 0
}

// check rejects a result that is not valid for a group of n commands.
func (r *result) check(n int) error {
	if r.Status < statusApplied || r.Status > statusUnknown {
		return errors.New("unknown status")
	}
	last := -1
	for _, over := range r.Rejected {
		if over.Position <= last || over.Position >= n || over.RetryAfter < 0 || over.RetryAfter > maxRetryAfter {
			return errors.New("rejections out of order or out of range")
		}
		last = over.Position
	}
	return nil
}

// raftResult waits for a log entry and returns the result of its groups.
func raftResult(f raft.ApplyFuture) result {
	err := f.Error()
	switch {
	case err == nil:
		return result{Status: statusApplied, Index: f.Index()}
	case neverAppended(err):
		return result{Status: statusNotEnqueued, Reason: err.Error(), cause: err}
	}
	return result{Status: statusUnknown, Reason: "the leader could not confirm it", cause: err} // err may name files
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
