package delivery

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestNewsEvent holds that the receiver of moderators gets counts and ids, and no texts.
func TestNewsEvent(t *testing.T) {
	h := newTestbed(t, func(c *Config) { c.PublicURL = "https://commons.example.org" })
	for _, c := range []command.Payload{
		&command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Channel: "general", Title: "Pills", Body: "Cheap pills"},
		&command.SetWebhook{Order: command.Order{By: command.Operator}, URL: "https://mods.example/hook"},
		&command.Report{
			Agent: "ada", AgentKey: "ada", ID: make([]byte, command.ReportIDBytes), Target: "e1", Reason: command.ReportSpam,
			Text: "It is spam.", Contact: "ada@example.org", Proof: command.Proof{Sender: "s1"},
		},
	} {
		must.Do(t, h.propose(t.Context(), c))
	}
	v := h.machine.View()
	defer v.Release()
	d := outbox.Delivery{AgentKey: outbox.Moderators, Number: 1, Kind: outbox.DeliveryNews, QueuedAt: 1_700_000_000_000}
	body := must.Get(h.event(v, &d))(t)
	const want = `{"type":"common.moderation","timestamp":"2023-11-14T22:13:20.000Z","read":"GET https://commons.example.org/api/moderation/reports","reports":1,"held":0,"purges":0,"entries":["e1"]}`
	check.Equal(t, string(body), want, "the event")
}
