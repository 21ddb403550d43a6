package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

const (
	// downAfter is how many different deliveries have failed in a row when a
	// receiver counts as down: then all wait, and one at a time probes.
	downAfter = 3
	// firstProbePause and maxProbePause bound the pause before a probe, which
	// doubles from one to the next; in milliseconds.
	firstProbePause int64 = 5_000
	maxProbePause   int64 = 10 * 60_000
	maxProbeDoubles       = 7 // firstProbePause << 7 is more than maxProbePause
)

// down reports whether the receiver takes nothing, as far as is known.
func (o *outbox) down() bool { return o.failing >= downAfter }

// probePause returns the pause before the next probe, in milliseconds.
func (o *outbox) probePause() int64 {
	return min(firstProbePause<<min(o.failing-downAfter, maxProbeDoubles), maxProbePause)
}

// due returns from when on an attempt can begin, in milliseconds since the epoch;
// 0 when nothing waits.
func (o *outbox) due() int64 {
	if len(o.queue) == 0 {
		return 0
	}
	opens := o.opens()
	first := int64(math.MaxInt64)
	for _, q := range o.queue {
		first = min(first, o.readyAt(q, opens))
	}
	return max(first, o.notBefore)
}

// readyAt returns from when on the delivery's own turn and its sender's share allow an
// attempt. A probe need not wait for the delivery's turn, unless it is the digest that
// still takes mentions until then.
func (o *outbox) readyAt(q queued, opens map[senderGroup]int64) int64 {
	if o.down() && q.number != o.digest {
		return opens[q.from]
	}
	return max(opens[q.from], q.ready)
}

// next returns the index in the queue of the delivery to attempt at an instant; -1: no
// attempt may begin. It is the oldest delivery whose turn has come. When the receiver
// is down it is the best probe.
func (o *outbox) next(now int64) int {
	if now < o.notBefore {
		return -1
	}
	use := useOf(o.lately(now))
	best := -1
	for i, q := range o.queue {
		if !use.room(q.from) || q.number == o.digest && q.ready > now {
			continue
		}
		if !o.down() {
			if q.ready <= now {
				return i
			}
			continue
		}
		if best < 0 || o.probesBefore(q, o.queue[best], use) {
			best = i
		}
	}
	return best
}

// probesBefore reports whether a delivery is a better probe than an older one.
// Deliveries that have not failed yet come first, those of the sender with the fewest
// recent attempts before others. The rest take turns: the receiver may be down because
// of one delivery that it never takes.
func (o *outbox) probesBefore(q, older queued, use hourUse) bool {
	switch {
	case q.ready == 0 && older.ready == 0:
		return use.by[q.from] < use.by[older.from]
	case q.ready == 0 || older.ready == 0:
		return q.ready == 0
	default:
		return q.number > o.tried && older.number <= o.tried
	}
}

// turn is the delivery to attempt next, and the earliest time for it.
type turn struct {
	number uint64 // 0: none waits
	at     int64  // milliseconds since the epoch; 0: it is being sent
}

// turn returns the delivery that is being sent, or the next one.
func (o *outbox) turn(now int64) turn {
	if o.sending != 0 || len(o.queue) == 0 {
		return turn{number: o.sending}
	}
	at := o.due()
	return turn{o.queue[o.next(max(at, now))].number, at}
}

// begin counts an attempt that begins, and blocks others for as long as DeliveryLease.
func (o *outbox) begin(i int, now int64) {
	q := o.queue[i]
	o.sending, o.tried = q.number, q.number
	if o.digest == q.number {
		o.digest = 0 // what is sent stays as it is
	}
	o.notBefore = now + DeliveryLease
	o.begun = append(o.lately(now), begunAttempt{now, q.from})
}

// taken notes that the receiver took a delivery. Deliveries whose last turn was while
// it was down get a new turn immediately: the outage made them fail. The others keep
// their turns: the receiver may have been down because it does not take them.
func (o *outbox) taken(now int64) {
	for i := range o.queue {
		q := &o.queue[i]
		if q.outage {
			q.ready = 0
		}
		q.failed, q.outage = false, false
	}
	o.failing, o.notBefore = 0, now
}

// rejected notes that the receiver did not take a delivery. turn says whether it was the
// delivery's own turn; wait returns how long a pause lasts.
func (o *outbox) rejected(q *queued, turn bool, now int64, wait func(pause int64) int64) {
	if turn {
		q.outage = o.down()
	}
	if !q.failed || o.down() {
		o.failing++
	}
	q.failed = true
	o.notBefore = now
	if o.down() {
		o.notBefore += wait(o.probePause())
	}
}

