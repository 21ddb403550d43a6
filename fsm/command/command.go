package command

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
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
	Stamp int64
	// Groups are applied in order.
	Groups []Group
}

// Group is a sequence of commands of one node.
type Group struct {
	Boot BootID
	// Floor and Open declare which commands of this boot may still come: those from Floor
	// on, and the numbers in Open, which are ascending and below Floor. All others have
	// been answered: their results are dropped, and late copies of them are ignored.
	Floor    uint64
	Commands []Command
	Open     []uint64
}

// Command is one command with its place in the session of its boot.
type Command struct {
	Seq     uint64
	Payload Payload
	// Data is the payload as it travels, from Encode or a decoder. A command
	// without it is encoded where it is written.
	Data []byte
	// From is sent with the command to the leader and never enters the log.
	From Sender
}

// Payload is what a command does. The implementations are the rows of the command
// table; see commands in codec.go.
type Payload interface {
	// op is the command's number in the log. Numbers are never reused.
	op() Op
	// check reports a payload that must never reach the log: a field over its
	// bound or outside its set. It needs no state.
	check() error
}

// Result is the result of a command. It is part of the replicated state: the session
// keeps it until its node has answered.
type Result struct {
	Outcome Outcome
	// Entry is the seq of the entry that was created, or that the request_id
	// created before. Zero when there is none.
	Entry uint64
	// Differs is set on a duplicate whose content is not the first one's.
	Differs bool
	// Problems are all reasons of a rejection.
	Problems []Problem
	// KeyIssued is set when the NewKey of a Register is the agent's key from now on.
	KeyIssued bool
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
	// Only the sender of an entry of nobody's may retract it, while that is known.
	ProblemRetractionAnonymous Problem = 3

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
	ProblemLookAlike     Problem = 26 // the name looks like one that is registered
	ProblemProtectNew    Problem = 27 // only a name that has its key can be protected
	ProblemOthersWrote   Problem = 28 // other senders wrote under the name lately: it cannot be protected

	ProblemProofRequired Problem = 30 // what is to be undone was made with better proof
	ProblemNameProtected Problem = 31 // writes under the name need its edit_key
	ProblemOverBudget    Problem = 32 // the sender's share of the day's bytes is used up; see Settings

	ProblemNotModerator      Problem = 40 // who acts as a moderator is none
	ProblemTooManyModerators Problem = 41 // there is no room for another one
	ProblemUnknownModerator  Problem = 42 // there is no moderator of this name
	ProblemHidden            Problem = 43 // what the id names is hidden: nothing relates to it

	ProblemBlocked       Problem = 50 // a rule of the policy is against it: the one whose number is the result's Entry
	ProblemOldPolicy     Problem = 51 // it was checked against an older policy: to be checked again, and proposed anew
	ProblemProvenOnly    Problem = 52 // only names that are proven may write; see Settings
	ProblemTooManyRules  Problem = 53 // there is no room for another rule of the kind
	ProblemUnknownRule   Problem = 54 // there is no rule of this number
	ProblemFlood         Problem = 56 // too many texts like it were written in the hour; see Settings
	ProblemNewChannels   Problem = 57 // its sender opened MaxNewChannels today
	ProblemUnknownSender Problem = 55 // from where the entry came is not known

	ProblemReportsFull    Problem = 60 // no more reports can wait for a moderator
	ProblemTooManyReports Problem = 61 // too many reports of the sender wait for a moderator
)

// checkShape reports a batch that a state machine could not read, regardless of its
// payloads.
func (b *Batch) checkShape() error {
	if b.Stamp < 0 || b.Stamp > MaxStamp {
		return fmt.Errorf("stamp %d, 0 to %d are allowed", b.Stamp, int64(MaxStamp))
	}
	if len(b.Groups) > MaxBatchGroups {
		return fmt.Errorf("%d groups, at most %d", len(b.Groups), MaxBatchGroups)
	}
	for i := range b.Groups {
		if err := b.Groups[i].checkShape(); err != nil {
			return err
		}
	}
	return nil
}

// Size returns how many bytes the group takes in a batch, at most. Commands without
// Data are not counted.
func (g *Group) Size() int {
	n := GroupBytes + len(g.Open)*OpenBytes
	for i := range g.Commands {
		n += CommandBytes + len(g.Commands[i].Data)
	}
	return n
}

func (g *Group) checkShape() error {
	if g.Boot == (BootID{}) {
		return errors.New("group without a boot id")
	}
	if len(g.Commands) > MaxGroupCommands {
		return fmt.Errorf("%d commands, at most %d", len(g.Commands), MaxGroupCommands)
	}
	return g.checkWindow()
}

