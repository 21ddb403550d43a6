package fsm

import (
	"github.com/commons-cluster/commons/fsm/command"
)

const (
	// DeliveryLease is for how long an attempt is left to the leader that began it,
	// in milliseconds of log time. After that the next attempt may begin.
	DeliveryLease = 15_000
)

// retryPauses are the pauses after each failed attempt, in milliseconds. After
// one more failure the delivery is given up.
var retryPauses = [...]int64{5_000, 5 * 60_000, 30 * 60_000, 2 * 60 * 60_000, 5 * 60 * 60_000}

// retryPause returns the pause after so many failures of a delivery, in
// milliseconds; false when it is given up.
func retryPause(failures uint64) (pause int64, again bool) {
	if failures == 0 || failures > uint64(len(retryPauses)) {
		return 0, false
	}
	return retryPauses[failures-1], true
}

func (tx *txn) applyBeginDeliveries(c *command.BeginDeliveries) command.Result {
	for i := range c.Attempts {
		tx.beginAttempt(c.Holder, &c.Attempts[i])
	}
	return command.Result{Outcome: command.OutcomeDone}
}

func (tx *txn) beginAttempt(holder command.BootID, a *command.Attempt) {
	o := tx.outbox(a.AgentKey)
	i := o.next(tx.now)
	if i < 0 || o.queue[i].number != a.Delivery {
		return
	}
	d := tx.delivery(a.AgentKey, a.Delivery)
	if a.Number != d.attempts+1 {
		return
	}
	if o.sending != 0 && o.sending != a.Delivery { // its lease is over
		lost := tx.delivery(a.AgentKey, o.sending)
		tx.putDelivery(a.AgentKey, o.sending, &lost, DeliveryWaiting)
	}
	if d.hook != o.hook { // the present receiver has not failed yet
		d.failures = 0
	}
	d.attempts, d.holder, d.hook = a.Number, holder, o.hook
	tx.putDelivery(a.AgentKey, a.Delivery, &d, DeliverySending)
	o.begin(i, tx.now)
}

func (tx *txn) applyAckDelivery(c *command.AckDelivery) command.Result {
	o := tx.outbox(c.AgentKey)
	i, waits := o.find(c.Delivery)
	if !waits || o.sending != c.Delivery {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	d := tx.delivery(c.AgentKey, c.Delivery)
	if d.attempts != c.Number {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	d.reason = c.Reason
	o.sending = 0
	switch {
	case c.Outcome == command.AttemptDelivered:
		o.taken(tx.now)
		tx.endDelivery(c.AgentKey, o, i, &d, DeliveryDelivered)
	case d.hook != o.hook: // the agent has another receiver by now
		o.probe(tx.now)
		tx.putDelivery(c.AgentKey, c.Delivery, &d, DeliveryWaiting)
	case c.Outcome == command.AttemptGone:
		d.failures++
		tx.endDelivery(c.AgentKey, o, i, &d, DeliveryFailed)
		tx.ended[len(tx.ended)-1].Gone = true
		tx.removeHook(c.AgentKey, o)
	default:
		tx.failDelivery(c, o, i, &d)
	}
	return command.Result{Outcome: command.OutcomeDone}
}

// failDelivery counts a failure, after which the delivery waits for its next attempt or
// is given up. One that was not its own turn changes nothing for it, unless the
// receiver asked to be left alone for longer.
func (tx *txn) failDelivery(c *command.AckDelivery, o *outbox, i int, d *deliveryRow) {
	q := &o.queue[i]
	turn := q.ready <= tx.now
	o.refused(q, turn, tx.now, func(pause int64) int64 { return retryWait(c, pause) })
	if !turn {
		q.ready = max(q.ready, tx.now+c.RetryAfter)
		tx.putDelivery(c.AgentKey, c.Delivery, d, DeliveryWaiting)
		return
	}
	d.failures++
	pause, again := retryPause(d.failures)
	if !again {
		tx.endDelivery(c.AgentKey, o, i, d, DeliveryFailed)
		return
	}
	q.ready = tx.now + retryWait(c, pause)
	tx.putDelivery(c.AgentKey, c.Delivery, d, DeliveryWaiting)
}

// retryWait returns how long a pause takes, in milliseconds.
func retryWait(c *command.AckDelivery, pause int64) int64 {
	return max(pause+pause*c.Jitter/1000, c.RetryAfter)
}

func (tx *txn) applyTestDelivery(c *command.TestDelivery) command.Result {
	p, known := tx.profile(c.AgentKey)
	if problems := againstTest(c, &p, known); len(problems) > 0 {
		return command.Result{Outcome: command.OutcomeRejected, Problems: problems}
	}
	tx.useKey(c.AgentKey, &p)
	number := tx.queueDelivery(c.AgentKey, DeliveryTest, 0, provenSender(c.AgentKey))
	tx.outbox(c.AgentKey).probe(tx.now)
	return command.Result{Outcome: command.OutcomeDone, Entry: number}
}

// againstTest returns every rule against the command, given the profile.
func againstTest(c *command.TestDelivery, p *profileRow, known bool) []command.Problem {
	switch {
	case !known:
		return []command.Problem{command.ProblemUnknownAgent}
	case len(c.Proof.Key) == 0:
		return []command.Problem{command.ProblemNoKey}
	case !p.opens(c.Proof.Key):
		return []command.Problem{command.ProblemWrongKey}
	case !p.hooked():
		return []command.Problem{command.ProblemNoHook}
	}
	return nil
}
