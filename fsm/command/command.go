package command

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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

// Group is a run of commands that one node took in.
type Group struct {
	Boot BootID
	// Floor and Open declare which commands of this boot may still come: those
	// from Floor on, and the numbers in Open, which rise and are below Floor. All
	// others have been answered: their results are dropped, and so is a late
	// arrival of one of them.
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
	// From and Charged go with the command to the leader and never into the log.
	// Charged says that an earlier attempt was charged to the rate limits, by this
	// leader or another one, whatever became of it.
	From    Sender
	Charged bool
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

// Result is what became of a command. It is part of the replicated state: the
// session keeps it until its node has answered.
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
)

// checkShape reports a batch that a state machine could not read, whatever its
// payloads are.
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