// renew makes it the turn of all waiting deliveries: the receiver has changed.
func (o *outbox) renew(now int64) {
	for i := range o.queue {
		q := &o.queue[i]
		q.ready, q.failed, q.outage = 0, false, false
	}
	o.failing = 0
	o.probe(now)
}

// probe lets the next attempt begin immediately, unless one is under way.
func (o *outbox) probe(now int64) {
	if o.sending == 0 {
		o.notBefore = now
	}
}

const (
	// senderShare bounds one sender's part of a receiver's hour: an attempt may begin
	// while the sender has made fewer than senderShare times the attempts that the hour
	// has left. One sender alone gets 25 of 30, so a second sender always finds room.
	senderShare = 5
	// unprovenShare bounds the part of all unproven senders together in the same
	// way: 27 of 30.
	unprovenShare = 9
)

// senderGroup identifies the sender of the writes that lead to deliveries, where senders
// share a receiver: a hash of the name when it is proven, else of the fingerprint of the
// sender's address. The lowest bit says that it is proven. The hash is such that a
// sender cannot choose a name or address to land in another's group.
type senderGroup uint64

const provenBit senderGroup = 1

func provenSender(agentKey string) senderGroup { return hashSender(agentKey) | provenBit }

func unprovenSender(fingerprint string) senderGroup { return hashSender(fingerprint) &^ provenBit }

func hashSender(s string) senderGroup {
	sum := sha256.Sum256([]byte(s))
	return senderGroup(binary.LittleEndian.Uint64(sum[:]))
}

func (g senderGroup) proven() bool { return g&provenBit != 0 }

// begunAttempt is an attempt that counts in its receiver's hour.
type begunAttempt struct {
	at   int64 // milliseconds since the epoch
	from senderGroup
}

// hourUse is what senders have used of a receiver's hour.
type hourUse struct {
	by       map[senderGroup]int
	unproven int // of by
	free     int
}

// useOf counts the attempts of an hour.
func useOf(attempts []begunAttempt) hourUse {
	u := hourUse{by: make(map[senderGroup]int), free: command.MaxHourlyDeliveries}
	for _, b := range attempts {
		u.count(b.from, 1)
	}
	return u
}

// count adds attempts, or subtracts them when n is negative.
func (u *hourUse) count(from senderGroup, n int) {
	u.by[from] += n
	u.free -= n
	if !from.proven() {
		u.unproven += n
	}
}

// room reports whether one more attempt may begin for a sender.
func (u *hourUse) room(from senderGroup) bool {
	return u.by[from] < senderShare*u.free && (from.proven() || u.unproven < unprovenShare*u.free)
}

// lately are the attempts that still count at an instant.
func (o *outbox) lately(now int64) []begunAttempt {
	i := slices.IndexFunc(o.begun, func(b begunAttempt) bool { return b.at > now-hourMillis })
	if i < 0 {
		return nil
	}
	return o.begun[i:]
}

// opens returns from when on the hour has room for each of the senders in the
// queue, in milliseconds since the epoch; 0: at any time.
func (o *outbox) opens() map[senderGroup]int64 {
	at := make(map[senderGroup]int64)
	use := useOf(o.begun)
	var closed []senderGroup
	for _, q := range o.queue {
		if _, seen := at[q.from]; seen {
			continue
		}
		at[q.from] = 0
		if !use.room(q.from) {
			closed = append(closed, q.from)
		}
	}
	for i := 0; len(closed) > 0; i++ {
		use.count(o.begun[i].from, -1)
		closed = slices.DeleteFunc(closed, func(from senderGroup) bool {
			if !use.room(from) {
				return false
			}
			at[from] = o.begun[i].at + hourMillis
			return true
		})
	}
	return at
}

// surplus returns the index of the item to drop from a queue, or a digest's list, that is
// too long: the newest item of the sender with the most. When more than half are from
// unproven senders, it is one of theirs; on a tie, too. An item being sent stays.
func surplus(queue []queued, sending uint64) int {
	waiting := make(map[senderGroup]int)
	unproven := 0
	for _, q := range queue {
		waiting[q.from]++
		if !q.from.proven() {
			unproven++
		}
	}
	worst := -1
	for i, q := range slices.Backward(queue) {
		if q.number == sending || unproven > len(queue)/2 && q.from.proven() {
			continue
		}
		if worst < 0 {
			worst = i
			continue
		}
		most := queue[worst].from
		if n, m := waiting[q.from], waiting[most]; n > m || n == m && most.proven() && !q.from.proven() {
			worst = i
		}
	}
	return worst
}
