package fsmtest

import (
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/must"
)

// Times in milliseconds.
const (
	Second = int64(1000)
	Minute = 60 * Second
)

// RegisterWithReceiver registers an agent whose receiver has passed the check.
func RegisterWithReceiver(agent string, change func(*command.Register)) *command.Register {
	return Register(agent, "key of "+agent, func(c *command.Register) {
		c.Given |= command.FieldNotifyURL
		SetReceiver(c, "https://"+agent+".example.org/hook")
		if change != nil {
			change(c)
		}
	})
}

// SetReceiver sets the receiver of a command, which has passed the check. An empty one removes it.
func SetReceiver(c *command.Register, url string) {
	if c.NotifyURL, c.NotifySalt, c.NotifyVerified = url, nil, url != ""; url != "" {
		c.NotifySalt = Salt(url)
	}
}

// ChangeReceiver changes the receiver of a registered agent.
func ChangeReceiver(agent, url string) *command.Register {
	return Register(agent, "unused", func(c *command.Register) {
		c.Given, c.Description = command.FieldNotifyURL, ""
		SetReceiver(c, url)
		c.Proof.Key = KeyHash("key of " + agent)
	})
}

// Mention makes an entry name others.
func Mention(names ...string) func(*command.Publish) {
	return func(p *command.Publish) { p.Mentions = names }
}

// Later lets the log's next batch come so much later than it would have.
func (r *Hand) Later(millis int64) { *r.Clock() += millis }

// Now is the instant of the newest log entry.
func (r *Hand) Now() int64 { return *r.Clock() }

// Outbox returns the deliveries of an agent.
func (r *Hand) Outbox(agent string) view.Outbox {
	r.T.Helper()
	return InView(r.T, r, func(v *view.View) (view.Outbox, error) { return v.Outbox(agent) })
}

// SkipNone is a skip function that skips no agent.
func SkipNone(string) bool { return false }

// Due returns what can be attempted at an instant.
func (r *Hand) Due(at int64) (due []outbox.Delivery) {
	r.T.Helper()
	v := r.View()
	defer v.Release()
	must.Do(r.T, v.DueDeliveries(at, SkipNone, func(d outbox.Delivery) bool { due = append(due, d); return true }))
	next, ok, err := v.NextDelivery()
	if err != nil || (ok && next <= at) != (len(due) > 0) {
		r.T.Fatalf("the next delivery is due at %d, %v, %v, but at %d there are %d", next, ok, err, at, len(due))
	}
	return due
}

// BeginAll begins attempts and returns those of them that have begun.
func (r *Hand) BeginAll(attempts ...command.Attempt) (begun []outbox.Delivery) {
	r.T.Helper()
	r.Run(&command.BeginDeliveries{Holder: Boot1, Attempts: attempts})
	v := r.View()
	defer v.Release()
	for _, a := range attempts {
		d, ok, err := v.Begun(Boot1, a)
		must.Do(r.T, err)
		if ok {
			begun = append(begun, d)
		}
	}
	return begun
}

// Attempt begins the attempt that an agent has due and reports its outcome.
func (r *Hand) Attempt(agent string, outcome command.DeliveryOutcome, change func(*command.AckDelivery)) outbox.Delivery {
	r.T.Helper()
	for _, d := range r.Due(r.Now() + 1000) {
		if d.AgentKey != agent {
			continue
		}
		must.Equal(r.T, len(r.BeginAll(d.NextAttempt())), 1, "attempts that have begun")
		ack := &command.AckDelivery{Attempt: d.NextAttempt(), Outcome: outcome}
		if outcome != command.AttemptDelivered {
			ack.Reason = "status_500"
		}
		if change != nil {
			change(ack)
		}
		Expect(r.T, r.Run(ack)[0], command.OutcomeDone, "ack")
		return d
	}
	r.T.Fatalf("nothing is due for %s at %d: %+v", agent, r.Now()+1000, r.Outbox(agent))
	return outbox.Delivery{}
}

// Summary says in a line what an agent sees of its deliveries, oldest first.
func (r *Hand) Summary(agent string) string {
	r.T.Helper()
	var words []string
	for _, d := range slices.Backward(r.Outbox(agent).Newest) {
		word := strings.TrimPrefix(d.Kind.String(), "common.") + " " + state.FormatID(state.TypeEntry, d.Entry) + " " + d.Status.String()
		if d.Reason != "" {
			word += " " + d.Reason
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
