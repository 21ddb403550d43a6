package fsm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// deliveryCommands are the commands on deliveries, with every field set.
func deliveryCommands() []Body {
	a := Attempt{AgentKey: "ada", Delivery: 7, Number: 2}
	return []Body{
		&AckDelivery{Attempt: a, Outcome: AttemptFailed, Reason: "status_500", Jitter: 100, RetryAfter: 1000},
		&TestDelivery{AgentKey: "ada", Proof: Proof{Key: keyHash("k"), Sender: "sender-1"}},
		rotate(3, 1),
		&BeginDeliveries{Holder: boot1, Attempts: []Attempt{a, {"bob", 1, 1}}},
		hooked("ada", nil),
	}
}

func TestDeliveryCommandsRoundTrip(t *testing.T) {
	checkRoundTrip(t, deliveryCommands()...)
}

// TestDeliveryCommandsAreChecked breaks one bound at a time.
func TestDeliveryCommandsAreChecked(t *testing.T) {
	for _, b := range deliveryCommands() {
		if err := Check(b); err != nil {
			t.Errorf("%T: %v", b, err)
		}
	}
	ack := func(change func(*AckDelivery)) func() Body {
		return func() Body {
			c := *deliveryCommands()[0].(*AckDelivery)
			change(&c)
			return &c
		}
	}
	begin := func(change func(*BeginDeliveries)) func() Body {
		return func() Body {
			c := *deliveryCommands()[3].(*BeginDeliveries)
			change(&c)
			return &c
		}
	}
	for name, broken := range map[string]func() Body{
		"agent":           ack(func(c *AckDelivery) { c.AgentKey = "" }),
		"delivery":        ack(func(c *AckDelivery) { c.Delivery = 0 }),
		"attempt":         ack(func(c *AckDelivery) { c.Number = 0 }),
		"huge attempt":    ack(func(c *AckDelivery) { c.Number = 1 << 63 }),
		"no outcome":      ack(func(c *AckDelivery) { c.Outcome = 0 }),
		"unknown outcome": ack(func(c *AckDelivery) { c.Outcome = AttemptGone + 1 }),
		"no reason":       ack(func(c *AckDelivery) { c.Reason = "" }),
		"long reason":     ack(func(c *AckDelivery) { c.Reason = strings.Repeat("x", MaxUsageLabel+1) }),
		"text as reason":  ack(func(c *AckDelivery) { c.Reason = "they said no" }),
		"needless reason": ack(func(c *AckDelivery) { c.Outcome = AttemptDelivered }),
		"jitter":          ack(func(c *AckDelivery) { c.Jitter = MaxRetryJitter + 1 }),
		"negative jitter": ack(func(c *AckDelivery) { c.Jitter = -1 }),
		"retry after":     ack(func(c *AckDelivery) { c.RetryAfter = MaxRetryAfter + 1 }),
		"no holder":       begin(func(c *BeginDeliveries) { c.Holder = BootID{} }),
		"no attempts":     begin(func(c *BeginDeliveries) { c.Attempts = nil }),
		"many attempts":   begin(func(c *BeginDeliveries) { c.Attempts = make([]Attempt, MaxAttempts+1) }),
		"empty attempt":   begin(func(c *BeginDeliveries) { c.Attempts = make([]Attempt, 1) }),
		"test of nobody":  func() Body { return &TestDelivery{} },
		"test with half a key": func() Body {
			return &TestDelivery{AgentKey: "ada", Proof: Proof{Key: []byte{1}}}
		},
		"short public key": func() Body { c := rotate(0, 1); c.Public = c.Public[1:]; return c },
		"no private key":   func() Body { c := rotate(0, 1); c.Sealed = nil; return c },
		"long private key": func() Body { c := rotate(0, 1); c.Sealed = make([]byte, MaxSealedKeyBytes+1); return c },
		"check of no receiver": func() Body {
			return register("ada", "k", func(c *Register) { c.Given |= FieldNotifyURL; c.NotifyVerified = true })
		},
		"check without a receiver": func() Body {
			return register("ada", "k", func(c *Register) { c.NotifyVerified = true })
		},
	} {
		if err := Check(broken()); err == nil {
			t.Errorf("%s: %+v passes", name, broken())
		}
	}
}

// FuzzDeliveryRows holds that rows of any bytes are refused, or stay what they are.
func FuzzDeliveryRows(f *testing.F) {
	f.Add((&deliveryRow{kind: DeliveryReply, status: DeliverySending, entry: 7, queuedAt: 5, changedAt: 6, attempts: 2, hook: 1, holder: boot1, reason: "timeout"}).append(nil))
	f.Add((&outbox{
		active: true, filter: NoJobs, hook: 3, last: 9, sending: 5, notBefore: 50, tried: 4, failing: 4,
		queue: []queued{{4, provenSender("ada"), 70, true, true}, {5, 2, 0, true, false}, {9, 2, 40, false, false}}, begun: []begunAttempt{{10, 2}, {20, provenSender("ada")}},
	}).encode())
	f.Add(appendSigningKeys(nil, []SigningKey{{Number: 2, Public: make([]byte, SigningKeyBytes), Sealed: []byte{1}, CreatedAt: 5}}))
	f.Fuzz(func(t *testing.T, row []byte) {
		if d, err := decodeDeliveryRow(row); err == nil {
			again, err := decodeDeliveryRow(d.append(nil))
			if d.status != DeliverySending {
				d.holder = BootID{} // nobody holds it
			}
			if err != nil || again != d {
				t.Errorf("delivery %+v becomes %+v, %v", d, again, err)
			}
		}
		if o, err := decodeOutbox(row); err == nil {
			again, err := decodeOutbox(o.encode())
			if diff := cmp.Diff(o, again, cmp.AllowUnexported(outbox{}, queued{}, begunAttempt{})); err != nil || diff != "" {
				t.Errorf("outbox %+v, %v:\n%s", o, err, diff)
			}
		}
		if keys, err := decodeSigningKeys(row); err == nil && len(keys) > 0 {
			again, err := decodeSigningKeys(appendSigningKeys(nil, keys))
			if diff := cmp.Diff(keys, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Errorf("keys %+v, %v:\n%s", keys, err, diff)
			}
		}
	})
}
