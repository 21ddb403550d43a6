package apply

import (
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
)

// delivery returns a waiting delivery, including changes of the call so far.
func (tx *Txn) delivery(agentKey string, number uint64) outbox.DeliveryRow {
	return need(tx, outbox.DeliveryKey(agentKey, number), state.Decode[outbox.DeliveryRow], "delivery")
}

// putDelivery stores a delivery with a new status.
func (tx *Txn) putDelivery(agentKey string, number uint64, d *outbox.DeliveryRow, status outbox.DeliveryStatus) {
	d.Status, d.ChangedAt = status, tx.now
	tx.set(outbox.DeliveryKey(agentKey, number), state.Encode(d))
}

// notifyReceivers queues the deliveries of an entry, for agents that it answers or
// mentions.
func (tx *Txn) notifyReceivers(e *state.EntryRow, p *command.Publish, target *state.EntryRow) {
	for _, name := range e.Inbox {
		if !tx.caches.hooks[name] {
			continue
		}
		switch {
		case e.Relation == command.RelationReply && name == target.AgentKey:
			tx.queueDelivery(name, outbox.DeliveryReply, e.Seq, e.Verified())
		case slices.Contains(p.Mentions, name):
			tx.queueDelivery(name, outbox.DeliveryMention, e.Seq, e.Verified())
		}
	}
}

// queueDelivery adds a delivery to an agent's queue, may drop one, and returns its number.
func (tx *Txn) queueDelivery(agentKey string, kind outbox.DeliveryKind, entry uint64, proven bool) uint64 {
	o := tx.outbox(agentKey)
	o.Last++
	if len(o.Queue) == 0 {
		o.NotBefore = max(o.NotBefore, tx.now)
	}
	o.Queue = append(o.Queue, outbox.Queued{Number: o.Last, Proven: proven, Entry: entry})
	tx.countWaiting(1)
	d := outbox.DeliveryRow{Kind: kind, Entry: entry, QueuedAt: tx.now}
	tx.putDelivery(agentKey, o.Last, &d, outbox.DeliveryWaiting)
	if len(o.Queue) > command.MaxWaitingDeliveries {
		tx.dropDelivery(agentKey, o, o.Surplus(), outbox.ReasonQueueFull)
	}
	if old := o.Last - min(o.Last, command.MaxListedDeliveries); old > 0 {
		if _, waits := o.Find(old); !waits {
			tx.del(outbox.DeliveryKey(agentKey, old))
		}
	}
	return o.Last
}

// endDelivery takes a delivery out of the queue. It keeps the newest ones.
func (tx *Txn) endDelivery(agentKey string, o *outbox.Outbox, i int, d *outbox.DeliveryRow, status outbox.DeliveryStatus) {
	number := o.Queue[i].Number
	o.Queue = slices.Delete(o.Queue, i, i+1)
	if o.Sending == number {
		o.Sending = 0
	}
	tx.countWaiting(-1)
	tx.putDelivery(agentKey, number, d, status)
	p, _ := tx.profile(agentKey)
	tx.Ended = append(tx.Ended, outbox.DeliveryEnd{
		AgentKey: agentKey, ID: string(outbox.AppendDeliveryID(nil, &p, number, d)),
		Status: d.Status, Reason: d.Reason, Attempts: d.Attempts,
	})
	if number+command.MaxListedDeliveries <= o.Last {
		tx.del(outbox.DeliveryKey(agentKey, number))
	}
}

// dropDelivery removes a delivery from the queue before its last attempt.
func (tx *Txn) dropDelivery(agentKey string, o *outbox.Outbox, i int, reason string) {
	d := tx.delivery(agentKey, o.Queue[i].Number)
	d.Reason = reason
	tx.endDelivery(agentKey, o, i, &d, outbox.DeliveryDropped)
}

// countWaiting changes the count of waiting deliveries.
func (tx *Txn) countWaiting(change int64) {
	tx.setNumber(state.KeyWaiting, uint64(int64(tx.number(state.KeyWaiting))+change))
}

func (tx *Txn) applyBeginDeliveries(c *command.BeginDeliveries) command.Result {
	for i := range c.Attempts {
		tx.beginAttempt(c.Holder, &c.Attempts[i])
	}
	return done
}

func (tx *Txn) beginAttempt(holder command.BootID, a *command.Attempt) {
	o := tx.outbox(a.AgentKey)
	i := o.Next(tx.now)
	if i < 0 || o.Queue[i].Number != a.Delivery {
		return
	}
	d := tx.delivery(a.AgentKey, a.Delivery)
	if a.Number != d.Attempts+1 {
		return
	}
	if o.Sending != 0 && o.Sending != a.Delivery { // its lease is over
		lost := tx.delivery(a.AgentKey, o.Sending)
		tx.putDelivery(a.AgentKey, o.Sending, &lost, outbox.DeliveryWaiting)
	}
	if d.Hook != o.Hook { // the present receiver has not failed yet
		d.Failures = 0
	}
	d.Attempts, d.Holder, d.Hook = a.Number, holder, o.Hook
	tx.putDelivery(a.AgentKey, a.Delivery, &d, outbox.DeliverySending)
	o.Begin(i, tx.now)
}

