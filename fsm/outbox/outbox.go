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
//	version1 flags1 hook last sending NotBefore failing len(queue) queue... len(begun) begun...
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
	Proven bool  // the name of its author, or it is a test
	Ready  int64 // no attempt begins sooner; milliseconds since the epoch; 0 before the first failure
}

const (
	outboxRowVersion = 1
	flagHookActive   = 1 << 0
	flagPaused       = 1 << 1
	flagProven       = 1 << 0 // of a delivery in the queue
)

// Encode returns the row of spaceOutbox.
func (o *Outbox) Encode() []byte {
	dst := []byte{outboxRowVersion, state.Bit(o.Active, flagHookActive) | state.Bit(o.Paused, flagPaused)}
	dst = state.AppendUints(dst, o.Hook, o.Last, o.Sending, uint64(o.NotBefore), o.failing)
	dst = binary.AppendUvarint(appendQueue(dst, o.Queue), uint64(len(o.begun)))
	before := uint64(0)
	for _, b := range o.begun {
		dst = binary.AppendUvarint(dst, uint64(b)-before)
		before = uint64(b)
	}
	return dst
}

func appendQueue(dst []byte, queue []Queued) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(queue)))
	before := uint64(0)
	for _, q := range queue {
		dst = binary.AppendUvarint(dst, q.Number-before)
		dst = binary.AppendUvarint(dst, uint64(q.Ready)<<1|uint64(state.Bit(q.Proven, flagProven)))
		before = q.Number
	}
	return dst
}

// decodeQueue reads a queue from a row.
func decodeQueue(r *state.RowReader) (queue []Queued) {
	number := uint64(0)
	for n := r.Uint(); n > 0 && !r.Bad; n-- {
		number += r.Uint()
		ready := r.Uint()
		queue = append(queue, Queued{Number: number, Proven: ready&flagProven != 0, Ready: int64(ready >> 1)})
	}
	return queue
}

// DecodeOutbox decodes a row of spaceOutbox.
func DecodeOutbox(row []byte) (*Outbox, error) {
	r := state.RowReader{Rest: row}
	o := new(Outbox)
	r.Version(outboxRowVersion)
	flags := r.Byte()
	o.Active, o.Paused = flags&flagHookActive != 0, flags&flagPaused != 0
	o.Hook, o.Last, o.Sending, o.NotBefore, o.failing = r.Uint(), r.Uint(), r.Uint(), int64(r.Uint()), r.Uint()
	o.Queue = decodeQueue(&r)
	at := uint64(0)
	for n := r.Uint(); n > 0 && !r.Bad; n-- {
		at += r.Uint()
		o.begun = append(o.begun, int64(at))
	}
	if err := r.Done("outbox row"); err != nil {
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
