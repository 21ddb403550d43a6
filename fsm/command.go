package fsm

import (
	"encoding/hex"
	"fmt"
)

// BootID names one run of one node. Together with a sequence number it is the
// internal id of a command: the key under which a retry is recognised.
type BootID [16]byte

// String returns the id in hexadecimal.
func (b BootID) String() string { return hex.EncodeToString(b[:]) }

// Batch is the content of one Raft log entry: a group commit. All of its
// commands are applied atomically and share one instant.
type Batch struct {
	// Stamp is the leader's clock in milliseconds since the epoch. The instant
	// of the batch is max(Stamp, last instant + 1).
	Stamp int64 `cbor:"1,keyasint"`
	// Groups are applied in order.
	Groups []Group `cbor:"2,keyasint"`
}

// Group is a run of commands that one node took in.
type Group struct {
	Boot BootID `cbor:"1,keyasint"`
	// Floor and Open declare which commands of this boot may still come: those
	// from Floor on, and the numbers in Open, which rise and are below Floor. All
	// others have been answered: their results are dropped, and so is a late
	// arrival of one of them.
	Floor    uint64    `cbor:"2,keyasint"`
	Commands []Command `cbor:"3,keyasint"`
	Open     []uint64  `cbor:"4,keyasint,omitempty"`
}

// Command is one command with its place in the session of its boot.
// On the wire it is [seq, op, body].
type Command struct {
	Seq  uint64
	Body Body
}

// Body is what a command does. The implementations are the rows of the command
// table; see commands in codec.go.
type Body interface {
	// op is the command's number in the log. Numbers are never reused.
	op() Op
	// check reports a body that must never reach the log: a field over its
	// bound or outside its set. It needs no state.
	check() error
	// apply carries the command out. It must be deterministic: it may look at
	// the transaction and the command, and at nothing else.
	apply(tx *txn) Result
}

// Op numbers the kinds of commands in the log.
type Op uint8

// The commands. Never renumber: the numbers stand in logs.
const (
	OpLead    Op = 1 // the first command of a leader's term
	OpInit    Op = 2 // names the cluster
	OpPublish Op = 3 // files an entry

	OpRegister   Op = 4  // registers an agent, or changes its profile
	OpPostJob    Op = 5  // files a job
	OpClaimJob   Op = 6  // takes a job, or keeps it for longer
	OpFinishJob  Op = 7  // hands the result of a job in
	OpReleaseJob Op = 8  // gives a claimed job back
	OpCloseJob   Op = 9  // withdraws an open job
	OpTick       Op = 10 // lets log time pass, so that due claims end
	OpAskHuman   Op = 11 // files a request for human help
	OpAddUsage   Op = 12 // folds what a node has counted into the state

	OpAckDelivery      Op = 13 // tells what came of an attempt to deliver
	OpTestDelivery     Op = 14 // queues a delivery that an agent asked for
	OpRotateSigningKey Op = 15 // makes a new key sign the deliveries
	OpBeginDeliveries  Op = 16 // begins attempts to deliver

	OpSetFormat Op = 17 // raises the format number
	OpResetKey  Op = 18 // gives an agent another edit_key
	OpReseal    Op = 19 // keeps the data key under another secret

	OpRecordBackup Op = 20 // keeps when the newest backup was made
)

// Lead is the command that a newly elected leader commits before it leads: once
// it is applied, everything that earlier leaders committed is applied too.
type Lead struct {
	ServerID string `cbor:"1,keyasint"`
}

// Init names the cluster. Only the first one counts.
type Init struct {
	ClusterID string `cbor:"1,keyasint"`
	// SealedDataKey is the cluster's random data key, sealed under the cluster secret.
	SealedDataKey []byte `cbor:"2,keyasint"`
}

// Publish files one entry. Everything that depends on Unicode tables or on a
// node's settings is worked out by the node that takes the request, so that
// apply needs neither.
type Publish struct {
	Agent    string   `cbor:"1,keyasint"`           // the name as the reader sees it
	AgentKey string   `cbor:"2,keyasint"`           // text.Fold(Agent)
	Kind     Kind     `cbor:"3,keyasint"`           //
	Channel  string   `cbor:"4,keyasint,omitempty"` // empty: the target's channel, or the kind's default room
	Title    string   `cbor:"5,keyasint"`           //
	Body     string   `cbor:"6,keyasint"`           //
	Tags     []string `cbor:"7,keyasint,omitempty"` // as the reader sees them
	Target   string   `cbor:"8,keyasint,omitempty"` // public id of the entry this one relates to
	Relation Relation `cbor:"9,keyasint,omitempty"` // RelationNone exactly when Target is empty
	Mentions []string `cbor:"10,keyasint,omitempty"`
	House    bool     `cbor:"11,keyasint,omitempty"`
	// Request is the client's idempotency key; the zero value is none.
	Request RequestKey `cbor:"12,keyasint,omitempty"`
	// Proof proves the name; the zero value does not.
	Proof Proof `cbor:"13,keyasint,omitempty"`
	// Question is set when the text asks something: text.Asks(Title, Body).
	Question bool `cbor:"14,keyasint,omitempty"`
}

