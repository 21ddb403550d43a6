package outbox

import (
	"cmp"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

const (
	// DownAfter is the number of failures in a row after which a receiver counts as down: then
	// attempts pause. Of one delivery only the first failure counts.
	DownAfter = 3
	// firstPause is the first such pause, in milliseconds. It doubles each time.
	firstPause int64 = 5_000
	// MaxPause bounds that pause.
	MaxPause   int64 = 10 * 60_000
	maxDoubles       = 7 // firstPause << 7 is more than MaxPause
)

// Turn is the delivery to attempt next, and the earliest time for it.
type Turn struct {
	Number uint64 // 0 if the queue is empty
	at     int64  // milliseconds since the epoch; 0 while it is being sent
}

// down reports whether the receiver counts as down, see DownAfter.
func (o *Outbox) down() bool { return o.failing >= DownAfter }

// Due returns the earliest time of an attempt, in milliseconds since the epoch, or 0.
func (o *Outbox) Due() int64 {
	if len(o.Queue) == 0 || o.Paused {
		return 0
	}
	at := slices.MinFunc(o.Queue, func(a, b Queued) int { return cmp.Compare(a.Ready, b.Ready) }).Ready
	if full := len(o.begun) - command.MaxHourlyDeliveries; full >= 0 {
		at = max(at, o.begun[full]+command.HourMillis)
	}
	return max(at, o.NotBefore)
}

// Next returns the index of the delivery to attempt at an instant, or -1: the oldest that is
// ready, those of proven names first.
func (o *Outbox) Next(now int64) int {
	best := -1
	if o.Paused || now < o.Due() {
		return best
	}
	for i, q := range o.Queue {
		if q.Ready <= now && (best < 0 || o.before(q, o.Queue[best])) {
			best = i
		}
	}
	return best
}

// before reports whether a delivery goes before an older one that is ready, too. While the
// receiver is down, perhaps because of those that failed, one that did not fail yet does.
func (o *Outbox) before(q, older Queued) bool {
	if q.Proven != older.Proven {
		return q.Proven
	}
	return o.down() && q.Ready < older.Ready
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
	o.Sending = o.Queue[i].Number
	o.NotBefore = now + DeliveryLease
	o.begun = append(slices.DeleteFunc(o.begun, func(at int64) bool { return at <= now-command.HourMillis }), now)
}

// Taken notes that the receiver took a delivery. If it was down, all others are ready.
func (o *Outbox) Taken(now int64) {
	if o.down() {
		o.ready()
	}
	o.failing, o.NotBefore = 0, now
}

// Rejected notes a failure, a delivery's first one or not; wait returns the length of a pause.
func (o *Outbox) Rejected(first bool, now int64, wait func(pause int64) int64) {
	if first || o.down() {
		o.failing++
	}
	o.NotBefore = now
	if o.down() {
		o.NotBefore += wait(min(firstPause<<min(o.failing-DownAfter, maxDoubles), MaxPause))
	}
}

// Renew makes all waiting deliveries ready: the receiver has changed.
func (o *Outbox) Renew(now int64) {
	o.ready()
	o.failing = 0
	o.Probe(now)
}

func (o *Outbox) ready() {
	for i := range o.Queue {
		o.Queue[i].Ready = 0
	}
}

// Probe lets the next attempt begin immediately, unless one is under way.
func (o *Outbox) Probe(now int64) {
	if o.Sending == 0 {
		o.NotBefore = now
	}
}

// Surplus returns the index of the delivery to drop from a queue that is too long: the newest
// under a name that is not proven, else the newest. One that is being sent stays.
func (o *Outbox) Surplus() int {
	for i, q := range slices.Backward(o.Queue) {
		if !q.Proven && q.Number != o.Sending {
			return i
		}
	}
	return len(o.Queue) - 1
}
