package propose

import (
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// How long a caller waits at most.
const (
	// ProposeTimeout is how long a command is kept and tried again.
	ProposeTimeout = 10 * time.Second
	// ReadIndexTimeout is how long a strong read tries to get an answer from a leader.
	ReadIndexTimeout = 5 * time.Second
)

// What is in flight and what may wait.
const (
	// MaxInFlight is the number of groups that a node has on the way to the
	// leader, and of log entries that the leader has on the way to its state
	// machine.
	MaxInFlight = 2
	// LargeBatchBytes is how much has to wait at the leader for a second log entry to begin
	// while one is on its way to the state machine.
	LargeBatchBytes = command.MaxBatchBytes / 2
	// MaxQueuedBytes bounds the unanswered commands of one node.
	MaxQueuedBytes = 32 << 20
	// MaxLag is how far the newest number may be ahead of an unanswered one before that one
	// no longer holds the floor back and is listed as open instead.
	MaxLag = 1 << 10
	// MaxSpan bounds how far sent numbers may be ahead of the floor: the state keeps the
	// results above the floor, up to 1<<15 of them.
	MaxSpan = 1 << 14
	// MaxLeaderQueuedBytes bounds the groups that wait at the leader.
	MaxLeaderQueuedBytes = 8 << 20
	// MaxApplyLag is the number of committed log entries that the leader's state
	// machine may be behind before the leader takes no more.
	MaxApplyLag = 1024
)

// Times inside the pipeline.
const (
	// AttemptTimeout bounds one attempt to have a group applied by another node.
	AttemptTimeout = 3 * time.Second
	// EnqueueTimeout bounds the wait for Raft to take a log entry.
	EnqueueTimeout = 5 * time.Second
	// ExpiryGrace is how much longer than ProposeTimeout a caller waits for a running
	// attempt, if its result may still make the outcome certain.
	ExpiryGrace = 250 * time.Millisecond
	// MinBackoff and MaxBackoff bound the pause after a failed attempt. A change
	// of leader ends it early.
	MinBackoff = 5 * time.Millisecond
	MaxBackoff = 100 * time.Millisecond
	// RecheckInterval is how often an unanswered command is looked up in the state: a
	// result that an installed snapshot brings does not reach the Observer.
	RecheckInterval = time.Second
	// LeadWait is how long an elected leader lets strong reads wait for its
	// first command of the term.
	LeadWait = time.Second
	// RoundPatience is how long the strong reads of a follower wait for a running request
	// to the leader to end before they send the next one.
	RoundPatience = 100 * time.Millisecond
	// ConfirmTimeout bounds one check with the voters whether a newer term has begun.
	ConfirmTimeout = time.Second
)

// Sizes on the private port and in the log.
const (
	// maxGroupBytes bounds a group, so that it fits into a batch alone.
	maxGroupBytes = command.MaxBatchBytes
	// maxCommandBytes bounds a command, so that it fits into a group with any list of
	// open numbers.
	maxCommandBytes = maxGroupBytes - command.GroupBytes - command.MaxOpen*command.OpenBytes
	// callOverhead is what an unanswered command costs in memory beside its bytes.
	callOverhead = 512
	// maxReplyBytes bounds the leader's answer to a forwarded group.
	maxReplyBytes = 256 << 10
	// maxReasonBytes bounds the reason text in it.
	maxReasonBytes = 200
	// maxRetryAfter bounds the wait of a rejected command in it.
	maxRetryAfter = 24 * time.Hour
	// maxJSONBytes bounds the small answers of the private port.
	maxJSONBytes = 4 << 10
)

// timing holds the times that tests shorten.
type timing struct {
	propose, grace             time.Duration
	readIndex, attempt         time.Duration
	minBackoff, maxBackoff     time.Duration
	recheck, leadWait, confirm time.Duration
	clockInterval              time.Duration
}

func defaultTiming() timing {
	return timing{
		propose: ProposeTimeout, grace: ExpiryGrace, readIndex: ReadIndexTimeout, attempt: AttemptTimeout,
		minBackoff: MinBackoff, maxBackoff: MaxBackoff,
		recheck: RecheckInterval, leadWait: LeadWait, confirm: ConfirmTimeout,
		clockInterval: ClockInterval,
	}
}
