package delivery

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// TestEventThatCannotBeMade holds that it is the only one of its batch that fails.
func TestEventThatCannotBeMade(t *testing.T) {
	h := newTestbed(t, func(c *Config) {
		c.Check = func(string) string { return "must be public" } // as of addresses on loopback
	})
	h.makeEvent = func(v *fsm.View, d *fsm.Delivery) ([]byte, error) {
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
			NotifyURL: fmt.Sprintf("https://127.0.0.%d/", i+1), NotifyVerified: true, NewKey: key[:], // nothing is sent there
		}
		if err := h.propose(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.propose(t.Context(), mention); err != nil {
		t.Fatal(err)
	}
	h.lead(t)
	for _, name := range mention.Mentions {
		var o fsm.Outbox
		until(t, "the outcome for "+name, func() bool {
			v := h.machine.View()
			defer v.Release()
			var err error
			o, err = v.Outbox(name)
			return err == nil && o.First != nil && o.First.Reason != "" && o.First.Status == fsm.DeliveryWaiting
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
