package fsm

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// outboxesKept bounds the outboxes that are kept in caches: up to 7 KiB each.
const outboxesKept = 1024

// outbox holds what is to be pushed to an agent, and when earlier attempts began: the
// row of spaceOutbox. It is never deleted, so that no number is used again.
//
//	version1 flags1 filter1 [digest] hook last sending notBefore tried failing len(queue) queue... len(begun) begun...
//
// The digest is there when its flag is set. Numbers are uvarints, in queue and begun
// too: there, delivery numbers and begun instants are differences from the one before,
// and senders take 8 bytes. The two lowest bits of a delivery's ready are its failed
// and its outage.
type outbox struct {
	active    bool               // the agent has a receiver that passed the check
	filter    command.PushFilter // of the agent's profile, while it is active
	hook      uint64             // counts the changes of the receiver
	last      uint64             // number of the newest delivery; they count from 1
	queue     []queued           // the deliveries that wait, oldest first
	digest    uint64             // number of the one that takes mentions until its turn; 0: none
	sending   uint64             // number of the one with an attempt under way; 0: none
	notBefore int64              // no attempt begins sooner; milliseconds since the epoch
	tried     uint64             // number of the one that was attempted last
	failing   uint64             // how far the receiver is from well, see failed
	begun     []begunAttempt     // the attempts of the last hour, oldest first; at most MaxHourlyDeliveries

	dueAt int64 // the instant of the agent in spaceOutboxDue; 0: it is not there
}

// queued is a delivery that waits or is being sent, or an entry in a digest.
type queued struct {
	number uint64
	from   senderGroup
	ready  int64 // its own turn is no sooner; milliseconds since the epoch; 0: it never failed, and is no digest
	failed bool  // since the receiver took one last
	outage bool  // its turn since then was one while the receiver was down
}

const (
	outboxRowVersion = 1
	flagHookActive   = 1 << 0
	flagDigest       = 1 << 1
	flagFailed       = 1 << 0 // of a delivery in the queue
	flagOutage       = 1 << 1
	queuedFlagBits   = 2
)

func (o *outbox) encode() []byte {
	dst := []byte{outboxRowVersion, bit(o.active, flagHookActive) | bit(o.digest != 0, flagDigest), byte(o.filter)}
	if o.digest != 0 {
		dst = binary.AppendUvarint(dst, o.digest)
	}
	dst = appendUints(dst, o.hook, o.last, o.sending, uint64(o.notBefore), o.tried, o.failing)
	dst = binary.AppendUvarint(appendQueue(dst, o.queue), uint64(len(o.begun)))
	before := uint64(0)
	for _, b := range o.begun {
		dst = binary.AppendUvarint(dst, uint64(b.at)-before)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(b.from))
		before = uint64(b.at)
	}
	return dst
}

func appendQueue(dst []byte, queue []queued) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(queue)))
	before := uint64(0)
	for _, q := range queue {
		ready := uint64(q.ready)<<queuedFlagBits | uint64(bit(q.failed, flagFailed)|bit(q.outage, flagOutage))
		dst = binary.AppendUvarint(dst, q.number-before)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(q.from))
		dst = binary.AppendUvarint(dst, ready)
		before = q.number
	}
	return dst
}

func (r *rowReader) queue() (queue []queued) {
	number := uint64(0)
	for n := r.uint(); n > 0 && !r.bad; n-- {
		number += r.uint()
		q := queued{number: number, from: r.sender()}
		ready := r.uint()
		q.ready, q.failed, q.outage = int64(ready>>queuedFlagBits), ready&flagFailed != 0, ready&flagOutage != 0
		queue = append(queue, q)
	}
	return queue
}

