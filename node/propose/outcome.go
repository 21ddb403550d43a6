package propose

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// status is the outcome of an attempt to get a group applied. The numbers are sent between
// nodes.
type status uint8

const (
	// statusApplied means that the leader's state machine has applied the group, without
	// the commands over a rate limit or the budget.
	statusApplied status = 1
	// statusNotEnqueued means that the group was not passed to Raft, or that Raft certainly
	// did not append it. Another attempt may succeed.
	statusNotEnqueued status = 2
	statusOverloaded  status = 3 // statusNotEnqueued by a leader that accepts no more groups now
	statusInvalid     status = 4 // statusNotEnqueued for a group with which no attempt can succeed
	// statusUnknown means that the group may be in the log, now or later.
	statusUnknown status = 5
)

// result is the result of one attempt. Its exported fields are sent as JSON.
type result struct {
	Status status `json:"status"`
	// Index is the index of the log entry for statusApplied. It is 0 if every command was
	// rejected.
	Index uint64 `json:"index,omitempty"`
	// Rejected lists the commands over a rate limit or the budget, in the order of the
	// group, whatever the status.
	Rejected []rejection `json:"rejected,omitempty"`
	// Charged reports whether all commands that are not rejected have been charged.
	Charged bool `json:"charged,omitempty"`
	// Reason is a clause for people. Strangers see it, so it names no servers or files.
	Reason string `json:"reason,omitempty"`
	cause  error  // the error on this node, never sent
}

// rejection is a command over a rate limit or the budget. It was not passed to Raft.
type rejection struct {
	Position   int           `json:"position"` // in the group
	RetryAfter time.Duration `json:"retryAfter"`
	OverBudget bool          `json:"overBudget,omitempty"` // if set, RetryAfter is 0
}

// check returns an error if the result is not valid for a group of n commands.
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
//     a follower, a candidate, or a leader that is removing itself, all before
//     dispatch.
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
