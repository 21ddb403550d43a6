package fsm

import "math"

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

// readyAt returns from when on a delivery can be attempted as far as it itself and
// its sender are concerned. A probe is sooner than its own turn.
func (o *outbox) readyAt(q queued, opens map[senderGroup]int64) int64 {
	if o.down() {
		return opens[q.from]
	}
	return max(opens[q.from], q.ready)
}

// next returns where the delivery stands in the queue that is to be attempted at
// an instant; -1: none is. It is the oldest of those whose turn it is. To a
// receiver that is down it is the best probe.
func (o *outbox) next(now int64) int {
	if now < o.notBefore {
		return -1
	}
	use := useOf(o.lately(now))
	best := -1
	for i, q := range o.queue {
		if !use.room(q.from) {
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

// probesBefore reports whether a delivery is a better probe than an older one. Those
// that have not failed yet come first, of the sender with the fewest attempts lately.
// The others take turns: the receiver may be down because of one that it never takes.
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

// turn is a delivery that is to be attempted next, and from when on.
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

// begin counts an attempt that begins, and leaves it to its holder for a while.
func (o *outbox) begin(i int, now int64) {
	q := o.queue[i]
	o.sending, o.tried = q.number, q.number
	o.notBefore = now + DeliveryLease
	o.begun = append(o.lately(now), begunAttempt{now, q.from})
}

// taken notes that the receiver took a delivery. Those whose turn was while it was
// down have it again at once: they failed for that reason. The others keep to their
// turns: the receiver may be down because it does not take them.
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

// refused notes that the receiver did not take a delivery, given whether it was its
// own turn and how long a pause takes.
func (o *outbox) refused(q *queued, turn bool, now int64, wait func(pause int64) int64) {
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

// renew makes it the turn of all that waits: the receiver is another one.
func (o *outbox) renew(now int64) {
	for i := range o.queue {
		q := &o.queue[i]
		q.ready, q.failed, q.outage = 0, false, false
	}
	o.failing = 0
	o.probe(now)
}

// probe lets the next attempt begin at once, unless one is under way.
func (o *outbox) probe(now int64) {
	if o.sending == 0 {
		o.notBefore = now
	}
}
