package command

import (
	"errors"
	"fmt"
)

const (
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

// BeginDeliveries begins those of the attempts that are due, and counts them against the
// hourly limit. The leader proposes it before it sends the attempts that View.Begun
// returns.
type BeginDeliveries struct {
	// Holder is the run of the node that is going to send.
	Holder   BootID    `cbor:"1,keyasint"`
	Attempts []Attempt `cbor:"2,keyasint"`
}

func (c *BeginDeliveries) check() error {
	err := errors.Join(
		refuse(c.Holder == BootID{}, "attempts of no run"),
		checkRange("attempts", len(c.Attempts), 1, MaxAttempts, "items"),
	)
	for i := range c.Attempts {
		err = errors.Join(err, c.Attempts[i].check())
	}
	return err
}

// DeliveryOutcome is the outcome of an attempt.
type DeliveryOutcome uint8

// The outcomes of attempts. The numbers stand in logs.
const (
	AttemptDelivered DeliveryOutcome = 1 // the receiver took it
	AttemptFailed    DeliveryOutcome = 2 // it did not
	AttemptGone      DeliveryOutcome = 3 // it does not want deliveries any more
)

// AckDelivery reports the outcome of an attempt. It has an effect only while the attempt is the
// delivery's newest.
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

func (c *AckDelivery) check() error {
	reason := refuse(c.Reason != "", "a reason for a success")
	if c.Outcome != AttemptDelivered {
		reason = checkLabel("reason", c.Reason)
	}
	return errors.Join(
		c.Attempt.check(),
		checkRange("outcome", int(c.Outcome), int(AttemptDelivered), int(AttemptGone), ""),
		checkRange("jitter", int(c.Jitter), 0, MaxRetryJitter, "thousandths"),
		checkRange("retry after", int(c.RetryAfter), 0, MaxRetryAfter, "ms"),
		reason,
	)
}

// TestDelivery queues a delivery that only the agent itself can ask for. A receiver
// that was down is tried at once. The result's Entry is the number of the delivery.
type TestDelivery struct {
	AgentKey string `cbor:"1,keyasint"` // folded name of the agent
	Proof    Proof  `cbor:"2,keyasint"` // holds the agent's key
}

// Signature returns the name that the command is made under, and its proof.
func (c *TestDelivery) Signature() Signature { return Signature{c.AgentKey, &c.Proof, RequestKey{}} }

func (c *TestDelivery) check() error {
	return errors.Join(checkBytes("agent key", c.AgentKey, MaxNameKeyBytes), c.Proof.check())
}

func (*TestDelivery) texts() []string     { return nil }
func (*TestDelivery) content() [][]string { return nil }
