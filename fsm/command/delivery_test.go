package command_test

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
)

// deliveryCommands are the commands on deliveries, with every field set.
func deliveryCommands() []command.Payload {
	a := command.Attempt{AgentKey: "ada", Delivery: 7, Number: 2}
	return []command.Payload{
		&command.AckDelivery{Attempt: a, Outcome: command.AttemptFailed, Reason: "status_500", Jitter: 100, RetryAfter: 1000},
		&command.TestDelivery{AgentKey: "ada", Proof: command.Proof{Key: fsmtest.KeyHash("k"), Sender: "sender-1"}},
		&command.BeginDeliveries{Holder: fsmtest.Boot1, Attempts: []command.Attempt{a, {AgentKey: "bob", Delivery: 1, Number: 1}}},
		fsmtest.RegisterWithReceiver("ada", nil),
	}
}

func TestDeliveryCommandsRoundTrip(t *testing.T) {
	command.CheckRoundTrip(t, deliveryCommands()...)
}

// TestDeliveryCommandsAreChecked breaks one bound at a time.
func TestDeliveryCommandsAreChecked(t *testing.T) {
	for _, b := range deliveryCommands() {
		check.Err(t, command.Check(b), nil, "%T", b)
	}
	ack := func(change func(*command.AckDelivery)) func() command.Payload {
		return func() command.Payload {
			c := *deliveryCommands()[0].(*command.AckDelivery)
			change(&c)
			return &c
		}
	}
	begin := func(change func(*command.BeginDeliveries)) func() command.Payload {
		return func() command.Payload {
			c := *deliveryCommands()[2].(*command.BeginDeliveries)
			change(&c)
			return &c
		}
	}
	for name, broken := range map[string]func() command.Payload{
		"agent":           ack(func(c *command.AckDelivery) { c.AgentKey = "" }),
		"delivery":        ack(func(c *command.AckDelivery) { c.Delivery = 0 }),
		"attempt":         ack(func(c *command.AckDelivery) { c.Number = 0 }),
		"huge attempt":    ack(func(c *command.AckDelivery) { c.Number = 1 << 63 }),
		"no outcome":      ack(func(c *command.AckDelivery) { c.Outcome = 0 }),
		"unknown outcome": ack(func(c *command.AckDelivery) { c.Outcome = command.AttemptGone + 1 }),
		"no reason":       ack(func(c *command.AckDelivery) { c.Reason = "" }),
		"long reason":     ack(func(c *command.AckDelivery) { c.Reason = strings.Repeat("x", command.MaxUsageLabel+1) }),
		"text as reason":  ack(func(c *command.AckDelivery) { c.Reason = "they said no" }),
		"needless reason": ack(func(c *command.AckDelivery) { c.Outcome = command.AttemptDelivered }),
		"jitter":          ack(func(c *command.AckDelivery) { c.Jitter = command.MaxRetryJitter + 1 }),
		"negative jitter": ack(func(c *command.AckDelivery) { c.Jitter = -1 }),
		"retry after":     ack(func(c *command.AckDelivery) { c.RetryAfter = command.MaxRetryAfter + 1 }),
		"no holder":       begin(func(c *command.BeginDeliveries) { c.Holder = command.BootID{} }),
		"no attempts":     begin(func(c *command.BeginDeliveries) { c.Attempts = nil }),
		"many attempts":   begin(func(c *command.BeginDeliveries) { c.Attempts = make([]command.Attempt, command.MaxAttempts+1) }),
		"empty attempt":   begin(func(c *command.BeginDeliveries) { c.Attempts = make([]command.Attempt, 1) }),
		"test of nobody":  func() command.Payload { return &command.TestDelivery{} },
		"test with half a key": func() command.Payload {
			return &command.TestDelivery{AgentKey: "ada", Proof: command.Proof{Key: []byte{1}}}
		},
		"check of no receiver": func() command.Payload {
			return fsmtest.Register("ada", "k", func(c *command.Register) { c.Given |= command.FieldNotifyURL; c.NotifyVerified = true })
		},
		"check without a receiver": func() command.Payload {
			return fsmtest.Register("ada", "k", func(c *command.Register) { c.NotifyVerified = true })
		},
	} {
		check.Fails(command.Check(broken()))(t, "%s: %+v passes", name, broken())
	}
}
