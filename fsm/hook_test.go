package fsm

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestDeliveriesSurviveRestart opens the state again, and goes on.
func TestDeliveriesSurviveRestart(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil), fsmtest.RegisterWithReceiver("bob", nil))
	r.Run(fsmtest.Post("eve", fsmtest.Mention("ada", "bob")), fsmtest.Post("eve", fsmtest.Mention("ada")), fsmtest.ChangeReceiver("bob", ""))
	r.Attempt("ada", command.AttemptFailed, nil)
	want := r.Outbox("ada")
	must.Do(t, r.Close())
	r.Machine = openAt(t, r.opts.Dir, func(o *Options) { o.Observer = r.obs })
	check.Diff(t, r.Outbox("ada"), want, "the outbox")
	r.Run(fsmtest.Post("eve", fsmtest.Mention("ada", "bob")))
	if ada, bob := r.Summary("ada"), r.Summary("bob"); ada != "mention e1 waiting status_500, mention e2 waiting, mention e3 waiting" || bob != "mention e1 dropped hook_off" {
		t.Errorf("ada: %s; bob: %s", ada, bob)
	}
	r.Later(5 * fsmtest.Second)
	r.Attempt("ada", command.AttemptDelivered, nil)
	if due := r.Due(r.Now()); len(due) != 1 || due[0].Entry != 2 {
		t.Errorf("due: %+v", due)
	}
}

// TestWatchDeliveries is woken by queued deliveries and their outcomes only.
func TestWatchDeliveries(t *testing.T) {
	r := newRig(t)
	wake, stop := r.WatchDeliveries()
	defer stop()
	for i, step := range []struct {
		do   func()
		want bool
	}{
		{func() { r.Run(fsmtest.RegisterWithReceiver("ada", nil)) }, true},
		{func() { r.Run(fsmtest.Post("eve", nil), fsmtest.Post("eve", fsmtest.Mention("bob"))) }, false},
		{func() { r.Run(fsmtest.Post("eve", fsmtest.Mention("ada"))) }, true},
		{func() { r.BeginAll(command.Attempt{AgentKey: "ada", Delivery: 1, Number: 1}) }, true},
		{func() {
			r.Run(&command.AckDelivery{Attempt: command.Attempt{AgentKey: "ada", Delivery: 1, Number: 1}, Outcome: command.AttemptDelivered})
		}, true},
		{func() { r.Run(&command.Tick{}) }, false},
	} {
		step.do()
		check.Equal(t, woken(wake), step.want, "step %d", i)
	}
}
