package fsm

import (
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestChangesOfTheReceiver takes the receiver away, in all ways, and gives others.
func TestChangesOfTheReceiver(t *testing.T) {
	const other = "https://other.example.org/"
	for name, tt := range map[string]struct {
		do   func(r *rig)
		want string
		url  string // empty if no delivery is due
	}{
		"another one": {
			func(r *rig) { r.run(rehook("ada", other)) },
			"mention e1 waiting status_500, mention e2 waiting", other,
		},
		"off": {
			func(r *rig) { r.run(rehook("ada", "")) },
			"mention e1 dropped hook_off, mention e2 dropped hook_off", "",
		},
		"off and on again": {
			func(r *rig) { r.run(rehook("ada", "")); r.run(rehook("ada", other), post("eve", mention("ada"))) },
			"mention e1 dropped hook_off, mention e2 dropped hook_off, mention e3 waiting", other,
		},
		"one that was not checked": {
			func(r *rig) {
				c := rehook("ada", other)
				c.NotifyVerified = false
				r.run(c)
				r.later(5 * second)
			},
			"mention e1 waiting status_500, mention e2 waiting", "https://ada.example.org/hook",
		},
		"a change without the key": {
			func(r *rig) {
				c := rehook("ada", other)
				c.Proof = command.Proof{}
				r.run(c)
				r.later(5 * second)
			},
			"mention e1 waiting status_500, mention e2 waiting", "https://ada.example.org/hook",
		},
		"gone": {
			func(r *rig) {
				r.later(5 * second)
				r.attempt("ada", command.AttemptGone, func(a *command.AckDelivery) { a.Reason = "status_410" })
				r.run(post("eve", mention("ada")))
			},
			"mention e1 failed status_410, mention e2 dropped hook_removed", "",
		},
		"the former one is gone": {
			func(r *rig) {
				r.later(5 * second)
				a := r.due(r.now())[0].NextAttempt()
				r.beginAll(a)
				r.run(rehook("ada", other))
				r.run(&command.AckDelivery{Attempt: a, Outcome: command.AttemptGone, Reason: "status_410"})
			},
			"mention e1 waiting status_410, mention e2 waiting", other,
		},
		"off while it is sent": {
			func(r *rig) {
				r.later(5 * second)
				a := r.due(r.now())[0].NextAttempt()
				r.beginAll(a)
				r.run(rehook("ada", ""))
				r.run(&command.AckDelivery{Attempt: a, Outcome: command.AttemptDelivered})
			},
			"mention e1 dropped hook_off, mention e2 dropped hook_off", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run(hooked("ada", nil))
			r.run(post("eve", mention("ada")), post("eve", mention("ada")))
			r.attempt("ada", command.AttemptFailed, nil)
			tt.do(r)
			check.Equal(t, r.summary("ada"), tt.want, "summary")
			due := r.due(r.now())
			if len(due) > 1 || (len(due) == 1) != (tt.url != "") || tt.url != "" && due[0].URL != tt.url {
				t.Errorf("due: %+v, want one to %q", due, tt.url)
			}
			v := r.View()
			defer v.Release()
			salt, err := v.NotifySalt("ada", tt.url)
			if on := salt != ""; err != nil || on != (tt.url != "") || r.outbox("ada").Active != on {
				t.Errorf("pushed to %q: %v, %v, outbox %+v", tt.url, on, err, r.outbox("ada"))
			}
			if doc, _ := r.profile("ada"); strings.Contains(doc, "hook") || strings.Contains(doc, "notify") {
				t.Errorf("the profile shows it: %s", doc)
			}
		})
	}
}

