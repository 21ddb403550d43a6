package fsm

import (
	"errors"
	"fmt"
)

const (
	// DeliveryLease is for how long an attempt is left to the leader that began it,
	// in milliseconds of log time. After that the next attempt may begin.
	DeliveryLease = 15_000
	// MaxRetryJitter bounds what a leader adds to the pause before an attempt, in
	// thousandths of it.
	MaxRetryJitter = 200
	// MaxRetryAfter bounds the pause that a receiver can ask for, in milliseconds.
	MaxRetryAfter = 6 * 60 * 60 * 1000
	// MaxAttempts bounds the attempts that begin with one command.
	MaxAttempts = 256
	// maxAttemptNumber bounds the numbers in a command, so that they do not run over.
	maxAttemptNumber = 1 << 62
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

// Attempt names one attempt to deliver.
type Attempt struct {
	AgentKey string `cbor:"1,keyasint"` // folded name of the agent
	Delivery uint64 `cbor:"2,keyasint"` // number among the agent's deliveries
	Number   uint64 `cbor:"3,keyasint"` // of the attempt, from 1
}

func (a *Attempt) check() error {
	err := checkBytes("agent key", a.AgentKey, MaxNameKeyBytes)
	if a.Delivery == 0 || a.Number == 0 || a.Delivery > maxAttemptNumber || a.Number > maxAttemptNumber {
		err = errors.Join(err, fmt.Errorf("attempt %d of delivery %d", a.Number, a.Delivery))
	}
	return err
}

// BeginDeliveries is what the leader proposes before it sends: it begins those of
// the attempts that are due, and counts them against the hourly limit. Which of
// them have begun, View.Begun tells.
type BeginDeliveries struct {
	// Holder is the run of the node that is going to send.
	Holder   BootID    `cbor:"1,keyasint"`
	Attempts []Attempt `cbor:"2,keyasint"`
}

func (*BeginDeliveries) op() Op { return OpBeginDeliveries }

func (c *BeginDeliveries) check() error {
	errs := []error{checkRange("attempts", len(c.Attempts), 1, MaxAttempts, "items")}
	if c.Holder == (BootID{}) {
		errs = append(errs, errors.New("attempts of no run"))
	}
	for i := range c.Attempts {
		errs = append(errs, c.Attempts[i].check())
	}
	return errors.Join(errs...)
}

func (c *BeginDeliveries) apply(tx *txn) Result {
	for i := range c.Attempts {
		tx.beginAttempt(c.Holder, &c.Attempts[i])
	}
	return Result{Outcome: OutcomeDone}
}

func (tx *txn) beginAttempt(holder BootID, a *Attempt) {
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

// DeliveryOutcome is what came of an attempt.
type DeliveryOutcome uint8

// The outcomes of attempts. The numbers stand in logs.
const (
	AttemptDelivered DeliveryOutcome = 1 // the receiver took it
	AttemptFailed    DeliveryOutcome = 2 // it did not
	AttemptGone      DeliveryOutcome = 3 // it wants nothing any more
)

// AckDelivery tells what came of an attempt. It counts only while the attempt is
// the delivery's newest.
type AckDelivery struct {
	Attempt
	Outcome DeliveryOutcome `cbor:"4,keyasint"`
	// Reason is a short word for the agent; "" exactly when it was delivered.
	Reason string `cbor:"5,keyasint,omitempty"`
	// Jitter is how much longer the pauses after a failure are, in thousandths of
	// them. They take at least RetryAfter, in milliseconds.
	Jitter     int64 `cbor:"6,keyasint,omitempty"`
	RetryAfter int64 `cbor:"7,keyasint,omitempty"`
}

func (*AckDelivery) op() Op { return OpAckDelivery }

func (c *AckDelivery) check() error {
	errs := []error{
		c.Attempt.check(),
		checkRange("outcome", int(c.Outcome), int(AttemptDelivered), int(AttemptGone), ""),
		checkRange("jitter", int(c.Jitter), 0, MaxRetryJitter, "thousandths"),
		checkRange("retry after", int(c.RetryAfter), 0, MaxRetryAfter, "ms"),
	}
	if c.Outcome != AttemptDelivered {
		errs = append(errs, checkLabel("reason", c.Reason))
	} else if c.Reason != "" {
		errs = append(errs, errors.New("a reason for a success"))
	}
	return errors.Join(errs...)
}

func (c *AckDelivery) apply(tx *txn) Result {
	o := tx.outbox(c.AgentKey)
	i, waits := o.find(c.Delivery)
	if !waits || o.sending != c.Delivery {
		return Result{Outcome: OutcomeUnchanged}
	}
	d := tx.delivery(c.AgentKey, c.Delivery)
	if d.attempts != c.Number {
		return Result{Outcome: OutcomeUnchanged}
	}
	d.reason = c.Reason
	o.sending = 0
	switch {
	case c.Outcome == AttemptDelivered:
		o.taken(tx.now)
		tx.endDelivery(c.AgentKey, o, i, &d, DeliveryDelivered)
	case d.hook != o.hook: // the agent has another receiver by now
		o.probe(tx.now)
		tx.putDelivery(c.AgentKey, c.Delivery, &d, DeliveryWaiting)
	case c.Outcome == AttemptGone:
		d.failures++
		tx.endDelivery(c.AgentKey, o, i, &d, DeliveryFailed)
		tx.ended[len(tx.ended)-1].Gone = true
		tx.removeHook(c.AgentKey, o)
	default:
		c.fail(tx, o, i, &d)
	}
	return Result{Outcome: OutcomeDone}
}

// fail counts a failure, after which the delivery waits for its next attempt or
// is given up. One that was not its own turn changes nothing for it, unless the
// receiver asked to be left alone for longer.
func (c *AckDelivery) fail(tx *txn, o *outbox, i int, d *deliveryRow) {
	q := &o.queue[i]
	turn := q.ready <= tx.now
	o.refused(q, turn, tx.now, c.wait)
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
	q.ready = tx.now + c.wait(pause)
	tx.putDelivery(c.AgentKey, c.Delivery, d, DeliveryWaiting)
}

// wait returns how long a pause takes, in milliseconds.
func (c *AckDelivery) wait(pause int64) int64 {
	return max(pause+pause*c.Jitter/1000, c.RetryAfter)
}

// TestDelivery queues a delivery that only the agent itself can ask for. A receiver
// that was down is tried at once. The result's Entry is the number of the delivery.
type TestDelivery struct {
	AgentKey string `cbor:"1,keyasint"` // folded name of the agent
	Proof    Proof  `cbor:"2,keyasint"` // holds the agent's key
}

func (*TestDelivery) op() Op { return OpTestDelivery }

func (c *TestDelivery) check() error {
	return errors.Join(checkBytes("agent key", c.AgentKey, MaxNameKeyBytes), c.Proof.check())
}

func (c *TestDelivery) apply(tx *txn) Result {
	p, known := tx.profile(c.AgentKey)
	if problems := c.against(&p, known); len(problems) > 0 {
		return Result{Outcome: OutcomeRejected, Problems: problems}
	}
	tx.useKey(c.AgentKey, &p)
	number := tx.queueDelivery(c.AgentKey, DeliveryTest, 0, provenSender(c.AgentKey))
	tx.outbox(c.AgentKey).probe(tx.now)
	return Result{Outcome: OutcomeDone, Entry: number}
}

// against returns every rule against the command, given the profile.
func (c *TestDelivery) against(p *profileRow, known bool) []Problem {
	switch {
	case !known:
		return []Problem{ProblemUnknownAgent}
	case len(c.Proof.Key) == 0:
		return []Problem{ProblemNoKey}
	case !p.opens(c.Proof.Key):
		return []Problem{ProblemWrongKey}
	case !p.hooked():
		return []Problem{ProblemNoHook}
	}
	return nil
}
