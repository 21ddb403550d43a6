package view

import (
	"cmp"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
)

// queuedDelivery returns a delivery as it is sent; false if the agent has no profile any more.
func (v *View) queuedDelivery(agentKey string, o *outbox.Outbox, number uint64) (d outbox.Delivery, known bool, err error) {
	p, known, err := v.profile(agentKey)
	if err != nil || !known {
		return d, false, err
	}
	row, err := v.WaitingDelivery(agentKey, number)
	d = row.Show(&p, agentKey, o, outbox.Turn{}, number)
	d.URL, d.Salt = p.NotifyURL, p.NotifySalt
	return d, err == nil, err
}

// WaitingDelivery returns the row of a waiting delivery, which must exist.
func (v *View) WaitingDelivery(agentKey string, number uint64) (outbox.DeliveryRow, error) {
	row, ok, err := outbox.LoadDelivery(v.snap, agentKey, number)
	if err == nil && !ok {
		err = fmt.Errorf("%w: delivery %d of %q is missing", state.ErrCorrupt, number, agentKey)
	}
	return row, err
}

// DueDeliveries calls send with the deliveries that are due at an instant, or at the next
// log entry if that is later, the longest due first, until send stops it. There is at most
// one for each agent; those of skipped agents are not read.
func (v *View) DueDeliveries(now int64, skip func(agentKey string) bool, send func(outbox.Delivery) (more bool)) error {
	now = max(now, v.at.Head.Now+1)
	return scanOutboxes(v.snap, func(at int64, agentKey string) error {
		if at > now {
			return state.ErrEnough
		}
		if skip(agentKey) {
			return nil
		}
		o, err := outbox.LoadOutbox(v.snap, agentKey)
		if err != nil {
			return err
		}
		i := o.Next(now)
		if i < 0 {
			return nil
		}
		d, ok, err := v.queuedDelivery(agentKey, o, o.Queue[i].Number)
		if err == nil && ok && !send(d) {
			return state.ErrEnough
		}
		return err
	})
}

// NextDelivery returns when the next delivery is due; 0 if the next log entry can begin it,
// and false if no delivery waits.
func (v *View) NextDelivery() (at int64, ok bool, err error) {
	err = scanOutboxes(v.snap, func(due int64, _ string) error {
		at, ok = due, true
		return state.ErrEnough
	})
	if at <= v.at.Head.Now+1 {
		at = 0
	}
	return at, ok, err
}

// scanOutboxes calls f with the agents by their due times, until f returns an error.
func scanOutboxes(r pebble.Reader, f func(at int64, agentKey string) error) error {
	return state.ScanAll(r, state.SpaceOutboxDue, func(key, _ []byte) error {
		if len(key) < outbox.OutboxDueKeyBytes {
			return fmt.Errorf("%w: key of a due outbox", state.ErrCorrupt)
		}
		return f(int64(state.SeqOfKey(key)), string(key[outbox.OutboxDueKeyBytes:]))
	})
}

// Begun returns the delivery of an attempt that this holder has begun; false if it is over.
func (v *View) Begun(holder command.BootID, a command.Attempt) (outbox.Delivery, bool, error) {
	o, err := outbox.LoadOutbox(v.snap, a.AgentKey)
	if err != nil || o.Sending != a.Delivery {
		return outbox.Delivery{}, false, err
	}
	d, ok, err := v.queuedDelivery(a.AgentKey, o, a.Delivery)
	return d, ok && d.Attempts == a.Number && d.Holder == holder, err
}

// Delivery returns a delivery of an agent; false when it is not kept any more.
func (v *View) Delivery(agentKey string, number uint64) (d outbox.Delivery, known bool, err error) {
	p, known, err := v.profile(agentKey)
	if err != nil || !known {
		return d, false, err
	}
	o, err := outbox.LoadOutbox(v.snap, agentKey)
	if err != nil {
		return d, false, err
	}
	row, known, err := outbox.LoadDelivery(v.snap, agentKey, number)
	if known {
		d = row.Show(&p, agentKey, o, o.Turn(v.at.Head.Now), number)
	}
	return d, known, err
}

// Outbox has the deliveries of an agent, as the agent sees them.
type Outbox struct {
	Active  bool // the agent has a receiver
	Paused  bool // until the receiver has another secret
	Waiting int  // how many deliveries wait or are being sent
	// Newest are the newest deliveries, at most MaxListedDeliveries, newest first.
	Newest []outbox.Delivery
	// First is the delivery that is being sent, or the next one; nil if the queue is empty.
	First *outbox.Delivery
}

// Outbox returns an agent's deliveries, or ErrNotFound if the agent has no profile.
func (v *View) Outbox(agentKey string) (Outbox, error) {
	p, known, err := v.profile(agentKey)
	if err != nil || !known {
		return Outbox{}, cmp.Or(err, state.ErrNotFound)
	}
	o, err := outbox.LoadOutbox(v.snap, agentKey)
	if err != nil {
		return Outbox{}, err
	}
	out := Outbox{Active: o.Active, Paused: o.Paused, Waiting: len(o.Queue)}
	next := o.Turn(v.at.Head.Now)
	for n := o.Last; n > 0 && n+command.MaxListedDeliveries > o.Last; n-- {
		row, ok, err := outbox.LoadDelivery(v.snap, agentKey, n)
		if err != nil {
			return Outbox{}, err
		}
		if ok {
			out.Newest = append(out.Newest, row.Show(&p, agentKey, o, next, n))
		}
	}
	if next.Number == 0 {
		return out, nil
	}
	row, err := v.WaitingDelivery(agentKey, next.Number)
	if err != nil {
		return Outbox{}, err
	}
	first := row.Show(&p, agentKey, o, next, next.Number)
	out.First = &first
	return out, nil
}

// WaitingDeliveries returns how many deliveries wait for all agents together.
func (v *View) WaitingDeliveries() (int, error) {
	n, err := state.LoadOrZero(v.snap, state.KeyWaiting, state.DecodeNumber)
	return int(min(n, math.MaxInt)), err
}

// ReceiverDue reports whether a registration sets a receiver that has not passed the check.
func (v *View) ReceiverDue(c *command.Register) (bool, error) {
	p, known, err := v.profile(c.AgentKey)
	if err != nil || c.NotifyURL == "" || known && (!p.Opens(c.Proof.Key) || p.Hooked() && p.NotifyURL == c.NotifyURL) {
		return false, err
	}
	verified := *c
	verified.NotifyVerified = true
	problems, err := v.Problems(&verified)
	return len(problems) == 0, err
}

// NotifySalt returns the salt of the secret of an agent's receiver, if deliveries go to this URL.
func (v *View) NotifySalt(agentKey, notifyURL string) (string, error) {
	p, known, err := v.profile(agentKey)
	if !known || !p.Hooked() || p.NotifyURL != notifyURL {
		return "", err
	}
	return p.NotifySalt, err
}