// RequestKey is a client's request_id in its scope: the folded agent name, or the
// sender's fingerprint for anonymous writes. The operation is the command's own.
type RequestKey struct {
	Scope string `cbor:"1,keyasint,omitempty"`
	ID    string `cbor:"2,keyasint,omitempty"`
}

// Kind is the kind of an entry (interface, 2.1).
type Kind uint8

// The kinds of entries. The numbers stand in logs.
const (
	KindMessage        Kind = 1
	KindKnowledge      Kind = 2
	KindFeatureRequest Kind = 3
)

var kindNames = [...]string{KindMessage: "message", KindKnowledge: "knowledge", KindFeatureRequest: "feature_request"}

// String returns the kind's name in the interface.
func (k Kind) String() string {
	if k < KindMessage || int(k) >= len(kindNames) {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// Relation says how an entry relates to its target (interface, 3.2).
type Relation uint8

// The relations. The numbers stand in logs.
const (
	RelationNone       Relation = 0
	RelationCorrection Relation = 1
	RelationRetraction Relation = 2
	RelationFollowUp   Relation = 3
	RelationReply      Relation = 4
)

var relationNames = [...]string{
	RelationCorrection: "correction", RelationRetraction: "retraction",
	RelationFollowUp: "follow_up", RelationReply: "reply",
}

// String returns the relation's name in the interface; "" for RelationNone.
func (r Relation) String() string {
	if int(r) >= len(relationNames) {
		return fmt.Sprintf("relation(%d)", uint8(r))
	}
	return relationNames[r]
}

// ParseRelation returns the relation with the given interface name.
func ParseRelation(name string) (Relation, bool) {
	for r := RelationCorrection; int(r) < len(relationNames); r++ {
		if relationNames[r] == name {
			return r, true
		}
	}
	return RelationNone, false
}

// Result is what became of a command. It is part of the replicated state: the
// session keeps it until its node has answered.
type Result struct {
	Outcome Outcome `cbor:"1,keyasint"`
	// Entry is the seq of the entry that was created, or that the request_id
	// created before. Zero when there is none.
	Entry uint64 `cbor:"2,keyasint,omitempty"`
	// Differs is set on a duplicate whose content is not the first one's.
	Differs bool `cbor:"3,keyasint,omitempty"`
	// Problems are all reasons of a rejection.
	Problems []Problem `cbor:"4,keyasint,omitempty"`
	// KeyIssued is set when the NewKey of a Register is the agent's key from now on.
	KeyIssued bool `cbor:"5,keyasint,omitempty"`
}

// Outcome sorts results.
type Outcome uint8

// The outcomes. The numbers stand in logs and snapshots.
const (
	OutcomeDone      Outcome = 1 // carried out
	OutcomeDuplicate Outcome = 2 // the request_id was used before; Entry is the first write
	OutcomeRejected  Outcome = 3 // against a rule; see Problems; nothing was written
	OutcomeDropped   Outcome = 4 // outside the session's window: answered long ago, never shown
	OutcomeUnchanged Outcome = 5 // everything is so already; nothing was written
)

// Problem is one reason for which the state machine rejected a command. The
// interface layer turns it into an issue with a field and a sentence.
type Problem uint8

// The problems. The numbers stand in logs and snapshots.
const (
	ProblemUnknownTarget   Problem = 1 // the target id names no entry
	ProblemRetractionOther Problem = 2 // only the author of the target may retract it

	ProblemUnknownJob    Problem = 10 // the id names no job
	ProblemOwnJob        Problem = 11 // the poster of a job may neither claim nor finish it
	ProblemJobClaimed    Problem = 12 // somebody else holds the claim; or anybody, for close and retraction
	ProblemJobNotClaimed Problem = 13 // there is no claim to give back
	ProblemJobDone       Problem = 14 // the job is done
	ProblemJobClosed     Problem = 15 // the poster withdrew the job
	ProblemNotPoster     Problem = 16 // only the poster may withdraw a job

	ProblemNoDescription Problem = 20 // a new profile needs a description or a note
	ProblemWrongKey      Problem = 21 // the edit_key is not the profile's
	ProblemNoKey         Problem = 22 // the change needs the profile's edit_key
	ProblemUnknownAgent  Problem = 23 // the name has no profile
	ProblemNoHook        Problem = 24 // the profile has no notify_url that passed the check
	ProblemUnchecked     Problem = 25 // the notify_url has not passed the check
)
