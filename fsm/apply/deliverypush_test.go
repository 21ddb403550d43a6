package apply_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/internal/check"
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
			func(r *rig) { r.Run(fsmtest.ChangeReceiver("ada", other)) },
			"mention e1 waiting status_500, mention e2 waiting", other,
		},
		"off": {
			func(r *rig) { r.Run(fsmtest.ChangeReceiver("ada", "")) },
			"mention e1 dropped hook_off, mention e2 dropped hook_off", "",
		},
		"off and on again": {
			func(r *rig) {
				r.Run(fsmtest.ChangeReceiver("ada", ""))
				r.Run(fsmtest.ChangeReceiver("ada", other), fsmtest.Post("eve", fsmtest.Mention("ada")))
			},
			"mention e1 dropped hook_off, mention e2 dropped hook_off, mention e3 waiting", other,
		},
		"one that was not checked": {
			func(r *rig) {
				c := fsmtest.ChangeReceiver("ada", other)
				c.NotifyVerified = false
				r.Run(c)
				r.Later(5 * fsmtest.Second)
			},
			"mention e1 waiting status_500, mention e2 waiting", "https://ada.example.org/hook",
		},
		"a change without the key": {
			func(r *rig) {
				c := fsmtest.ChangeReceiver("ada", other)
				c.Proof = command.Proof{}
				r.Run(c)
				r.Later(5 * fsmtest.Second)
			},
			"mention e1 waiting status_500, mention e2 waiting", "https://ada.example.org/hook",
		},
		"gone": {
			func(r *rig) {
				r.Later(5 * fsmtest.Second)
				r.Attempt("ada", command.AttemptGone, func(a *command.AckDelivery) { a.Reason = "status_410" })
				r.Run(fsmtest.Post("eve", fsmtest.Mention("ada")))
			},
			"mention e1 failed status_410, mention e2 dropped hook_removed", "",
		},
		"the former one is gone": {
			func(r *rig) {
				r.Later(5 * fsmtest.Second)
				a := r.Due(r.Now())[0].NextAttempt()
				r.BeginAll(a)
				r.Run(fsmtest.ChangeReceiver("ada", other))
				r.Run(&command.AckDelivery{Attempt: a, Outcome: command.AttemptGone, Reason: "status_410"})
			},
			"mention e1 waiting status_410, mention e2 waiting", other,
		},
		"off while it is sent": {
			func(r *rig) {
				r.Later(5 * fsmtest.Second)
				a := r.Due(r.Now())[0].NextAttempt()
				r.BeginAll(a)
				r.Run(fsmtest.ChangeReceiver("ada", ""))
				r.Run(&command.AckDelivery{Attempt: a, Outcome: command.AttemptDelivered})
			},
			"mention e1 dropped hook_off, mention e2 dropped hook_off", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Run(fsmtest.RegisterWithReceiver("ada", nil))
			r.Run(fsmtest.Post("eve", fsmtest.Mention("ada")), fsmtest.Post("eve", fsmtest.Mention("ada")))
			r.Attempt("ada", command.AttemptFailed, nil)
			tt.do(r)
			check.Equal(t, r.Summary("ada"), tt.want, "summary")
			due := r.Due(r.Now())
			if len(due) > 1 || (len(due) == 1) != (tt.url != "") || tt.url != "" && due[0].URL != tt.url {
				t.Errorf("due: %+v, want one to %q", due, tt.url)
			}
			v := r.View()
			defer v.Release()
			salt, err := v.NotifySalt("ada", tt.url)
			if on := salt != ""; err != nil || on != (tt.url != "") || r.Outbox("ada").Active != on {
				t.Errorf("pushed to %q: %v, %v, outbox %+v", tt.url, on, err, r.Outbox("ada"))
			}
			if doc, _ := r.Profile("ada"); strings.Contains(doc, "hook") || strings.Contains(doc, "notify") {
				t.Errorf("the profile shows it: %s", doc)
			}
		})
	}
}