func decodeOutbox(row []byte) (*outbox, error) {
	r := rowReader{rest: row}
	o := new(outbox)
	r.version(outboxRowVersion)
	flags := r.byte()
	o.active, o.filter = flags&flagHookActive != 0, command.PushFilter(r.byte())
	if flags&flagDigest != 0 {
		o.digest = r.uint()
	}
	o.hook, o.last, o.sending, o.notBefore, o.tried, o.failing = r.uint(), r.uint(), r.uint(), int64(r.uint()), r.uint(), r.uint()
	o.queue = r.queue()
	at := uint64(0)
	for n := r.uint(); n > 0 && !r.bad; n-- {
		at += r.uint()
		o.begun = append(o.begun, begunAttempt{int64(at), r.sender()})
	}
	if err := r.done("outbox row"); err != nil {
		return nil, err
	}
	o.dueAt = o.due()
	return o, nil
}

func (r *rowReader) sender() senderGroup {
	b := r.bytes(8)
	if b == nil {
		return 0
	}
	return senderGroup(binary.LittleEndian.Uint64(b))
}

// find returns the index of a delivery in the queue; false when it is not there.
func (o *outbox) find(number uint64) (int, bool) {
	return slices.BinarySearchFunc(o.queue, number, func(q queued, number uint64) int { return cmp.Compare(q.number, number) })
}

// loadOutbox reads an agent's outbox; an empty one when there is none.
func loadOutbox(r pebble.Reader, agentKey string) (*outbox, error) {
	o, ok, err := load(r, outboxKey(agentKey), decodeOutbox)
	if err != nil || !ok {
		return new(outbox), err
	}
	return o, nil
}

// outbox returns an agent's outbox, to be changed: it is written at the end of the
// call.
func (tx *txn) outbox(agentKey string) *outbox {
	return use(tx, &tx.caches.outboxes, tx.outboxes, agentKey, func() (*outbox, error) { return loadOutbox(tx.db, agentKey) })
}

// finishOutboxes writes the outboxes of the call.
func (tx *txn) finishOutboxes() {
	for agentKey, o := range tx.outboxes {
		if o.hook == 0 {
			continue // the agent never had a receiver
		}
		tx.set(outboxKey(agentKey), o.encode())
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

// hookSet holds the agents that have a receiver, and what is not pushed to each.
// Every agent that an entry concerns is looked up in it, so it is kept in memory; it
// belongs to the apply goroutine.
type hookSet map[string]command.PushFilter

// loadHooks returns the agents that have a receiver.
func loadHooks(r pebble.Reader) (hookSet, error) {
	hooks := make(hookSet)
	lower, upper := spaceBounds(spaceOutbox)
	err := scanSpace(r, lower, upper, func(key, row []byte) error {
		o, err := decodeOutbox(row)
		if err == nil && o.active {
			hooks[string(key[1:])] = o.filter
		}
		return err
	})
	return hooks, err
}

// followHook applies a change of an agent's profile to its outbox: waiting deliveries go
// to a new receiver immediately, and are dropped when there is no receiver any more.
func (tx *txn) followHook(agentKey string, old, next *profileFields) {
	other := old.hooked() != next.hooked() || old.notifyURL != next.notifyURL
	if !old.hooked() && !next.hooked() || !other && old.filter == next.filter {
		return
	}
	o := tx.outbox(agentKey)
	o.active = next.hooked()
	if !o.active {
		o.hook++
		delete(tx.caches.hooks, agentKey)
		tx.dropDeliveries(agentKey, o, ReasonHookOff)
		return
	}
	o.filter = next.filter
	tx.caches.hooks[agentKey] = next.filter
	if other {
		o.hook++
		o.renew(tx.now)
	}
}

// removeHook takes an agent's notify_url out of its profile.
func (tx *txn) removeHook(agentKey string, o *outbox) {
	o.hook++
	o.active = false
	delete(tx.caches.hooks, agentKey)
	tx.dropDeliveries(agentKey, o, ReasonHookGone)
	if p, known := tx.profile(agentKey); known {
		p.notifyURL, p.notifyVerified = "", false
		tx.putProfile(agentKey, &p)
	}
}
