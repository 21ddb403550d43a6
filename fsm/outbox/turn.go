package outbox

import (
	"math"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// down reports whether the receiver counts as down, see DownAfter.
func (o *Outbox) down() bool { return o.failing >= DownAfter }

// Due returns the earliest time of an attempt, in milliseconds since the epoch, or 0.
func (o *Outbox) Due() int64 {
	if len(o.Queue) == 0 || o.Paused {
		return 0
	}
	opens := o.opens()
	first := int64(math.MaxInt64)
	for _, q := range o.Queue {
		at := opens[q.From]
		if !o.down() { // a probe need not wait for its own turn
			at = max(at, q.Ready)
		}
		first = min(first, at)
	}
	return max(first, o.NotBefore)
}

// Next returns the index of the delivery to attempt at an instant, or -1. It is the oldest
// delivery whose turn has come, or the best probe while the receiver is down.
func (o *Outbox) Next(now int64) int {
	if now < o.NotBefore || o.Paused {
		return -1
	}
	use := useOf(o.lately(now))
	best := -1
	for i, q := range o.Queue {
		if !use.room(q.From) {
			continue
		}
		if !o.down() {
			if q.Ready <= now {
				return i
			}
			continue
		}
		if best < 0 || o.probesBefore(q, o.Queue[best], use) {
			best = i
		}
	}
	return best
}

// probesBefore reports whether a delivery is a better probe than an older one.
// Deliveries that have not failed yet come first, those of the sender with the fewest
// recent attempts before others. The rest take turns: the receiver may be down because
// of one delivery that it never takes.
func (o *Outbox) probesBefore(q, older Queued, use hourUse) bool {
	switch {
	case q.Ready == 0 && older.Ready == 0:
		return use.by[q.From] < use.by[older.From]
	case q.Ready == 0 || older.Ready == 0:
		return q.Ready == 0
	default:
		return q.Number > o.tried && older.Number <= o.tried
	}
}

// Turn returns the delivery that is being sent, or the next one.
func (o *Outbox) Turn(now int64) Turn {
	if o.Sending != 0 || len(o.Queue) == 0 || o.Paused {
		return Turn{Number: o.Sending}
	}
	at := o.Due()
	return Turn{o.Queue[o.Next(max(at, now))].Number, at}
}

// Begin counts an attempt that begins, and blocks others for as long as DeliveryLease.
func (o *Outbox) Begin(i int, now int64) {
	q := o.Queue[i]
	o.Sending, o.tried = q.Number, q.Number
	o.NotBefore = now + DeliveryLease
	o.begun = append(o.lately(now), begunAttempt{now, q.From})
}

// Taken notes that the receiver took a delivery. Deliveries whose last turn was while
// it was down get a new turn immediately: the outage made them fail. The others keep
// their turns: the receiver may have been down because it does not take them.
func (o *Outbox) Taken(now int64) {
	for i := range o.Queue {
		q := &o.Queue[i]
		if q.outage {
			q.Ready = 0
		}
		q.failed, q.outage = false, false
	}
	o.failing, o.NotBefore = 0, now
}

// Rejected notes a failure, in the delivery's own turn or not; wait returns the length of a
// pause.
func (o *Outbox) Rejected(q *Queued, turn bool, now int64, wait func(pause int64) int64) {
	if turn {
		q.outage = o.down()
	}
	if !q.failed || o.down() {
		o.failing++
	}
	q.failed = true
	o.NotBefore = now
	if o.down() {
		o.NotBefore += wait(min(firstProbePause<<min(o.failing-DownAfter, maxProbeDoubles), MaxProbePause))
	}
}

// Renew makes it the turn of all waiting deliveries: the receiver has changed.
func (o *Outbox) Renew(now int64) {
	for i := range o.Queue {
		q := &o.Queue[i]
		q.Ready, q.failed, q.outage = 0, false, false
	}
	o.failing = 0
	o.Probe(now)
}

// Probe lets the next attempt begin immediately, unless one is under way.
func (o *Outbox) Probe(now int64) {
	if o.Sending == 0 {
		o.NotBefore = now
	}
}

// lately are the attempts that still count at an instant.
func (o *Outbox) lately(now int64) []begunAttempt {
	i := slices.IndexFunc(o.begun, func(b begunAttempt) bool { return b.at > now-command.HourMillis })
	if i < 0 {
		return nil
	}
	return o.begun[i:]
}

// opens returns when the hour has room for each sender in the queue; 0 means now.
func (o *Outbox) opens() map[state.SenderGroup]int64 {
	at := make(map[state.SenderGroup]int64)
	use := useOf(o.begun)
	var closed []state.SenderGroup
	for _, q := range o.Queue {
		if _, seen := at[q.From]; seen {
			continue
		}
		at[q.From] = 0
		if !use.room(q.From) {
			closed = append(closed, q.From)
		}
	}
	for i := 0; len(closed) > 0; i++ {
		use.count(o.begun[i].from, -1)
		closed = slices.DeleteFunc(closed, func(from state.SenderGroup) bool {
			if !use.room(from) {
				return false
			}
			at[from] = o.begun[i].at + command.HourMillis
			return true
		})
	}
	return at
}

const (
	// DownAfter is the number of different deliveries that fail in a row before a
	// receiver counts as down: then all wait, and one at a time probes.
	DownAfter = 3
	// firstProbePause is the pause before the first probe, in milliseconds. It doubles each
	// time.
	firstProbePause int64 = 5_000
	// MaxProbePause bounds that pause.
	MaxProbePause   int64 = 10 * 60_000
	maxProbeDoubles       = 7 // firstProbePause << 7 is more than MaxProbePause
)

// Turn is the delivery to attempt next, and the earliest time for it.
type Turn struct {
	Number uint64 // 0 if the queue is empty
	at     int64  // milliseconds since the epoch; 0 while it is being sent
}

const (
	// senderShare bounds one sender's part of a receiver's hour: an attempt may begin
	// while the sender has made fewer than senderShare times the attempts that the hour
	// has left. One sender alone gets 25 of 30, so a second sender always finds room.
	senderShare = 5
	// unprovenShare bounds the part of all unproven senders in the same way: 27 of 30.
	unprovenShare = 9
)

// begunAttempt is an attempt that counts in its receiver's hour.
type begunAttempt struct {
	at   int64 // milliseconds since the epoch
	from state.SenderGroup
}

// hourUse is the used part of a receiver's hourly attempts.
type hourUse struct {
	by       map[state.SenderGroup]int
	unproven int // of by
	free     int
}

// useOf counts the attempts of an hour.
func useOf(attempts []begunAttempt) hourUse {
	u := hourUse{by: make(map[state.SenderGroup]int), free: command.MaxHourlyDeliveries}
	for _, b := range attempts {
		u.count(b.from, 1)
	}
	return u
}

// count adds attempts, or subtracts them when n is negative.
func (u *hourUse) count(from state.SenderGroup, n int) {
	u.by[from] += n
	u.free -= n
	if !from.Proven() {
		u.unproven += n
	}
}

// room reports whether one more attempt may begin for a sender.
func (u *hourUse) room(from state.SenderGroup) bool {
	return u.by[from] < senderShare*u.free && (from.Proven() || u.unproven < unprovenShare*u.free)
}

// Surplus returns the index of the item to drop from a queue that is too long: the newest item of the sender with the most. When more than half are from
// unproven senders, it is one of theirs; on a tie, too. An item being sent stays.
func Surplus(queue []Queued, sending uint64) int {
	waiting := make(map[state.SenderGroup]int)
	unproven := 0
	for _, q := range queue {
		waiting[q.From]++
		if !q.From.Proven() {
			unproven++
		}
	}
	worst := -1
	for i, q := range slices.Backward(queue) {
		if q.Number == sending || unproven > len(queue)/2 && q.From.Proven() {
			continue
		}
		if worst < 0 {
			worst = i
			continue
		}
		most := queue[worst].From
		if n, m := waiting[q.From], waiting[most]; n > m || n == m && most.Proven() && !q.From.Proven() {
			worst = i
		}
	}
	return worst
}
