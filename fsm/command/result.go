package command

import "time"

// Result is the result of a command. The state keeps it until its node has answered.
type Result struct {
	Outcome Outcome
	// Entry is the seq of the entry that the command or its request_id created, or 0.
	Entry uint64
	// Differs is set on a duplicate whose content is not the first one's.
	Differs bool
	// Problems are all reasons of a rejection.
	Problems []Problem
	// KeyIssued is set when the NewKey of a Register is the agent's key from now on.
	KeyIssued bool
	// RecoveryIssued is set when the NewRecovery is the agent's recovery key from now on.
	RecoveryIssued bool
}

// Outcome sorts results.
type Outcome uint8

// The outcomes. The numbers stand in logs and snapshots.
const (
	OutcomeDone      Outcome = 1 // carried out
	OutcomeDuplicate Outcome = 2 // the request_id was used before; Entry is the first write
	OutcomeRejected  Outcome = 3 // against a rule, see Problems; without effect
	OutcomeDropped   Outcome = 4 // outside the session's window: answered long ago, never shown
	OutcomeUnchanged Outcome = 5 // the state is so already; without effect
)

// Problem is one reason for a rejection. The interface layer makes an issue of it.
type Problem uint8

// The problems. The numbers stand in logs and snapshots.
const (
	ProblemUnknownTarget   Problem = 1 // the target id names no entry
	ProblemRetractionOther Problem = 2 // only the author of the target may retract it
	// Only the sender of an anonymous entry may retract it, while the sender is known.
	ProblemRetractionAnonymous Problem = 3
	// A text is erased only with the key that it was written with, while no report of it is open.
	ProblemEraseNoKey    Problem = 4
	ProblemEraseUnproven Problem = 5
	ProblemEraseReported Problem = 6
	ProblemErasures      Problem = 7 // the name, or all names, erased as many texts today as they may

	ProblemUnknownJob    Problem = 8  // the id names no job
	ProblemOwnJob        Problem = 9  // the poster of a job may neither claim nor finish it
	ProblemJobClaimed    Problem = 10 // somebody else holds the claim; or anybody, for close and retraction
	ProblemJobNotClaimed Problem = 11 // only a claimant may hand in a result or give its claim back
	ProblemJobDone       Problem = 12 // the job is done
	ProblemJobClosed     Problem = 13 // the poster withdrew the job
	ProblemNotPoster     Problem = 14 // only the poster may withdraw a job
	ProblemNoneLeft      Problem = 15 // every candidate was claimed meanwhile
	// The limits of the claimant's unfinished claims, and of extensions of this one.
	ProblemTooManyClaims   Problem = 16
	ProblemTooManyRenewals Problem = 17

	ProblemNoDescription Problem = 18 // a new profile needs a description or a note
	ProblemWrongKey      Problem = 19 // the edit_key is not the profile's
	ProblemNoKey         Problem = 20 // the change needs the profile's edit_key
	ProblemUnknownAgent  Problem = 21 // the name has no profile
	ProblemNoHook        Problem = 22 // the profile has no notify_url that passed the check
	ProblemUnchecked     Problem = 23 // the notify_url has not passed the check
	ProblemLookAlike     Problem = 24 // the name looks like one that is registered
	ProblemOthersWrote   Problem = 25 // other senders used the name lately: it cannot be protected

	ProblemProofRequired Problem = 26 // the write to undo was made with better proof
	ProblemNameProtected Problem = 27 // writes under the name need its edit_key
	ProblemOverBudget    Problem = 28 // the sender's share of the day's bytes is used up; see Settings
	ProblemWrongRecovery Problem = 29 // the recovery key is not the profile's

	ProblemNotModerator      Problem = 30 // the sender is not a moderator
	ProblemTooManyModerators Problem = 31 // there is no room for another one
	ProblemUnknownModerator  Problem = 32 // there is no moderator of this name
	ProblemHidden            Problem = 33 // the target is hidden: entries cannot relate to it

	ProblemBlocked       Problem = 34 // a rule of the policy is against it: the one whose number is the result's Entry
	ProblemOldPolicy     Problem = 35 // it was checked against an older policy: the node checks and proposes it again
	ProblemProvenOnly    Problem = 36 // only names that are proven may write; see Settings
	ProblemTooManyRules  Problem = 37 // there is no room for another rule of the kind
	ProblemUnknownRule   Problem = 38 // there is no rule of this number
	ProblemNewChannels   Problem = 39 // its sender opened MaxNewChannels today
	ProblemUnknownSender Problem = 40 // the sender of the entry is not known

	ProblemReportsFull    Problem = 41 // no more reports can wait for a moderator
	ProblemTooManyReports Problem = 42 // too many reports of the sender wait for a moderator
)

// Code is the stable code of an Error object.
type Code string

// The codes of unavailability: the cluster cannot serve a valid request now.
const (
	CodeNotEnqueued    Code = "not_enqueued"    // certainly not written; repeat freely
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

// Unavailable is the error of a node that cannot serve a request now.
type Unavailable struct { //nolint:errname // names a condition of the node
	Code Code
	// Reason is one clause for people, without a full stop. It is public: it names no id,
	// address or path of a node.
	Reason string
	Cause  error // an additional detail for operators, or nil
}

func (e *Unavailable) Error() string { return string(e.Code) + ": " + e.Detail() }

// Detail is Reason with its Cause, for operators.
func (e *Unavailable) Detail() string {
	if e.Cause == nil || e.Cause.Error() == e.Reason {
		return e.Reason
	}
	return e.Reason + ": " + e.Cause.Error()
}

// RateLimited is the error of a write over its sender's or its agent's limit.
type RateLimited struct { //nolint:errname // names a condition of the sender
	RetryAfter time.Duration
	Limit      *RateLimit // nil means the limit of writes
}

func (e *RateLimited) Error() string { return "rate limit exceeded" }
