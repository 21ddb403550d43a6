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

// Group is a sequence of commands of one node.
type Group struct {
	Boot BootID
	// Floor and Open declare the commands of this boot that may still come: those from
	// Floor on, and the numbers in Open, ascending and below Floor. The results of all
	// others are dropped, and late copies of them are ignored.
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

// Payload is the content of a command. The implementations are the rows of the command
// table; see commands in table.go.
type Payload interface {
	// check reports a payload that must never reach the log: a field over its
	// bound or outside its set. It needs no state.
	check() error
}

// checkShape reports a batch that cannot be read, regardless of its payloads.
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

// Size returns the maximum size of the group in a batch. It counts only commands with Data.
func (g *Group) Size() int {
	n := GroupBytes + len(g.Open)*OpenBytes
	for i := range g.Commands {
		n += CommandBytes + len(g.Commands[i].Data)
	}
	return n
}

func (g *Group) checkShape() error {
	switch {
	case g.Boot == (BootID{}):
		return errors.New("group without a boot id")
	case len(g.Commands) > MaxGroupCommands:
		return fmt.Errorf("%d commands, at most %d", len(g.Commands), MaxGroupCommands)
	case len(g.Open) > MaxOpen:
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

// SealedDataKey returns the sealed data key after the batch, given the one before it.
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

// Check reports a payload that must never reach the log, as Encode and DecodeGroup do.
func Check(p Payload) error { return p.check() }
