package propose

import (
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// Time limits of callers.
const (
	ProposeTimeout   = 10 * time.Second // for which a command is retried
	ReadIndexTimeout = 5 * time.Second  // for which a strong read asks for the index
)

// Limits of commands in flight and of queues.
const (
	// MaxInFlight is the number of unanswered groups from a node to the leader, and of log
	// entries from the leader to its state machine.
	MaxInFlight     = 2
	LargeBatchBytes = command.MaxBatchBytes / 2 // of the queue, from which a second log entry begins beside an unanswered one
	MaxQueuedBytes  = 32 << 20                  // memory of a node's unanswered commands
	// MaxQueueWait bounds the estimated time until a command is sent. A command that would wait
	// longer is rejected.
	MaxQueueWait = 2 * time.Second
	// MaxLag is the largest distance from an unanswered number to the newest one at which
	// the unanswered number holds the floor back. Beyond it, the number is listed as open.
	MaxLag = 1 << 10
	// MaxSpan is the largest distance of a sent number to the floor. The state keeps the
	// results above the floor, up to 1<<15 of them.
	MaxSpan              = 1 << 14
	MaxLeaderQueuedBytes = 8 << 20 // of the groups that wait at the leader
	// MaxApplyLag is the number of committed log entries from which on a leader whose state
	// machine is behind accepts no more groups.
	MaxApplyLag = 1024
)

// Times inside the pipeline.
const (
	AttemptTimeout = 3 * time.Second // of one attempt to send a group to another node
	EnqueueTimeout = 5 * time.Second // until Raft accepts a log entry
	// ExpiryGrace is how much longer than ProposeTimeout a caller waits for a running
	// attempt whose result can make the outcome certain.
	ExpiryGrace = 250 * time.Millisecond
	// MinBackoff and MaxBackoff bound the pause after a failed attempt. A change of leader
	// ends the pause.
	MinBackoff     = 5 * time.Millisecond
	MaxBackoff     = 100 * time.Millisecond
	LeadWait       = time.Second            // of other nodes' strong reads for a new leader's first command of the term
	RoundPatience  = 100 * time.Millisecond // of a follower's strong reads for a running request, before the next one
	ConfirmTimeout = time.Second            // of one question to the voters for their terms
)

// Sizes on the private port and in the log.
const (
	maxGroupBytes = command.MaxBatchBytes // bounds a group, so that each fits into a batch
	// maxCommandBytes bounds a command, so that it fits into a group with any list of
	// open numbers.
	maxCommandBytes = maxGroupBytes - command.GroupBytes - command.MaxOpen*command.OpenBytes
	callOverhead    = 512            // the memory of an unanswered command beside its bytes
	maxTraces       = 32             // bounds the callers' spans that go to the leader with a group
	maxReasonBytes  = 200            // bounds the reason in the leader's answer to a forwarded group
	maxRetryAfter   = 24 * time.Hour // bounds the retryAfter of a rejected command in that answer
)

// timing holds the time limits that tests shorten.
type timing struct {
	propose, grace         time.Duration
	readIndex, attempt     time.Duration
	minBackoff, maxBackoff time.Duration
	leadWait, confirm      time.Duration
	clockInterval          time.Duration
}

// timingFor returns the usual times with at least so much patience for a leader.
func timingFor(patience time.Duration) timing {
	return timing{
		propose: max(ProposeTimeout, patience), readIndex: max(ReadIndexTimeout, patience),
		grace: ExpiryGrace, attempt: AttemptTimeout,
		minBackoff: MinBackoff, maxBackoff: MaxBackoff,
		leadWait: LeadWait, confirm: ConfirmTimeout,
		clockInterval: ClockInterval,
	}
}
