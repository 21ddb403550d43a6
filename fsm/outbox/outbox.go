// Package outbox has the queue of deliveries to an agent's receiver: the rows of deliveries
// and of the queue, and the rules by which the next delivery is chosen and retried.
//
// A failed delivery waits until it is ready again; the others do not wait for it. After three
// different failures in a row there is a pause before each attempt, until the receiver takes one.
//
// It is imported by apply, view and fsm, and by node for the kinds and ends of deliveries.
package outbox

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/state"
)

// Key is the key of an agent's outbox.
func Key(agentKey string) []byte { return append([]byte{state.SpaceOutbox}, agentKey...) }

// OutboxDueKeyBytes is the length of an OutboxDueKey before the agent's key.
const OutboxDueKeyBytes = 1 + 8

// DueKey is the key of an agent among those with a delivery due at an instant.
func DueKey(at int64, agentKey string) []byte {
	key := append(make([]byte, 0, OutboxDueKeyBytes+len(agentKey)), state.SpaceOutboxDue)
	return append(binary.BigEndian.AppendUint64(key, uint64(at)), agentKey...)
}

// Outbox holds the deliveries that wait for an agent, and when earlier attempts began: the row of
// SpaceOutbox. It is never deleted, so that no number is used again.
//
//	flags1 hook last sending NotBefore failing len(queue) queue... len(begun) begun...
//
// Numbers are uvarints, in queue and begun too: there, delivery numbers and begun instants are
// differences from the one before. The lowest bit of a delivery's ready is its proven.
type Outbox struct {
	Active    bool     // the agent has a receiver that passed the check
	Paused    bool     // no attempt begins until the receiver has another secret
	Hook      uint64   // counts the changes of the receiver
	Last      uint64   // number of the newest delivery; they count from 1
	Queue     []Queued // the deliveries that wait, oldest first
	Sending   uint64   // number of the one with an attempt under way, or 0
	NotBefore int64    // no attempt begins sooner; milliseconds since the epoch
	failing   uint64   // counts the failures of different deliveries in a row
	begun     []int64  // the attempts of the hour before the newest, oldest first; at most MaxHourlyDeliveries

	DueAt int64 // the instant of the agent in SpaceOutboxDue; 0 if it has no row there
}

// Queued is a delivery that waits or is being sent.
type Queued struct {
	Number uint64
	Proven bool   // the name of its author, or it is a test
	Ready  int64  // no attempt begins sooner; milliseconds since the epoch; 0 before the first failure
	Entry  uint64 // as in the DeliveryRow: hiding an entry looks for it in up to 50 queues
}

const flagProven = 1 << 0 // of a delivery in the queue

// Fields implements state.Row.
func (o *Outbox) Fields(c *state.Codec) {
	c.Fields(state.Flags{&o.Active, &o.Paused}, &o.Hook, &o.Last, &o.Sending, &o.NotBefore, &o.failing)
	number, at := uint64(0), int64(0)
	state.List(c, &o.Queue, func(q *Queued) {
		entry, step, ready := q.Entry, q.Number-number, uint64(q.Ready)<<1|uint64(state.Bit(q.Proven, flagProven))
		c.Fields(&step, &ready, &entry)
		number += step
		*q = Queued{Number: number, Proven: ready&flagProven != 0, Ready: int64(ready >> 1), Entry: entry}
	})
	state.List(c, &o.begun, func(begun *int64) {
		step := *begun - at
		c.Fields(&step)
		at += step
		*begun = at
	})
}

// DecodeOutbox decodes a row of spaceOutbox.
func DecodeOutbox(row []byte) (*Outbox, error) {
	o := new(Outbox)
	if err := state.DecodeInto(o, row); err != nil {
		return nil, err
	}
	o.DueAt = o.Due()
	return o, nil
}

// Find returns the index of a delivery in the queue; false when it is not there.
func (o *Outbox) Find(number uint64) (int, bool) {
	return slices.BinarySearchFunc(o.Queue, number, func(q Queued, number uint64) int { return cmp.Compare(q.Number, number) })
}

// LoadOutbox reads an agent's outbox. Without a row it is empty.
func LoadOutbox(r pebble.Reader, agentKey string) (*Outbox, error) {
	o, ok, err := state.Load(r, Key(agentKey), DecodeOutbox)
	if err != nil || !ok {
		return new(Outbox), err
	}
	return o, nil
}
