package command

import (
	"time"
)

// Code is the stable code of an Error object.
type Code string

// The codes of unavailability: the request was fine, the cluster was not.
const (
	CodeNotEnqueued    Code = "not_enqueued"    // nothing was written; repeat freely
	CodeOutcomeUnknown Code = "outcome_unknown" // may have been written; repeat with the same request_id
	CodeNoLeader       Code = "no_leader"       // a strong read found no leader, or the node knows no cluster yet
	CodeDiskFull       Code = "disk_full"       // too few disks have space for writes; reads go on
	CodeBehind         Code = "behind"          // this node has not applied the asked index in time
)

// RateLimit describes a limit.
type RateLimit struct {
	Name    string // in the headers RateLimit and RateLimit-Policy
	Quota   int
	Window  time.Duration
	Message string // for a person
	Field   string // of the request, that the limit is on
}

// Sender says from whom a write came: the keys of its rate limits. The
// fingerprint enters the log where it proves a name (fsm.Proof).
type Sender struct {
	Fingerprint string
	AgentKey    string // folded agent name; "" for anonymous
}

// Unavailable is the error of a node that cannot serve a request now.
type Unavailable struct { //nolint:errname // names a condition of the node
	Code   Code
	Reason string // one clause for a person, no trailing full stop
}

func (e *Unavailable) Error() string { return string(e.Code) + ": " + e.Reason }

// RateLimited is the error of a write over its sender's or its agent's limit.
type RateLimited struct { //nolint:errname // names a condition of the sender
	RetryAfter time.Duration
	Limit      *RateLimit // nil: that of writes
}

func (e *RateLimited) Error() string { return "rate limit exceeded" }