// TestEndsOfDeliveries holds what is reported of deliveries that end.
func TestEndsOfDeliveries(t *testing.T) {
	r := newRig(t)
	r.run(hooked("ada", nil), hooked("bob", nil))
	r.run(post("eve", mention("ada")))
	for _, pause := range outbox.RetryPauses {
		r.attempt("ada", command.AttemptFailed, nil)
		r.later(pause)
	}
	r.attempt("ada", command.AttemptFailed, nil)
	r.run(slices.Repeat([]command.Payload{post("eve", mention("ada", "bob"))}, command.MaxWaitingDeliveries+1)...)
	r.attempt("ada", command.AttemptDelivered, nil)
	r.attempt("ada", command.AttemptGone, func(a *command.AckDelivery) { a.Reason = "status_410" })
	r.run(rehook("bob", ""))
	type end struct {
		agent    string
		status   outbox.DeliveryStatus
		reason   string
		attempts uint64
		gone     bool
	}
	got, ids := map[end]int{}, map[string]bool{}
	for _, e := range r.obs.ended {
		got[end{e.AgentKey, e.Status, e.Reason, e.Attempts, e.Gone}]++
		ids[e.ID] = true
	}
	want := map[end]int{
		{"ada", outbox.DeliveryDropped, outbox.ReasonQueueFull, 0, false}: 1,
		{"ada", outbox.DeliveryDelivered, "", 1, false}:                   1,
		{"ada", outbox.DeliveryFailed, "status_500", 6, false}:            1,
		{"ada", outbox.DeliveryFailed, "status_410", 1, true}:             1,
		{"ada", outbox.DeliveryDropped, outbox.ReasonHookGone, 0, false}:  command.MaxWaitingDeliveries - 2,
		{"bob", outbox.DeliveryDropped, outbox.ReasonQueueFull, 0, false}: 1,
		{"bob", outbox.DeliveryDropped, outbox.ReasonHookOff, 0, false}:   command.MaxWaitingDeliveries,
	}
	check.Diff(t, got, want, "result")
	if len(ids) != 1+2*(command.MaxWaitingDeliveries+1) || !ids[r.outbox("ada").Newest[0].ID] {
		t.Errorf("%d ids", len(ids))
	}
}

// TestNewReceiverStartsAnew holds that a new receiver gets all the attempts, however
// often the former one failed, and also where it did so last.
func TestNewReceiverStartsAnew(t *testing.T) {
	const other = "https://other.example.org/"
	for name, change := range map[string]func(r *rig){
		"between attempts": func(r *rig) { r.run(rehook("ada", other)) },
		"while it is sent": func(r *rig) {
			a := r.due(r.now() + 5*60*minute)[0].NextAttempt()
			r.later(5 * 60 * minute)
			r.beginAll(a)
			r.run(rehook("ada", other), &command.AckDelivery{Attempt: a, Outcome: command.AttemptFailed, Reason: "timeout"})
		},
		"after an attempt without an outcome": func(r *rig) {
			a := r.due(r.now() + 5*60*minute)[0].NextAttempt()
			r.later(5 * 60 * minute)
			r.beginAll(a)
			r.run(rehook("ada", other))
			r.later(outbox.DeliveryLease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run(hooked("ada", nil))
			r.run(post("eve", mention("ada")))
			for _, pause := range outbox.RetryPauses {
				r.attempt("ada", command.AttemptFailed, nil)
				r.later(pause)
			}
			change(r)
			for i, pause := range outbox.RetryPauses {
				r.attempt("ada", command.AttemptFailed, nil)
				if o := r.outbox("ada"); o.First == nil || o.First.NextAt != r.now()+pause {
					t.Fatalf("after failure %d of the new receiver: %+v, want the next attempt in %d ms", i+1, o.First, pause)
				}
				r.later(pause)
			}
			r.attempt("ada", command.AttemptFailed, nil)
			check.Equal(t, r.summary("ada"), "mention e1 failed status_500", "after the last failure")
		})
	}
}

