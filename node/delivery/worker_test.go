package delivery

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/await"
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
		if o.First.Attempts != o.First.Failures || o.First.Reason != want {
			t.Errorf("%s: %+v, want attempts that all ended, with %s", name, o.First, want)
		}
	}
}
