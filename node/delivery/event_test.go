package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestDigestEvent holds what a receiver is sent of an hour's mentions.
func TestDigestEvent(t *testing.T) {
	h := newTestbed(t, nil)
	key := sha256.Sum256(nil)
	propose := func(c command.Payload) {
		t.Helper()
		must.Do(t, h.propose(t.Context(), c))
	}
	propose(&command.Register{
		Agent: "ada", AgentKey: "ada", Given: command.FieldDescription | command.FieldNotifyURL | command.FieldNotify, Description: "Listens.",
		NotifyURL: "https://127.0.0.1/", NotifyVerified: true, Notify: command.Digest, NewKey: key[:],
	})
	for i := range command.MaxDigestEntries + 2 {
		propose(&command.Publish{
			Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Channel: "general", Title: fmt.Sprintf("Title %d", i),
			Body: "You, ada: " + strings.Repeat("long ", 100), Mentions: []string{"ada"},
		})
	}
	v := h.machine.View()
	defer v.Release()
	o, err := v.Outbox("ada")
	if err != nil || len(o.Newest) != 1 {
		t.Fatalf("%+v, %v", o, err)
	}
	d := o.Newest[0]
	body := must.Get(h.event(v, &d))(t)
	var got event
	apitest.CheckValue(t, body, "Event")
	must.Do(t, json.Unmarshal(body, &got))
	since := fmt.Sprint("GET /api/entries?for=ada&since=", d.QueuedAt-1)
	if got.Type != "common.digest" || got.Mentions != command.MaxDigestEntries+2 || len(got.Entries) != command.MaxDigestEntries || got.Read != since || got.Reply != nil {
		t.Errorf("%s", body)
	}
	if !strings.Contains(string(got.Entries[0]), `"Title 0"`) || strings.Contains(string(got.Entries[0]), strings.Repeat("long ", digestBody/5)) {
		t.Errorf("the first entry: %s", got.Entries[0])
	}
}

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

// TestSubscriptionDigest holds that the worker queues a digest of a subscription, and what a
// receiver is sent of it.
func TestSubscriptionDigest(t *testing.T) {
	h := newTestbed(t, nil)
	registered := time.Now().UnixMilli()
	key := sha256.Sum256(nil)
	propose := func(at int64, c command.Payload) {
		t.Helper()
		must.Do(t, h.proposeAt(at, c))
	}
	propose(registered, &command.Register{
		Agent: "ada", AgentKey: "ada", Given: command.FieldDescription | command.FieldNotifyURL, Description: "Listens.",
		NotifyURL: "https://127.0.0.1/", NotifyVerified: true, NewKey: key[:],
	})
	now := registered + 8*command.DayMillis
	propose(now, &command.Subscribe{AgentKey: "ada", Way: command.WayDigest, Filter: command.Filter{Channel: "general"}, Proof: command.Proof{Key: key[:]}})
	d := &digests{seen: map[string]uint64{}}
	check.Equal(t, len(must.Get(h.dueDigests(d))(t).Digests), 0, "digests without entries")
	for i := range 3 {
		propose(now, &command.Publish{Agent: "eve", AgentKey: "eve", Kind: command.KindMessage, Channel: "general", Title: fmt.Sprintf("Title %d", i), Body: "A body."})
	}
	ctx, end := context.WithCancel(t.Context())
	var worker sync.WaitGroup
	worker.Go(func() { h.sendDigests(ctx) })
	queued := func() []outbox.Delivery {
		v := h.machine.View()
		defer v.Release()
		return must.Get(v.Outbox("ada"))(t).Newest
	}
	await.Eventually(t, "a digest", func() bool { return len(queued()) == 1 })
	end()
	worker.Wait()
	check.Equal(t, len(must.Get(h.dueDigests(d))(t).Digests), 0, "digests after one")
	propose(now, &command.Hide{Order: command.Order{By: command.Operator, Reason: "A reason."}, IDs: []string{"e2"}})
	v := h.machine.View()
	defer v.Release()
	body := must.Get(h.event(v, &queued()[0]))(t)
	var got event
	apitest.CheckValue(t, body, "Event")
	must.Do(t, json.Unmarshal(body, &got))
	if got.Type != "common.subscription" || len(got.Entries) != 2 || !strings.Contains(string(got.Entries[0]), `"Title 0"`) || !strings.Contains(string(got.Entries[1]), `"Title 2"`) {
		t.Errorf("%s", body)
	}
}