// SealedDataKey returns the sealed data key that a state with this one has when the
// batch was applied.
func (b *Batch) SealedDataKey(sealed []byte) []byte {
	for _, g := range b.Groups {
		for _, c := range g.Commands {
			switch p := c.Payload.(type) {
			case *Init:
				if len(sealed) == 0 {
					sealed = p.SealedDataKey
				}
			case *Reseal:
				if bytes.Equal(p.Former, sealed) {
					sealed = p.SealedDataKey
				}
			}
		}
	}
	return sealed
}

// checkWindow reports a Floor and an Open that do not go together.
func (g *Group) checkWindow() error {
	if len(g.Open) > MaxOpen {
		return fmt.Errorf("%d open numbers, at most %d", len(g.Open), MaxOpen)
	}
	limit := g.Floor
	for _, seq := range slices.Backward(g.Open) {
		if seq >= limit {
			return fmt.Errorf("open numbers %d below floor %d: they must rise and stay below it", g.Open, g.Floor)
		}
		limit = seq
	}
	return nil
}

func checkTag(tag string) error { return checkText("tag", tag, MinTag, MaxTag) }

// Check reports a payload that must never reach the log: a field over its bound or
// outside its set. Encode and DecodeGroup do so.
func Check(p Payload) error { return p.check() }

func checkAll(field string, items []string, most int, check func(string) error) error {
	if err := checkRange(field, len(items), 0, most, "items"); err != nil {
		return err
	}
	for _, item := range items {
		if err := check(item); err != nil {
			return err
		}
	}
	return nil
}

// checkText checks the length of a text in code points, and that it is UTF-8.
func checkText(field, s string, least, most int) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s: not UTF-8", field)
	}
	return checkRange(field, utf8.RuneCountInString(s), least, most, "code points")
}

// checkBytes checks that a text is not empty, its length in bytes, and that it is
// UTF-8.
func checkBytes(field, s string, most int) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s: not UTF-8", field)
	}
	return checkRange(field, len(s), 1, most, "bytes")
}

func checkRange(field string, n, least, most int, unit string) error {
	if n < least || n > most {
		return fmt.Errorf("%s: %d %s, allowed are %d to %d", field, n, unit, least, most)
	}
	return nil
}

// checkOptional is checkText for a text that may be missing.
func checkOptional(field, s string, least, most int) error {
	if s == "" {
		return nil
	}
	return checkText(field, s, least, most)
}

// checkKeyHash accepts a hash, or nothing.
func checkKeyHash(field string, hash []byte) error {
	if len(hash) != 0 && len(hash) != KeyHashBytes {
		return fmt.Errorf("%s: a hash of %d bytes", field, len(hash))
	}
	return nil
}

// checkLabel accepts a short word of letters, digits and some marks.
func checkLabel(field, label string) error {
	for _, c := range []byte(label) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == '/':
		default:
			return fmt.Errorf("%s: byte %q", field, c)
		}
	}
	return checkRange(field, len(label), 1, MaxUsageLabel, "bytes")
}

// Code is the stable code of an Error object.
type Code string

// The codes of unavailability: the request is valid, but the cluster cannot serve it
// now.
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

// Sender is the sender of a write, by the keys of its rate limits. The fingerprint
// enters the log if it proves a name (fsm.Proof).
type Sender struct {
	Fingerprint string
	AgentKey    string // folded agent name; "" for anonymous
	// Charged says that the write was already charged to the rate limits, by this leader or
	// another one, whatever its result.
	Charged bool
}

// NetworkEnd ends the pseudonym of the sender's network in a fingerprint: an IPv6 /48,
// of which a sender is a /64.
const NetworkEnd = "."

// NetworkOf returns that network; "": there is none.
func NetworkOf(fingerprint string) string {
	network, _, found := strings.Cut(fingerprint, NetworkEnd)
	if !found {
		return ""
	}
	return network
}

// NetworkShare is how many times the bound of a sender its network has.
const NetworkShare = 4

// Unavailable is the error of a node that cannot serve a request now.
type Unavailable struct { //nolint:errname // names a condition of the node
	Code Code
	// Reason is one clause for people, without a full stop. It is public: it names no id,
	// address or path of a node.
	Reason string
	Cause  error // an additional detail for operators; nil: none
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
	Limit      *RateLimit // nil: that of writes
}

func (e *RateLimited) Error() string { return "rate limit exceeded" }
