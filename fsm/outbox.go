package fsm

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
)

// outboxesKept bounds the outboxes that are kept in memory: up to 2 KiB each.
const outboxesKept = 4096

// outbox is what is to be pushed to an agent, and when it was pushed to before:
// the row of spaceOutbox. It is kept for good, so that no number is used again.
//
//	version1 flags1 hook last nextAt len(queue) queue... len(begun) begun...
//
// Numbers are uvarints; queue and begun hold differences.
type outbox struct {
	active bool     // the agent has a receiver that passed the check
	hook   uint64   // counts the changes of the receiver
	last   uint64   // number of the newest delivery; they count from 1
	queue  []uint64 // numbers of the deliveries that wait, oldest first
	nextAt int64    // the first of them is attempted no sooner; milliseconds since the epoch
	begun  []int64  // when the newest attempts began, oldest first; at most MaxHourlyDeliveries

	dueAt int64 // under which instant the agent stands in spaceOutboxDue; 0: it does not
}

const (
	outboxRowVersion = 1
	flagHookActive   = 1 << 0
)

func (o *outbox) append(dst []byte) []byte {
	var flags byte
	if o.active {
		flags |= flagHookActive
	}
	dst = append(dst, outboxRowVersion, flags)
	for _, n := range [...]uint64{o.hook, o.last, uint64(o.nextAt), uint64(len(o.queue))} {
		dst = binary.AppendUvarint(dst, n)
	}
	before := uint64(0)
	for _, number := range o.queue {
		dst = binary.AppendUvarint(dst, number-before)
		before = number
	}
	dst = binary.AppendUvarint(dst, uint64(len(o.begun)))
	before = 0
	for _, at := range o.begun {
		dst = binary.AppendUvarint(dst, uint64(at)-before)
		before = uint64(at)
	}
	return dst
}

func decodeOutbox(row []byte) (*outbox, error) {
	r := rowReader{rest: row}
	o := new(outbox)
	if head := r.bytes(2); head != nil {
		r.bad = head[0] != outboxRowVersion
		o.active = head[1]&flagHookActive != 0
	}
	o.hook, o.last, o.nextAt = r.uint(), r.uint(), int64(r.uint())
	number := uint64(0)
	for n := r.uint(); n > 0 && !r.bad; n-- {
		number += r.uint()
		o.queue = append(o.queue, number)
	}
	at := uint64(0)
	for n := r.uint(); n > 0 && !r.bad; n-- {
		at += r.uint()
		o.begun = append(o.begun, int64(at))
	}
	o.dueAt = o.due()
	return o, r.done("outbox row")
}

// due returns from when on the first delivery of the queue may be attempted, in
// milliseconds since the epoch; 0 when none waits.
func (o *outbox) due() int64 {
	switch {
	case len(o.queue) == 0:
		return 0
	case len(o.begun) < MaxHourlyDeliveries:
		return o.nextAt
	}
	return max(o.nextAt, o.begun[0]+hourMillis)
}

// begin counts an attempt that begins.
func (o *outbox) begin(now int64) {
	o.begun = append(o.begun, now)
	o.begun = o.begun[max(0, len(o.begun)-MaxHourlyDeliveries):]
}

// waits reports whether a delivery is in the queue.
func (o *outbox) waits(number uint64) bool {
	for _, n := range o.queue {
		if n >= number {
			return n == number
		}
	}
	return false
}

// loadOutbox reads an agent's outbox; an empty one when there is none.
func loadOutbox(r pebble.Reader, agentKey string) (*outbox, error) {
	row, ok, err := getRow(r, outboxKey(agentKey))
	if err != nil || !ok {
		return new(outbox), err
	}
	return decodeOutbox(row)
}

// outbox returns an agent's outbox, to be changed: it is written at the end of the
// call.
func (tx *txn) outbox(agentKey string) *outbox {
	if o := tx.outboxes[agentKey]; o != nil {
		return o
	}
	o := tx.memory.outboxes.get(agentKey)
	if o == nil {
		var err error
		o, err = loadOutbox(tx.db, agentKey)
		tx.must(err)
		tx.memory.outboxes.put(agentKey, o)
	}
	tx.outboxes[agentKey] = o
	return o
}

// finishOutboxes writes the outboxes of the call.
func (tx *txn) finishOutboxes() {
	for agentKey, o := range tx.outboxes {
		if o.hook == 0 {
			continue // the agent never had a receiver
		}
		tx.set(outboxKey(agentKey), o.append(nil))
		due := o.due()
		if due == o.dueAt {
			continue
		}
		if o.dueAt != 0 {
			tx.del(outboxDueKey(o.dueAt, agentKey))
		}
		if due != 0 {
			tx.set(outboxDueKey(due, agentKey), nil)
		}
		o.dueAt = due
	}
}

// hookSet holds the agents that have a receiver. Everybody whom an entry concerns
// is looked up in it, so it is kept in memory; it belongs to the apply goroutine.
type hookSet map[string]struct{}

func (h hookSet) has(agentKey string) bool {
	_, ok := h[agentKey]
	return ok
}

// loadHooks returns the agents that have a receiver.
func loadHooks(r pebble.Reader) (hookSet, error) {
	hooks := make(hookSet)
	lower, upper := spaceBounds(spaceOutbox)
	err := scanSpace(r, lower, upper, func(key, row []byte) error {
		o, err := decodeOutbox(row)
		if err == nil && o.active {
			hooks[string(key[1:])] = struct{}{}
		}
		return err
	})
	return hooks, err
}

// followHook brings an agent's outbox up to a change of its profile: what waits
// goes to a new receiver at once, which has not failed yet, and nowhere when there
// is none any more.
func (tx *txn) followHook(agentKey string, old, next *profileFields) {
	if !old.hooked() && !next.hooked() || old.hooked() && next.hooked() && old.notifyURL == next.notifyURL {
		return
	}
	o := tx.outbox(agentKey)
	o.hook++
	o.active = next.hooked()
	if !o.active {
		delete(tx.memory.hooks, agentKey)
		tx.dropDeliveries(agentKey, o, ReasonHookOff)
		return
	}
	tx.memory.hooks[agentKey] = struct{}{}
	if len(o.queue) == 0 {
		return
	}
	first := tx.delivery(agentKey, o.queue[0])
	first.failures = 0
	tx.keepDelivery(agentKey, o.queue[0], &first)
	if first.status == DeliveryWaiting {
		o.nextAt = tx.now
	}
}

// removeHook takes an agent's notify_url out of its profile.
func (tx *txn) removeHook(agentKey string, o *outbox) {
	o.hook++
	o.active = false
	delete(tx.memory.hooks, agentKey)
	tx.dropDeliveries(agentKey, o, ReasonHookGone)
	if p, known := tx.profile(agentKey); known {
		p.notifyURL, p.notifyVerified = "", false
		tx.putProfile(agentKey, &p)
	}
}
