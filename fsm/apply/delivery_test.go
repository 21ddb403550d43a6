package apply_test

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestWhatIsPushed holds for each kind of entry to whom it is pushed, and as what.
func TestWhatIsPushed(t *testing.T) {
	for name, tt := range map[string]struct {
		body command.Payload // on entry 1 of ada, entry 2 of bob, jobs 3 and 4 of ada; bob has claimed 4
		ada  string
		bob  string
	}{
		"reply":                    {fsmtest.Post("eve", fsmtest.Relate(command.RelationReply, 1)), "reply e6 waiting", ""},
		"correction":               {fsmtest.Post("eve", fsmtest.Relate(command.RelationCorrection, 1)), "", ""},
		"follow-up":                {fsmtest.Post("eve", fsmtest.Relate(command.RelationFollowUp, 1)), "", ""},
		"own retraction":           {fsmtest.Post("ada", fsmtest.Relate(command.RelationRetraction, 1)), "", ""},
		"own reply":                {fsmtest.Post("ada", fsmtest.Relate(command.RelationReply, 1)), "", ""},
		"mention":                  {fsmtest.Post("eve", fsmtest.Mention("ada")), "mention e6 waiting", ""},
		"two mentions":             {fsmtest.Post("eve", fsmtest.Mention("bob", "ada")), "mention e6 waiting", "mention e6 waiting"},
		"own mention":              {fsmtest.Post("ada", fsmtest.Mention("ada")), "", ""},
		"of somebody unregistered": {fsmtest.Post("eve", fsmtest.Mention("zoe")), "", ""},
		"reply that mentions": {fsmtest.Post("eve", func(p *command.Publish) {
			fsmtest.Relate(command.RelationReply, 1)(p)
			fsmtest.Mention("ada", "bob")(p)
		}), "reply e6 waiting", "mention e6 waiting"},
		"correction that mentions": {fsmtest.Post("eve", func(p *command.Publish) {
			fsmtest.Relate(command.RelationCorrection, 1)(p)
			fsmtest.Mention("ada")(p)
		}), "mention e6 waiting", ""},
		"claim of a job":  {fsmtest.Claim("eve", 3), "reply e6 waiting", ""},
		"result of a job": {&command.FinishJob{JobAction: fsmtest.OnJob("bob", 4), Result: "The result."}, "reply e6 waiting", ""},
		"answer to an entry that mentions": {fsmtest.Post("eve", func(p *command.Publish) {
			fsmtest.Relate(command.RelationReply, 2)(p)
		}), "", "reply e6 waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Run(fsmtest.Post("ada", nil), fsmtest.Post("bob", fsmtest.Mention("eve")), fsmtest.PostJob("ada"), fsmtest.PostJob("ada"), fsmtest.Claim("bob", 4))
			r.Run(fsmtest.RegisterWithReceiver("ada", nil), fsmtest.RegisterWithReceiver("bob", nil))
			fsmtest.Expect(t, r.Run(tt.body)[0], command.OutcomeDone, "result")
			if ada, bob := r.Summary("ada"), r.Summary("bob"); ada != tt.ada || bob != tt.bob {
				t.Errorf("ada: %q, want %q; bob: %q, want %q", ada, tt.ada, bob, tt.bob)
			}
		})
	}
}

// TestDeliveryIDs says what a webhook-id is made of.
func TestDeliveryIDs(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil), fsmtest.RegisterWithReceiver("bob", nil))
	r.Run(fsmtest.Post("eve", fsmtest.Mention("ada", "bob")), fsmtest.Post("eve", fsmtest.Mention("ada")))
	seen := map[string]bool{}
	for _, agent := range []string{"ada", "bob"} {
		for _, d := range r.Outbox(agent).Newest {
			if seen[d.ID] || strings.ContainsAny(d.ID, ". ") {
				t.Errorf("id %q", d.ID)
			}
			seen[d.ID] = true
		}
	}
	if !seen["w1-1-1hf7yavyg"] || len(seen) != 3 {
		t.Errorf("ids %v", seen)
	}
	first := r.Due(r.Now())[0].ID
	r.Attempt("ada", command.AttemptFailed, nil)
	r.Later(5 * fsmtest.Second)
	if again := r.Attempt("ada", command.AttemptDelivered, nil); again.ID != first || again.Attempts != 1 {
		t.Errorf("the second attempt: %+v, want id %s", again, first)
	}
}

// TestRetries follows a delivery through all its attempts.
func TestRetries(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	r.Run(fsmtest.Post("eve", fsmtest.Mention("ada")))
	for i, pause := range []int64{5 * fsmtest.Second, 5 * fsmtest.Minute, 30 * fsmtest.Minute, 120 * fsmtest.Minute, 300 * fsmtest.Minute} {
		r.Attempt("ada", command.AttemptFailed, func(a *command.AckDelivery) { a.Jitter = 100 })
		pause += pause / 10
		want := r.Now() + pause
		if first := r.Outbox("ada").First; first.NextAt != want || first.Failures != uint64(i+1) || first.Status != outbox.DeliveryWaiting {
			t.Fatalf("after failure %d: %+v, want the next attempt at %d", i+1, first, want)
		}
		check.Empty(t, r.Due(want-1), "due early, after failure %d", i+1)
		r.Later(pause)
	}
	r.Attempt("ada", command.AttemptFailed, nil)
	r.Run(fsmtest.Post("eve", fsmtest.Mention("ada")))
	check.Equal(t, r.Summary("ada"), "mention e1 failed status_500, mention e2 waiting", "summary")
	if d := r.Attempt("ada", command.AttemptDelivered, nil); d.Entry != 2 || d.URL != "https://ada.example.org/hook" {
		t.Errorf("the next delivery: %+v", d)
	}
	if got := r.Outbox("ada"); r.Summary("ada") != "mention e1 failed status_500, mention e2 delivered" || got.First != nil || got.Waiting != 0 {
		t.Errorf("%s, %+v", r.Summary("ada"), got)
	}
}