func (tx *Txn) applyAckDelivery(c *command.AckDelivery) command.Result {
	o := tx.outbox(c.AgentKey)
	i, waits := o.Find(c.Delivery)
	if !waits || o.Sending != c.Delivery {
		return unchanged
	}
	d := tx.delivery(c.AgentKey, c.Delivery)
	if d.Attempts != c.Number {
		return unchanged
	}
	d.Reason = c.Reason
	o.Sending = 0
	switch {
	case c.Outcome == command.AttemptDelivered:
		o.Taken(tx.now)
		tx.endDelivery(c.AgentKey, o, i, &d, outbox.DeliveryDelivered)
	case d.Hook != o.Hook: // the agent has another receiver by now
		o.Probe(tx.now)
		tx.putDelivery(c.AgentKey, c.Delivery, &d, outbox.DeliveryWaiting)
	case c.Outcome == command.AttemptGone:
		d.Failures++
		tx.endDelivery(c.AgentKey, o, i, &d, outbox.DeliveryFailed)
		tx.Ended[len(tx.Ended)-1].Gone = true
		tx.unhook(c.AgentKey, o, outbox.ReasonHookGone)
		if p, known := tx.profile(c.AgentKey); known {
			p.NotifyURL, p.NotifySalt, p.NotifyVerified = "", "", false
			tx.putProfile(c.AgentKey, &p)
		}
	default:
		tx.failDelivery(c, o, i, &d)
	}
	return done
}

// failDelivery counts a failure. The delivery waits for its next attempt, or is given up.
func (tx *Txn) failDelivery(c *command.AckDelivery, o *outbox.Outbox, i int, d *outbox.DeliveryRow) {
	o.Rejected(d.Failures == 0, tx.now, func(pause int64) int64 { return outbox.RetryWait(c, pause) })
	d.Failures++
	pause, again := outbox.RetryPause(d.Failures)
	if !again {
		tx.endDelivery(c.AgentKey, o, i, d, outbox.DeliveryFailed)
		return
	}
	o.Queue[i].Ready = tx.now + outbox.RetryWait(c, pause)
	tx.putDelivery(c.AgentKey, c.Delivery, d, outbox.DeliveryWaiting)
}

func (tx *Txn) applyTestDelivery(c *command.TestDelivery) command.Result {
	p, known := tx.profile(c.AgentKey)
	if problems := state.TestProblems(c, &p, known); len(problems) > 0 {
		return rejected(problems...)
	}
	number := tx.queueDelivery(c.AgentKey, outbox.DeliveryTest, 0, true)
	tx.outbox(c.AgentKey).Probe(tx.now)
	return command.Result{Outcome: command.OutcomeDone, Entry: number}
}

// dropDeliveriesOf drops the waiting deliveries of an entry.
func (tx *Txn) dropDeliveriesOf(e *state.EntryRow) {
	for _, name := range e.Inbox {
		if !tx.caches.hooks[name] {
			continue
		}
		o := tx.outbox(name)
		for i, q := range slices.Backward(o.Queue) {
			if q.Entry == e.Seq {
				tx.dropDelivery(name, o, i, outbox.ReasonHidden)
			}
		}
	}
}

// outbox returns an agent's outbox, to be changed: it is written at the end of the call.
func (tx *Txn) outbox(agentKey string) *outbox.Outbox {
	return use(tx, &tx.caches.outboxes, tx.outboxes, agentKey, func() (*outbox.Outbox, error) { return outbox.LoadOutbox(tx.stored.DB, agentKey) })
}

// finishOutboxes writes the outboxes of the call.
func (tx *Txn) finishOutboxes() {
	for agentKey, o := range tx.outboxes {
		if o.Hook == 0 {
			continue // the agent never had a receiver
		}
		tx.set(outbox.Key(agentKey), state.Encode(o))
		due := o.Due()
		if due == o.DueAt {
			continue
		}
		if o.DueAt != 0 {
			tx.del(outbox.DueKey(o.DueAt, agentKey))
		}
		if due != 0 {
			tx.set(outbox.DueKey(due, agentKey), []byte{})
		}
		o.DueAt = due
	}
}

// followHook applies a change of a profile to its outbox: a new receiver, or one with a new secret,
// gets the waiting deliveries; without one they are dropped.
func (tx *Txn) followHook(agentKey string, old, next *state.ProfileFields) {
	if old.Hooked() == next.Hooked() && (!next.Hooked() || old.NotifyURL == next.NotifyURL && old.NotifySalt == next.NotifySalt) {
		return
	}
	o := tx.outbox(agentKey)
	if !next.Hooked() {
		tx.unhook(agentKey, o, outbox.ReasonHookOff)
		return
	}
	o.Active, o.Paused = true, false
	tx.caches.hooks[agentKey] = true
	o.Hook++
	o.Renew(tx.now)
}

// unhook drops the waiting deliveries of an agent that has no receiver any more.
func (tx *Txn) unhook(agentKey string, o *outbox.Outbox, reason string) {
	o.Hook++
	o.Active, o.Paused = false, false
	delete(tx.caches.hooks, agentKey)
	for len(o.Queue) > 0 {
		tx.dropDelivery(agentKey, o, 0, reason)
	}
}