// TestReceiverIsAskedForOnce says when a receiver that is sent again has to have
// passed the check again.
func TestReceiverIsAskedForOnce(t *testing.T) {
	const url = "https://ada.example.org/hook"
	keyed := func(c *command.Register) { c.Request = command.RequestKey{Scope: "ada", ID: "request-1"} }
	unchecked := func(c *command.Register) *command.Register { c.NotifyVerified = false; return c }
	rejected := func(p command.Problem) command.Result {
		return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{p}}
	}
	r := newRig(t)
	for i, step := range []struct {
		c    *command.Register
		want command.Result
		on   bool
	}{
		{unchecked(hooked("ada", nil)), rejected(command.ProblemUnchecked), false},
		{unchecked(hooked("ada", func(c *command.Register) { c.Description, c.Given = "", command.FieldNotifyURL })), rejected(command.ProblemNoDescription), false},
		{hooked("ada", keyed), command.Result{Outcome: command.OutcomeDone, KeyIssued: true, RecoveryIssued: true}, true},
		{hooked("ada", keyed), command.Result{Outcome: command.OutcomeDuplicate, KeyIssued: true, RecoveryIssued: true}, true}, // the keys are made anew
		{unchecked(hooked("ada", func(c *command.Register) { c.Proof.Sender = "" })), command.Result{Outcome: command.OutcomeUnchanged}, true},
		{unchecked(rehook("ada", url)), command.Result{Outcome: command.OutcomeUnchanged}, true},
		{unchecked(rehook("ada", url+"/2")), rejected(command.ProblemUnchecked), true},
		{rehook("ada", ""), command.Result{Outcome: command.OutcomeDone}, false},
		{unchecked(rehook("ada", url)), rejected(command.ProblemUnchecked), false},
		{rehook("ada", url), command.Result{Outcome: command.OutcomeDone}, true},
	} {
		check.Diff(t, r.run(step.c)[0], step.want, "step %d", i)
		v := r.View()
		salt, err := v.NotifySalt("ada", url)
		v.Release()
		if err != nil || (salt != "") != step.on {
			t.Errorf("step %d: pushed: %q, %v", i, salt, err)
		}
	}
}

func TestTestDelivery(t *testing.T) {
	r := newRig(t)
	r.run(hooked("ada", nil), register("bob", "key of bob", nil))
	ask := func(agent, key string) *command.TestDelivery {
		c := &command.TestDelivery{AgentKey: agent}
		if key != "" {
			c.Proof.Key = keyHash(key)
		}
		return c
	}
	for _, tt := range []struct {
		c    *command.TestDelivery
		want command.Result
	}{
		{ask("ada", "key of ada"), command.Result{Outcome: command.OutcomeDone, Entry: 1}},
		{ask("ada", "key of bob"), command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemWrongKey}}},
		{ask("ada", ""), command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemNoKey}}},
		{ask("eve", "key of eve"), command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemUnknownAgent}}},
		{ask("bob", "key of bob"), command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemNoHook}}},
	} {
		check.Diff(t, r.run(tt.c)[0], tt.want, "%+v", tt.c)
	}
	d := r.attempt("ada", command.AttemptDelivered, nil)
	check.Equal(t, d.Kind, outbox.DeliveryTest, "%+v: kind", d)
	check.Equal(t, d.Entry, 0, "%+v: entry", d)
}

// TestDeliveriesSurviveRestart opens the state again, and goes on.
func TestDeliveriesSurviveRestart(t *testing.T) {
	r := newRig(t)
	r.run(hooked("ada", nil), hooked("bob", nil))
	r.run(post("eve", mention("ada", "bob")), post("eve", mention("ada")), rehook("bob", ""))
	r.attempt("ada", command.AttemptFailed, nil)
	want := r.outbox("ada")
	must.Do(t, r.Close())
	r.Machine = openAt(t, r.opts.Dir, func(o *Options) { o.Observer = r.obs })
	check.Diff(t, r.outbox("ada"), want, "the outbox")
	r.run(post("eve", mention("ada", "bob")))
	if ada, bob := r.summary("ada"), r.summary("bob"); ada != "mention e1 waiting status_500, mention e2 waiting, mention e3 waiting" || bob != "mention e1 dropped hook_off" {
		t.Errorf("ada: %s; bob: %s", ada, bob)
	}
	r.later(5 * second)
	r.attempt("ada", command.AttemptDelivered, nil)
	if due := r.due(r.now()); len(due) != 1 || due[0].Entry != 2 {
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
		{func() { r.run(hooked("ada", nil)) }, true},
		{func() { r.run(post("eve", nil), post("eve", mention("bob"))) }, false},
		{func() { r.run(post("eve", mention("ada"))) }, true},
		{func() { r.beginAll(command.Attempt{AgentKey: "ada", Delivery: 1, Number: 1}) }, true},
		{func() {
			r.run(&command.AckDelivery{Attempt: command.Attempt{AgentKey: "ada", Delivery: 1, Number: 1}, Outcome: command.AttemptDelivered})
		}, true},
		{func() { r.run(&command.Tick{}) }, false},
	} {
		step.do()
		check.Equal(t, woken(wake), step.want, "step %d", i)
	}
}