// TestLeaderBehindLogTime holds that a leader whose clock is behind that of the one
// before sends what waits.
func TestLeaderBehindLogTime(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	r.Run(fsmtest.Post("eve", fsmtest.Mention("ada")))
	r.Later(-10 * fsmtest.Minute)
	due := r.Due(r.Now())
	must.Equal(t, len(due), 1, "due: %+v", due)
	check.Equal(t, len(r.BeginAll(due[0].NextAttempt())), 1, "begun")
}

func TestRetryAfterIsHonoured(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	r.Run(fsmtest.Post("eve", fsmtest.Mention("ada")))
	for _, tt := range []struct{ retryAfter, want int64 }{{2 * fsmtest.Second, 5 * fsmtest.Second}, {600 * fsmtest.Second, 600 * fsmtest.Second}} {
		r.Attempt("ada", command.AttemptFailed, func(a *command.AckDelivery) { a.RetryAfter = tt.retryAfter })
		check.Equal(t, r.Outbox("ada").First.NextAt, r.Now()+tt.want, "asked for %d: the next attempt after", tt.retryAfter)
		r.Later(tt.want)
	}
}

// TestAttemptsHaveOneHolder lets a leader die while it sends.
func TestAttemptsHaveOneHolder(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	r.Run(fsmtest.Post("eve", fsmtest.Mention("ada")), fsmtest.Post("eve", fsmtest.Mention("ada")))
	first := command.Attempt{AgentKey: "ada", Delivery: 1, Number: 1}
	if got := r.BeginAll(command.Attempt{AgentKey: "ada", Delivery: 2, Number: 1}, command.Attempt{AgentKey: "ada", Delivery: 1, Number: 2}, command.Attempt{AgentKey: "bob", Delivery: 1, Number: 1}); len(got) > 0 {
		t.Fatalf("begun out of order: %+v", got)
	}
	must.Equal(t, len(r.BeginAll(first)), 1, "attempts that have begun")
	begunAt := r.Now()
	v := r.View()
	defer v.Release()
	if _, ok, err := v.Begun(command.BootID{9}, first); ok || err != nil {
		t.Errorf("it is another holder's, too: %v", err)
	}
	r.Run(&command.BeginDeliveries{Holder: command.BootID{9}, Attempts: []command.Attempt{first}}, &command.BeginDeliveries{Holder: command.BootID{9}, Attempts: []command.Attempt{{AgentKey: "ada", Delivery: 1, Number: 2}}})
	check.Equal(t, r.Summary("ada"), "mention e1 sending, mention e2 waiting", "summary")
	check.Empty(t, r.Due(begunAt+outbox.DeliveryLease-1), "due while it is being sent")
	r.Later(outbox.DeliveryLease)
	second := r.Due(r.Now() + 1000)[0].NextAttempt()
	if got := r.BeginAll(second); len(got) != 1 || got[0].Attempts != 2 || got[0].Failures != 0 {
		t.Fatalf("the second attempt: %+v", got)
	}
	fsmtest.Expect(t, r.Run(&command.AckDelivery{Attempt: first, Outcome: command.AttemptFailed, Reason: "late"})[0], command.OutcomeUnchanged, "the outcome of the first attempt")
	r.Run(&command.AckDelivery{Attempt: second, Outcome: command.AttemptDelivered})
	fsmtest.Expect(t, r.Run(&command.AckDelivery{Attempt: second, Outcome: command.AttemptFailed, Reason: "late"})[0], command.OutcomeUnchanged, "the outcome of an ended delivery")
	check.Equal(t, r.Summary("ada"), "mention e1 delivered, mention e2 waiting", "summary")
}

// TestLostAttemptWaitsAgain has another delivery's turn come before that of one
// whose attempt was lost.
func TestLostAttemptWaitsAgain(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	r.Run(fsmtest.Post("eve", fsmtest.Mention("ada")), fsmtest.Post("eve", fsmtest.Mention("ada")))
	r.Attempt("ada", command.AttemptFailed, nil)
	lost := command.Attempt{AgentKey: "ada", Delivery: 2, Number: 1}
	must.Equal(t, len(r.BeginAll(lost)), 1, "attempts that have begun")
	r.Later(outbox.DeliveryLease)
	first := r.Due(r.Now())[0].NextAttempt()
	if got := r.BeginAll(first); len(got) != 1 || got[0].Entry != 1 {
		t.Fatalf("begun: %+v, want the older one", got)
	}
	check.Equal(t, r.Summary("ada"), "mention e1 sending status_500, mention e2 waiting", "summary")
	fsmtest.Expect(t, r.Run(&command.AckDelivery{Attempt: lost, Outcome: command.AttemptDelivered})[0], command.OutcomeUnchanged, "the outcome of the lost attempt")
	r.Run(&command.AckDelivery{Attempt: first, Outcome: command.AttemptDelivered})
	if d := r.Attempt("ada", command.AttemptDelivered, nil); d.Entry != 2 || d.Attempts != 1 {
		t.Errorf("the last one: %+v", d)
	}
}