// TestNewReceiverStartsAnew holds that a new receiver gets all the attempts, however
// often the former one failed, and also where it did so last.
func TestNewReceiverStartsAnew(t *testing.T) {
	const other = "https://other.example.org/"
	for name, change := range map[string]func(r *rig){
		"between attempts": func(r *rig) { r.Run(fsmtest.ChangeReceiver("ada", other)) },
		"while it is sent": func(r *rig) {
			a := r.Due(r.Now() + 5*60*fsmtest.Minute)[0].NextAttempt()
			r.Later(5 * 60 * fsmtest.Minute)
			r.BeginAll(a)
			r.Run(fsmtest.ChangeReceiver("ada", other), &command.AckDelivery{Attempt: a, Outcome: command.AttemptFailed, Reason: "timeout"})
		},
		"after an attempt without an outcome": func(r *rig) {
			a := r.Due(r.Now() + 5*60*fsmtest.Minute)[0].NextAttempt()
			r.Later(5 * 60 * fsmtest.Minute)
			r.BeginAll(a)
			r.Run(fsmtest.ChangeReceiver("ada", other))
			r.Later(outbox.DeliveryLease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Run(fsmtest.RegisterWithReceiver("ada", nil))
			r.Run(fsmtest.Post("eve", fsmtest.Mention("ada")))
			for _, pause := range outbox.RetryPauses {
				r.Attempt("ada", command.AttemptFailed, nil)
				r.Later(pause)
			}
			change(r)
			for i, pause := range outbox.RetryPauses {
				r.Attempt("ada", command.AttemptFailed, nil)
				if o := r.Outbox("ada"); o.First == nil || o.First.NextAt != r.Now()+pause {
					t.Fatalf("after failure %d of the new receiver: %+v, want the next attempt in %d ms", i+1, o.First, pause)
				}
				r.Later(pause)
			}
			r.Attempt("ada", command.AttemptFailed, nil)
			check.Equal(t, r.Summary("ada"), "mention e1 failed status_500", "after the last failure")
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
		{unchecked(fsmtest.RegisterWithReceiver("ada", nil)), rejected(command.ProblemUnchecked), false},
		{unchecked(fsmtest.RegisterWithReceiver("ada", func(c *command.Register) { c.Description, c.Given = "", command.FieldNotifyURL })), rejected(command.ProblemNoDescription), false},
		{fsmtest.RegisterWithReceiver("ada", keyed), command.Result{Outcome: command.OutcomeDone, KeyIssued: true, RecoveryIssued: true}, true},
		{fsmtest.RegisterWithReceiver("ada", keyed), command.Result{Outcome: command.OutcomeDuplicate, KeyIssued: true, RecoveryIssued: true}, true}, // the keys are made anew
		{unchecked(fsmtest.RegisterWithReceiver("ada", func(c *command.Register) { c.Proof.Sender = "" })), command.Result{Outcome: command.OutcomeUnchanged}, true},
		{unchecked(fsmtest.ChangeReceiver("ada", url)), command.Result{Outcome: command.OutcomeUnchanged}, true},
		{unchecked(fsmtest.ChangeReceiver("ada", url+"/2")), rejected(command.ProblemUnchecked), true},
		{fsmtest.ChangeReceiver("ada", ""), command.Result{Outcome: command.OutcomeDone}, false},
		{unchecked(fsmtest.ChangeReceiver("ada", url)), rejected(command.ProblemUnchecked), false},
		{fsmtest.ChangeReceiver("ada", url), command.Result{Outcome: command.OutcomeDone}, true},
	} {
		check.Diff(t, r.Run(step.c)[0], step.want, "step %d", i)
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
	r.Run(fsmtest.RegisterWithReceiver("ada", nil), fsmtest.Register("bob", "key of bob", nil))
	ask := func(agent, key string) *command.TestDelivery {
		c := &command.TestDelivery{AgentKey: agent}
		if key != "" {
			c.Proof.Key = fsmtest.KeyHash(key)
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
		check.Diff(t, r.Run(tt.c)[0], tt.want, "%+v", tt.c)
	}
	d := r.Attempt("ada", command.AttemptDelivered, nil)
	check.Equal(t, d.Kind, outbox.DeliveryTest, "%+v: kind", d)
	check.Equal(t, d.Entry, 0, "%+v: entry", d)
}

// TestEndsOfDeliveries holds what is reported of deliveries that end.
func TestEndsOfDeliveries(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil), fsmtest.RegisterWithReceiver("bob", nil))
	r.Run(fsmtest.Post("eve", fsmtest.Mention("ada")))
	for _, pause := range outbox.RetryPauses {
		r.Attempt("ada", command.AttemptFailed, nil)
		r.Later(pause)
	}
	r.Attempt("ada", command.AttemptFailed, nil)
	r.Run(slices.Repeat([]command.Payload{fsmtest.Post("eve", fsmtest.Mention("ada", "bob"))}, command.MaxWaitingDeliveries+1)...)
	r.Attempt("ada", command.AttemptDelivered, nil)
	r.Attempt("ada", command.AttemptGone, func(a *command.AckDelivery) { a.Reason = "status_410" })
	r.Run(fsmtest.ChangeReceiver("bob", ""))
	type end struct {
		agent    string
		status   outbox.DeliveryStatus
		reason   string
		attempts uint64
		gone     bool
	}
	got, ids := map[end]int{}, map[string]bool{}
	for _, e := range r.Ended {
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
	if len(ids) != 1+2*(command.MaxWaitingDeliveries+1) || !ids[r.Outbox("ada").Newest[0].ID] {
		t.Errorf("%d ids", len(ids))
	}
}
