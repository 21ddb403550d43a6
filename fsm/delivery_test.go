package fsm

import (
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

const (
	second = int64(1000)
	minute = 60 * second
)

// hooked registers an agent whose receiver has passed the check.
func hooked(agent string, change func(*command.Register)) *command.Register {
	return register(agent, "key of "+agent, func(c *command.Register) {
		c.Given |= command.FieldNotifyURL
		receives(c, "https://"+agent+".example.org/hook")
		if change != nil {
			change(c)
		}
	})
}

// receives sets the receiver of a command, which has passed the check. An empty one removes it.
func receives(c *command.Register, url string) {
	if c.NotifyURL, c.NotifySalt, c.NotifyVerified = url, nil, url != ""; url != "" {
		c.NotifySalt = salt(url)
	}
}

// rehook changes the receiver of a registered agent.
func rehook(agent, url string) *command.Register {
	return register(agent, "unused", func(c *command.Register) {
		c.Given, c.Description = command.FieldNotifyURL, ""
		receives(c, url)
		c.Proof.Key = keyHash("key of " + agent)
	})
}

// mention makes an entry name others.
func mention(names ...string) func(*command.Publish) {
	return func(p *command.Publish) { p.Mentions = names }
}

// later lets the log's next batch come so much later than it would have.
func (r *rig) later(millis int64) { r.log.stamp += millis }

// now is the instant of the newest log entry.
func (r *rig) now() int64 { return r.log.stamp }

func (r *rig) outbox(agent string) view.Outbox {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	o := must.Get(v.Outbox(agent))(r.t)
	return o
}

// A skip function that skips no agent.
func nobody(string) bool { return false }

// due returns what can be attempted at an instant.
func (r *rig) due(at int64) (due []outbox.Delivery) {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	must.Do(r.t, v.DueDeliveries(at, nobody, func(d outbox.Delivery) bool { due = append(due, d); return true }))
	next, ok, err := v.NextDelivery()
	if err != nil || (ok && next <= at) != (len(due) > 0) {
		r.t.Fatalf("the next delivery is due at %d, %v, %v, but at %d there are %d", next, ok, err, at, len(due))
	}
	return due
}

// beginAll begins attempts and returns those of them that have begun.
func (r *rig) beginAll(attempts ...command.Attempt) (begun []outbox.Delivery) {
	r.t.Helper()
	r.run(&command.BeginDeliveries{Holder: boot1, Attempts: attempts})
	v := r.View()
	defer v.Release()
	for _, a := range attempts {
		d, ok, err := v.Begun(boot1, a)
		if err != nil {
			r.t.Fatal(err)
		}
		if ok {
			begun = append(begun, d)
		}
	}
	return begun
}

// attempt begins the attempt that an agent has due and reports its outcome.
func (r *rig) attempt(agent string, outcome command.DeliveryOutcome, change func(*command.AckDelivery)) outbox.Delivery {
	r.t.Helper()
	for _, d := range r.due(r.now() + 1000) {
		if d.AgentKey != agent {
			continue
		}
		if begun := r.beginAll(d.NextAttempt()); len(begun) != 1 {
			r.t.Fatalf("begun: %+v", begun)
		}
		ack := &command.AckDelivery{Attempt: d.NextAttempt(), Outcome: outcome}
		if outcome != command.AttemptDelivered {
			ack.Reason = "status_500"
		}
		if change != nil {
			change(ack)
		}
		expect(r.t, r.run(ack)[0], command.OutcomeDone, "ack")
		return d
	}
	r.t.Fatalf("nothing is due for %s at %d: %+v", agent, r.now()+1000, r.outbox(agent))
	return outbox.Delivery{}
}

// summary says in a line what an agent sees of its deliveries, oldest first.
func (r *rig) summary(agent string) string {
	r.t.Helper()
	var words []string
	for _, d := range slices.Backward(r.outbox(agent).Newest) {
		word := strings.TrimPrefix(d.Kind.String(), "common.") + " " + state.FormatID(state.TypeEntry, d.Entry) + " " + d.Status.String()
		if d.Reason != "" {
			word += " " + d.Reason
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// TestWhatIsPushed holds for each kind of entry to whom it is pushed, and as what.
func TestWhatIsPushed(t *testing.T) {
	for name, tt := range map[string]struct {
		body command.Payload // on entry 1 of ada, entry 2 of bob, jobs 3 and 4 of ada; bob has claimed 4
		ada  string
		bob  string
	}{
		"reply":                    {post("eve", relate(command.RelationReply, 1)), "reply e6 waiting", ""},
		"correction":               {post("eve", relate(command.RelationCorrection, 1)), "", ""},
		"follow-up":                {post("eve", relate(command.RelationFollowUp, 1)), "", ""},
		"own retraction":           {post("ada", relate(command.RelationRetraction, 1)), "", ""},
		"own reply":                {post("ada", relate(command.RelationReply, 1)), "", ""},
		"mention":                  {post("eve", mention("ada")), "mention e6 waiting", ""},
		"two mentions":             {post("eve", mention("bob", "ada")), "mention e6 waiting", "mention e6 waiting"},
		"own mention":              {post("ada", mention("ada")), "", ""},
		"of somebody unregistered": {post("eve", mention("zoe")), "", ""},
		"reply that mentions": {post("eve", func(p *command.Publish) {
			relate(command.RelationReply, 1)(p)
			mention("ada", "bob")(p)
		}), "reply e6 waiting", "mention e6 waiting"},
		"correction that mentions": {post("eve", func(p *command.Publish) {
			relate(command.RelationCorrection, 1)(p)
			mention("ada")(p)
		}), "mention e6 waiting", ""},
		"claim of a job":  {claim("eve", 3), "reply e6 waiting", ""},
		"result of a job": {&command.FinishJob{JobAction: onJob("bob", 4), Result: "The result."}, "reply e6 waiting", ""},
		"answer to an entry that mentions": {post("eve", func(p *command.Publish) {
			relate(command.RelationReply, 2)(p)
		}), "", "reply e6 waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run(post("ada", nil), post("bob", mention("eve")), postJob("ada"), postJob("ada"), claim("bob", 4))
			r.run(hooked("ada", nil), hooked("bob", nil))
			expect(t, r.run(tt.body)[0], command.OutcomeDone, "result")
			if ada, bob := r.summary("ada"), r.summary("bob"); ada != tt.ada || bob != tt.bob {
				t.Errorf("ada: %q, want %q; bob: %q, want %q", ada, tt.ada, bob, tt.bob)
			}
		})
	}
}

// TestDeliveryIDs says what a webhook-id is made of.
func TestDeliveryIDs(t *testing.T) {
	r := newRig(t)
	r.run(hooked("ada", nil), hooked("bob", nil))
	r.run(post("eve", mention("ada", "bob")), post("eve", mention("ada")))
	seen := map[string]bool{}
	for _, agent := range []string{"ada", "bob"} {
		for _, d := range r.outbox(agent).Newest {
			if seen[d.ID] || strings.ContainsAny(d.ID, ". ") {
				t.Errorf("id %q", d.ID)
			}
			seen[d.ID] = true
		}
	}
	if !seen["w1-1-1hf7yavyg"] || len(seen) != 3 {
		t.Errorf("ids %v", seen)
	}
	first := r.due(r.now())[0].ID
	r.attempt("ada", command.AttemptFailed, nil)
	r.later(5 * second)
	if again := r.attempt("ada", command.AttemptDelivered, nil); again.ID != first || again.Attempts != 1 {
		t.Errorf("the second attempt: %+v, want id %s", again, first)
	}
}

// TestRetries follows a delivery through all its attempts.
func TestRetries(t *testing.T) {
	r := newRig(t)
	r.run(hooked("ada", nil))
	r.run(post("eve", mention("ada")))
	for i, pause := range []int64{5 * second, 5 * minute, 30 * minute, 120 * minute, 300 * minute} {
		r.attempt("ada", command.AttemptFailed, func(a *command.AckDelivery) { a.Jitter = 100 })
		pause += pause / 10
		want := r.now() + pause
		if first := r.outbox("ada").First; first.NextAt != want || first.Failures != uint64(i+1) || first.Status != outbox.DeliveryWaiting {
			t.Fatalf("after failure %d: %+v, want the next attempt at %d", i+1, first, want)
		}
		if early := r.due(want - 1); len(early) > 0 {
			t.Fatalf("due early, after failure %d: %+v", i+1, early)
		}
		r.later(pause)
	}
	r.attempt("ada", command.AttemptFailed, nil)
	r.run(post("eve", mention("ada")))
	check.Equal(t, r.summary("ada"), "mention e1 failed status_500, mention e2 waiting", "summary")
	if d := r.attempt("ada", command.AttemptDelivered, nil); d.Entry != 2 || d.URL != "https://ada.example.org/hook" {
		t.Errorf("the next delivery: %+v", d)
	}
	if got := r.outbox("ada"); r.summary("ada") != "mention e1 failed status_500, mention e2 delivered" || got.First != nil || got.Waiting != 0 {
		t.Errorf("%s, %+v", r.summary("ada"), got)
	}
}

// TestLeaderBehindLogTime holds that a leader whose clock is behind that of the one
// before sends what waits.
func TestLeaderBehindLogTime(t *testing.T) {
	r := newRig(t)
	r.run(hooked("ada", nil))
	r.run(post("eve", mention("ada")))
	r.later(-10 * minute)
	due := r.due(r.now())
	must.Equal(t, len(due), 1, "due: %+v", due)
	check.Equal(t, len(r.beginAll(due[0].NextAttempt())), 1, "begun")
}

func TestRetryAfterIsHonoured(t *testing.T) {
	r := newRig(t)
	r.run(hooked("ada", nil))
	r.run(post("eve", mention("ada")))
	for _, tt := range []struct{ retryAfter, want int64 }{{2 * second, 5 * second}, {600 * second, 600 * second}} {
		r.attempt("ada", command.AttemptFailed, func(a *command.AckDelivery) { a.RetryAfter = tt.retryAfter })
		check.Equal(t, r.outbox("ada").First.NextAt, r.now()+tt.want, "asked for %d: the next attempt after", tt.retryAfter)
		r.later(tt.want)
	}
}

// TestAttemptsHaveOneHolder lets a leader die while it sends.
func TestAttemptsHaveOneHolder(t *testing.T) {
	r := newRig(t)
	r.run(hooked("ada", nil))
	r.run(post("eve", mention("ada")), post("eve", mention("ada")))
	first := command.Attempt{AgentKey: "ada", Delivery: 1, Number: 1}
	if got := r.beginAll(command.Attempt{AgentKey: "ada", Delivery: 2, Number: 1}, command.Attempt{AgentKey: "ada", Delivery: 1, Number: 2}, command.Attempt{AgentKey: "bob", Delivery: 1, Number: 1}); len(got) > 0 {
		t.Fatalf("begun out of order: %+v", got)
	}
	must.Equal(t, len(r.beginAll(first)), 1, "attempts that have begun")
	begunAt := r.now()
	v := r.View()
	defer v.Release()
	if _, ok, err := v.Begun(command.BootID{9}, first); ok || err != nil {
		t.Errorf("it is another holder's, too: %v", err)
	}
	r.run(&command.BeginDeliveries{Holder: command.BootID{9}, Attempts: []command.Attempt{first}}, &command.BeginDeliveries{Holder: command.BootID{9}, Attempts: []command.Attempt{{AgentKey: "ada", Delivery: 1, Number: 2}}})
	check.Equal(t, r.summary("ada"), "mention e1 sending, mention e2 waiting", "summary")
	check.Empty(t, r.due(begunAt+outbox.DeliveryLease-1), "due while it is being sent")
	r.later(outbox.DeliveryLease)
	second := r.due(r.now() + 1000)[0].NextAttempt()
	if got := r.beginAll(second); len(got) != 1 || got[0].Attempts != 2 || got[0].Failures != 0 {
		t.Fatalf("the second attempt: %+v", got)
	}
	expect(t, r.run(&command.AckDelivery{Attempt: first, Outcome: command.AttemptFailed, Reason: "late"})[0], command.OutcomeUnchanged, "the outcome of the first attempt")
	r.run(&command.AckDelivery{Attempt: second, Outcome: command.AttemptDelivered})
	expect(t, r.run(&command.AckDelivery{Attempt: second, Outcome: command.AttemptFailed, Reason: "late"})[0], command.OutcomeUnchanged, "the outcome of an ended delivery")
	check.Equal(t, r.summary("ada"), "mention e1 delivered, mention e2 waiting", "summary")
}

// TestLostAttemptWaitsAgain has another delivery's turn come before that of one
// whose attempt was lost.
func TestLostAttemptWaitsAgain(t *testing.T) {
	r := newRig(t)
	r.run(hooked("ada", nil))
	r.run(post("eve", mention("ada")), post("eve", mention("ada")))
	r.attempt("ada", command.AttemptFailed, nil)
	lost := command.Attempt{AgentKey: "ada", Delivery: 2, Number: 1}
	must.Equal(t, len(r.beginAll(lost)), 1, "attempts that have begun")
	r.later(outbox.DeliveryLease)
	first := r.due(r.now())[0].NextAttempt()
	if got := r.beginAll(first); len(got) != 1 || got[0].Entry != 1 {
		t.Fatalf("begun: %+v, want the older one", got)
	}
	check.Equal(t, r.summary("ada"), "mention e1 sending status_500, mention e2 waiting", "summary")
	expect(t, r.run(&command.AckDelivery{Attempt: lost, Outcome: command.AttemptDelivered})[0], command.OutcomeUnchanged, "the outcome of the lost attempt")
	r.run(&command.AckDelivery{Attempt: first, Outcome: command.AttemptDelivered})
	if d := r.attempt("ada", command.AttemptDelivered, nil); d.Entry != 2 || d.Attempts != 1 {
		t.Errorf("the last one: %+v", d)
	}
}
