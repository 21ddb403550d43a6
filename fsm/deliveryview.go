package fsm

import (
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// Delivery is one entry on its way to one agent's receiver.
type Delivery struct {
	AgentKey string // folded name of the agent
	Number   uint64 // among the agent's deliveries, from 1
	// ID is the webhook-id: the same for every attempt, and for no other delivery.
	ID        string
	Kind      DeliveryKind
	Status    DeliveryStatus
	Entry     uint64 // seq; 0: none
	QueuedAt  int64  // milliseconds since the epoch
	ChangedAt int64  // of the status; the same
	NextAt    int64  // the next attempt is not before this; the same; 0: there is none, or it waits behind others
	Attempts  uint64 // that have begun
	Failures  uint64 // those of them in its own turn that the receiver of the newest did not take
	Reason    string // of the newest failure, or of the end; "": none
	// Mentions is how many mentions a digest took, and Listed the seqs of those of them
	// that it lists, oldest first.
	Mentions uint64
	Listed   []uint64
	// URL is the receiver's address: only set in a delivery that is to be sent. It is never
	// shown.
	URL string
}

// NextAttempt names the attempt that can follow.
func (d *Delivery) NextAttempt() command.Attempt {
	return command.Attempt{AgentKey: d.AgentKey, Delivery: d.Number, Number: d.Attempts + 1}
}

// appendDeliveryID appends the webhook-id of a delivery. The instant makes it
// differ from the id that a cluster restored from a backup gives to the same number.
func appendDeliveryID(dst []byte, p *profileRow, number uint64, queuedAt int64) []byte {
	dst = appendID(dst, 'w', p.first)
	return appendID(appendID(dst, '-', number), '-', uint64(queuedAt))
}

// show returns the public form of a delivery, given the outbox.
func (d *deliveryRow) show(p *profileRow, agentKey string, o *outbox, next turn, number uint64) Delivery {
	shown := Delivery{
		AgentKey: agentKey, Number: number, ID: string(appendDeliveryID(nil, p, number, d.queuedAt)),
		Kind: d.kind, Status: d.status, Entry: d.entry, QueuedAt: d.queuedAt, ChangedAt: d.changedAt,
		Attempts: d.attempts, Failures: d.failures, Reason: d.reason, Mentions: d.mentions,
	}
	for _, q := range d.listed {
		shown.Listed = append(shown.Listed, q.number)
	}
	if i, waits := o.find(number); waits && number != o.sending {
		switch {
		case number == next.number:
			shown.NextAt = next.at
		case o.queue[i].ready != 0 && !o.down():
			shown.NextAt = max(o.queue[i].ready, next.at)
		}
	}
	return shown
}

// queuedDelivery returns a delivery of an agent's queue, to be sent, and its row; false
// if the agent has no profile any more.
func (v *View) queuedDelivery(agentKey string, o *outbox, number uint64) (Delivery, deliveryRow, bool, error) {
	p, known, err := v.profile(agentKey)
	if err != nil || !known {
		return Delivery{}, deliveryRow{}, false, err
	}
	row, err := v.waitingDelivery(agentKey, number)
	if err != nil {
		return Delivery{}, deliveryRow{}, false, err
	}
	d := row.show(&p, agentKey, o, turn{}, number)
	d.URL = p.notifyURL
	return d, row, true, nil
}

// waitingDelivery returns the row of a waiting delivery, which must exist.
func (v *View) waitingDelivery(agentKey string, number uint64) (deliveryRow, error) {
	row, ok, err := loadDelivery(v.snap, agentKey, number)
	if err == nil && !ok {
		err = fmt.Errorf("%w: delivery %d of %q is missing", ErrCorrupt, number, agentKey)
	}
	return row, err
}

// dueDelivery returns the delivery of an agent that can be attempted at an instant;
// false when there is none.
func (v *View) dueDelivery(agentKey string, now int64) (Delivery, bool, error) {
	o, err := loadOutbox(v.snap, agentKey)
	if err != nil {
		return Delivery{}, false, err
	}
	i := o.next(now)
	if i < 0 {
		return Delivery{}, false, nil
	}
	d, _, ok, err := v.queuedDelivery(agentKey, o, o.queue[i].number)
	return d, ok, err
}

// DueDeliveries calls send with the deliveries that can be attempted at an instant, in
// milliseconds since the epoch, the longest due first, until send stops it. There is at
// most one for each agent; those of skipped agents are not read. If the instant is
// behind log time, the instant of the next log entry counts.
func (v *View) DueDeliveries(now int64, skip func(agentKey string) bool, send func(Delivery) (more bool)) error {
	now = max(now, v.head.now+1)
	err := scanOutboxes(v.snap, func(at int64, agentKey string) error {
		if at > now {
			return errEnough
		}
		if skip(agentKey) {
			return nil
		}
		d, ok, err := v.dueDelivery(agentKey, now)
		if err == nil && ok && !send(d) {
			return errEnough
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list due deliveries: %w", err)
	}
	return nil
}

// NextDelivery returns when the next delivery is due, in milliseconds since the epoch;
// 0 if the next log entry can already begin it, and false if nothing waits.
func (v *View) NextDelivery() (at int64, ok bool, err error) {
	err = scanOutboxes(v.snap, func(due int64, _ string) error {
		at, ok = due, true
		return errEnough
	})
	if at <= v.head.now+1 {
		at = 0
	}
	return at, ok, err
}

// scanOutboxes calls f with the agents for which deliveries wait, in the order in
// which they are due, until f returns an error.
func scanOutboxes(r pebble.Reader, f func(at int64, agentKey string) error) error {
	lower, upper := spaceBounds(spaceOutboxDue)
	return scanSpace(r, lower, upper, func(key, _ []byte) error {
		if len(key) < outboxDueKeyBytes {
			return fmt.Errorf("%w: key of a due outbox", ErrCorrupt)
		}
		return f(int64(seqOfKey(key)), string(key[outboxDueKeyBytes:]))
	})
}

// Begun returns the delivery of an attempt that a BeginDeliveries of this holder
// has begun and that has no outcome yet; false when it is not to be sent.
func (v *View) Begun(holder command.BootID, a command.Attempt) (Delivery, bool, error) {
	o, err := loadOutbox(v.snap, a.AgentKey)
	if err != nil || o.sending != a.Delivery {
		return Delivery{}, false, err
	}
	d, row, ok, err := v.queuedDelivery(a.AgentKey, o, a.Delivery)
	return d, ok && row.attempts == a.Number && row.holder == holder, err
}

// Delivery returns a delivery of an agent; false when it is not kept any more.
func (v *View) Delivery(agentKey string, number uint64) (Delivery, bool, error) {
	p, known, err := v.profile(agentKey)
	if err != nil || !known {
		return Delivery{}, false, err
	}
	o, err := loadOutbox(v.snap, agentKey)
	if err != nil {
		return Delivery{}, false, err
	}
	row, ok, err := loadDelivery(v.snap, agentKey, number)
	if err != nil || !ok {
		return Delivery{}, false, err
	}
	return row.show(&p, agentKey, o, o.turn(v.head.now), number), true, nil
}

// Outbox is what an agent sees of its deliveries.
type Outbox struct {
	Active  bool               // the agent has a receiver
	Filter  command.PushFilter // what is not pushed there
	Waiting int                // how many deliveries wait or are being sent
	// Newest are the newest deliveries, at most MaxListedDeliveries, newest first.
	Newest []Delivery
	// First is the delivery that is being sent, or the next one; nil when none waits.
	First *Delivery
}

// Outbox returns an agent's deliveries. It returns ErrNotFound when the agent has
// no profile.
func (v *View) Outbox(agentKey string) (Outbox, error) {
	p, known, err := v.profile(agentKey)
	if err != nil {
		return Outbox{}, err
	}
	if !known {
		return Outbox{}, ErrNotFound
	}
	o, err := loadOutbox(v.snap, agentKey)
	if err != nil {
		return Outbox{}, err
	}
	out := Outbox{Active: o.active, Filter: p.filter, Waiting: len(o.queue)}
	next := o.turn(v.head.now)
	for n := o.last; n > 0 && n+command.MaxListedDeliveries > o.last; n-- {
		row, ok, err := loadDelivery(v.snap, agentKey, n)
		if err != nil {
			return Outbox{}, err
		}
		if ok {
			out.Newest = append(out.Newest, row.show(&p, agentKey, o, next, n))
		}
	}
	if next.number == 0 {
		return out, nil
	}
	row, err := v.waitingDelivery(agentKey, next.number)
	if err != nil {
		return Outbox{}, err
	}
	first := row.show(&p, agentKey, o, next, next.number)
	out.First = &first
	return out, nil
}

// WaitingDeliveries returns how many deliveries wait for all agents together.
func (v *View) WaitingDeliveries() (int, error) {
	n, _, err := load(v.snap, keyWaiting, decodeNumber)
	return int(min(n, math.MaxInt)), err
}

// Hooked reports whether deliveries of an agent go to this URL already: it has
// passed the check.
func (v *View) Hooked(agentKey, notifyURL string) (bool, error) {
	p, known, err := v.profile(agentKey)
	return known && p.hooked() && p.notifyURL == notifyURL, err
}
