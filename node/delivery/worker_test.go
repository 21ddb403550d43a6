package delivery

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestEventThatCannotBeMade holds that it is the only one of its batch that fails.
func TestEventThatCannotBeMade(t *testing.T) {
	h := newTestbed(t, func(c *Config) {
		c.Push.Check = func(string) string { return "must be public" } // as of addresses on loopback
	})
	h.makeEvent = func(v *view.View, d *outbox.Delivery) ([]byte, error) {
		if d.AgentKey == "a1" {
			return nil, errors.New("for this test")
		}
		return h.event(v, d)
	}
	key := sha256.Sum256(nil)
	mention := &command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Channel: "general", Title: "A title", Body: "You all."}
	for i := range 4 {
		name := fmt.Sprintf("a%d", i)
		mention.Mentions = append(mention.Mentions, name)
		c := &command.Register{
			Agent: name, AgentKey: name, Given: command.FieldDescription | command.FieldNotifyURL, Description: "Listens.",
			NotifyURL: fmt.Sprintf("https://127.0.0.%d/", i+1), NotifySalt: key[:command.SaltBytes], NotifyVerified: true, NewKey: key[:], NewRecovery: key[:], // never a receiver
		}
		must.Do(t, h.propose(t.Context(), c))
	}
	must.Do(t, h.propose(t.Context(), mention))
	h.lead(t)
	for _, name := range mention.Mentions {
		var o view.Outbox
		await.Eventually(t, "the outcome for "+name, func() bool {
			v := h.machine.View()
			defer v.Release()
			var err error
			o, err = v.Outbox(name)
			return err == nil && o.First != nil && o.First.Reason != "" && o.First.Status == outbox.DeliveryWaiting
		})
		want := "refused_url"
		if name == "a1" {
			want = reasonInternal
		}
		check.Equal(t, o.First.Attempts, o.First.Failures, "%s: %+v: attempts", name, o.First)
		check.Equal(t, o.First.Reason, want, "%s: %+v: reason", name, o.First)
	}
}

// TestSlowReceiversLeaveRoom holds that many slow receivers, of one host or of many, keep a
// neighbour waiting only until their first answers.
func TestSlowReceiversLeaveRoom(t *testing.T) {
	const slow = 4 * maxSendingToHost // receivers of each host
	d := newAttempts()
	take := func(host string) (taken []string) {
		for i := range slow {
			if agent := fmt.Sprint("slow-", i, "-", host); d.take(agent, host) {
				taken = append(taken, agent)
			}
		}
		return taken
	}
	for i := range 10 {
		host := fmt.Sprintf("h%d.example", i)
		for round := range slow / maxSendingToHost { // all of them are asked
			for j := range maxSendingToHost {
				agent := fmt.Sprint("slow-", round*maxSendingToHost+j, "-", host)
				check.Equal(t, d.take(agent, host), true, "an attempt at %s for %s", host, agent)
			}
			check.Equal(t, d.take("neighbour", host), false, "an attempt more than a quarter of all")
			for j := range maxSendingToHost {
				d.release(fmt.Sprint("slow-", round*maxSendingToHost+j, "-", host), 4700*time.Millisecond)
			}
		}
	}
	for i := range 5 {
		host := fmt.Sprintf("h%d.example", i)
		want := maxSendingToHost / 2
		if i == 4 {
			want = 0 // half of all is used up
		}
		check.Equal(t, len(take(host)), want, "attempts for slow receivers of %s", host)
	}
	check.Equal(t, d.take("neighbour", "h1.example"), true, "an attempt for a neighbour")
	check.Equal(t, d.take("elsewhere", "fast.example"), true, "an attempt for one elsewhere")
	d.release("neighbour", 2*slowAnswer)
	check.Equal(t, d.take("neighbour", "h1.example"), false, "an attempt for a neighbour that got slow")
	check.Equal(t, d.skips("neighbour"), true, "it waits")
	d.release("slow-0-h1.example", slowAnswer/2)
	check.Equal(t, d.skips("neighbour"), false, "it waits when there is room")
}
