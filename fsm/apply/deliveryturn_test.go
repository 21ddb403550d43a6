package apply_test

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// mentions has one sender mention an agent so often.
func (r *rig) mentions(agent string, n int, change func(*command.Publish)) {
	r.T.Helper()
	for range n {
		p := fsmtest.Post("eve", fsmtest.Mention(agent))
		if change != nil {
			change(p)
		}
		r.Run(p)
	}
}

// from makes an entry that of an unproven sender.
func from(sender string) func(*command.Publish) {
	return func(p *command.Publish) { p.Proof.Sender = sender }
}

// byKey makes an entry that of an agent with its key.
func byKey(agent string) func(*command.Publish) {
	return func(p *command.Publish) {
		p.Agent, p.AgentKey, p.Proof.Key = agent, agent, fsmtest.KeyHash("key of "+agent)
	}
}

// TestFailingEventBlocksNoOther holds that an event which fails waits for its own
// turn, and that the others go on in order.
func TestFailingEventBlocksNoOther(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	r.mentions("ada", 4, nil)
	must.Equal(t, r.Attempt("ada", command.AttemptFailed, nil).Entry, 1, "first")
	own := r.Now() + 5*fsmtest.Second
	for entry := uint64(2); entry <= 4; entry++ {
		r.Stamp = own - 4500 // they do not wait for it
		check.Equal(t, r.Attempt("ada", command.AttemptDelivered, nil).Entry, entry, "next")
	}
	o := r.Outbox("ada")
	if o.First == nil || o.First.Entry != 1 || o.First.NextAt != own {
		t.Fatalf("left: %+v, want entry 1 at %d", o.First, own)
	}
	r.mentions("ada", 2, nil)
	if next := r.Outbox("ada"); next.First.Entry != 5 || next.Newest[5].NextAt != own {
		t.Errorf("next %+v, and %+v at %d", next.First, next.Newest[5], own)
	}
	r.Stamp = own
	for _, entry := range []uint64{1, 5, 6} {
		check.Equal(t, r.Attempt("ada", command.AttemptDelivered, nil).Entry, entry, "next")
	}
}

// TestReceiverThatIsDown holds that events wait together while a receiver is down, that one
// at a time probes, and that all are due at once after it took one.
func TestReceiverThatIsDown(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	r.mentions("ada", 5, nil)
	for entry := uint64(1); entry <= 3; entry++ {
		must.Equal(t, r.Attempt("ada", command.AttemptFailed, nil).Entry, entry, "entry of the attempt")
	}
	for i, probe := range []struct {
		entry, failures uint64 // of the delivery, afterwards
		pause           int64  // before it
	}{
		{4, 1, 5 * fsmtest.Second},
		{5, 1, 10 * fsmtest.Second},
		{1, 2, 20 * fsmtest.Second},
		{2, 2, 40 * fsmtest.Second},
		{3, 2, 80 * fsmtest.Second},
		{4, 2, 160 * fsmtest.Second},
		{5, 2, 320 * fsmtest.Second},
		{1, 3, 600 * fsmtest.Second},
		{2, 3, 600 * fsmtest.Second},
	} {
		at := r.Now() + probe.pause
		if o := r.Outbox("ada"); o.First.NextAt != at || len(r.Due(at-1)) > 0 {
			t.Fatalf("probe %d: next %+v, want it at %d", i, o.First, at)
		}
		r.Stamp = at - 1000
		check.Equal(t, r.Attempt("ada", command.AttemptFailed, nil).Entry, probe.entry, "probe %d", i)
		must.Equal(t, r.Outbox("ada").Newest[5-probe.entry].Failures, probe.failures, "probe %d: failures", i)
	}
	r.mentions("ada", 1, nil)
	r.Later(10 * fsmtest.Minute)
	for _, entry := range []uint64{6, 1, 2, 3, 4, 5} {
		check.Equal(t, r.Attempt("ada", command.AttemptDelivered, nil).Entry, entry, "after the outage")
	}
}

// TestEventsAfterAnOutage holds that what failed meanwhile does not wait for its
// own turn when the receiver has taken something.
func TestEventsAfterAnOutage(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	r.mentions("ada", 3, nil)
	for range 3 {
		r.Attempt("ada", command.AttemptFailed, nil)
	}
	r.Later(5 * fsmtest.Second)
	r.Attempt("ada", command.AttemptFailed, nil)
	own := r.Now() + 5*fsmtest.Minute // the second time for the first one
	r.mentions("ada", 1, nil)
	r.Later(10 * fsmtest.Second)
	for _, entry := range []uint64{4, 1, 2, 3} {
		check.Equal(t, r.Attempt("ada", command.AttemptDelivered, nil).Entry, entry, "after the outage")
	}
	if r.Now() > own-4*fsmtest.Minute {
		t.Errorf("the last one came at %d, the first one's own turn was at %d", r.Now(), own)
	}
}

// TestEventThatIsNeverTaken holds that an event which a receiver never takes holds up
// no other that failed in an outage.
func TestEventThatIsNeverTaken(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	r.mentions("ada", 5, nil)
	for _, probe := range []struct {
		entry   uint64
		outcome command.DeliveryOutcome
	}{
		{1, command.AttemptFailed},
		{2, command.AttemptFailed},
		{3, command.AttemptFailed},
		{4, command.AttemptFailed},
		{5, command.AttemptFailed},
		{1, command.AttemptFailed},
		{2, command.AttemptDelivered},
		{1, command.AttemptFailed},
		{3, command.AttemptDelivered},
		{4, command.AttemptDelivered},
		{5, command.AttemptDelivered},
	} {
		r.Stamp = max(r.Now(), r.Outbox("ada").First.NextAt-1000)
		must.Equal(t, r.Attempt("ada", probe.outcome, nil).Entry, probe.entry, "entry of the attempt")
	}
}

// TestEventsThatAreRejected holds that events which a well receiver does not take
// keep to their turns, also while it counts as down because of them and takes others.
func TestEventsThatAreRejected(t *testing.T) {
	for name, every := range map[string]int64{"many others": 30 * fsmtest.Second, "few others": 60 * fsmtest.Second} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Run(fsmtest.RegisterWithReceiver("ada", nil))
			r.mentions("ada", 3, from("rejected"))
			end := r.Now() + 15*fsmtest.Minute
			for next := r.Now(); r.Now() < end; {
				first := r.Outbox("ada").First
				if first == nil || first.NextAt > next {
					r.Stamp = max(r.Now(), next-1000)
					r.mentions("ada", 1, from("other"))
					next += every
					continue
				}
				r.Stamp = max(r.Now(), first.NextAt-1000)
				outcome := command.AttemptDelivered
				if r.Due(r.Now() + 1000)[0].Entry <= 3 {
					outcome = command.AttemptFailed
				}
				r.Attempt("ada", outcome, nil)
			}
			const most = 4 // three turns, after 0 s, 5 s and 5 min, and one for an outage
			list := r.Outbox("ada").Newest
			for _, d := range list[len(list)-3:] {
				if d.Entry > 3 || d.Status != outbox.DeliveryWaiting || d.Failures > most {
					t.Errorf("after 15 minutes %+v, want at most %d failures", d, most)
				}
			}
		})
	}
}

// TestRetryAfterOfAReceiverThatIsDown holds that no event probes before.
func TestRetryAfterOfAReceiverThatIsDown(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	r.mentions("ada", 4, nil)
	for range 3 {
		r.Attempt("ada", command.AttemptFailed, func(a *command.AckDelivery) { a.RetryAfter = 20 * fsmtest.Minute })
	}
	if o := r.Outbox("ada"); o.First.Entry != 4 || o.First.NextAt != r.Now()+20*fsmtest.Minute {
		t.Errorf("next %+v, want entry 4 in 20 minutes of %d", o.First, r.Now())
	}
}

// TestTestEventProbes holds that an agent does not have to wait for the next probe.
func TestTestEventProbes(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	r.mentions("ada", 4, nil)
	for range 3 {
		r.Attempt("ada", command.AttemptFailed, nil)
	}
	ask := &command.TestDelivery{AgentKey: "ada", Proof: command.Proof{Key: fsmtest.KeyHash("key of ada")}}
	r.Run(ask)
	must.Equal(t, r.Attempt("ada", command.AttemptDelivered, nil).Kind, outbox.DeliveryTest, "kind")
	if due := r.Due(r.Now()); len(due) != 1 || due[0].Entry != 1 {
		t.Errorf("due after the test: %+v", due)
	}
	begun := r.BeginAll(command.Attempt{AgentKey: "ada", Delivery: 1, Number: 2})
	r.Run(ask)
	if len(begun) != 1 || len(r.Due(r.Now()+outbox.DeliveryLease/2)) > 0 {
		t.Errorf("a test lets two be sent at once: %+v", r.Due(r.Now()))
	}
}

// TestHourIsFull begins as many attempts as an hour allows, failed ones too.
func TestHourIsFull(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.RegisterWithReceiver("ada", nil))
	r.mentions("ada", command.MaxHourlyDeliveries+2, nil)
	opened := int64(0)
	for i := range command.MaxHourlyDeliveries {
		outcome := command.AttemptDelivered
		if i == 3 {
			outcome = command.AttemptFailed
		}
		r.Attempt("ada", outcome, nil)
		if i == 0 {
			opened = r.Now() - 1000
		}
	}
	if o := r.Outbox("ada"); o.First.NextAt != opened+command.HourMillis || len(r.Due(opened+command.HourMillis-1)) > 0 {
		t.Errorf("the next attempt is at %d, the first one was at %d", o.First.NextAt, opened)
	}
	next := r.Outbox("ada").First.NextAttempt()
	check.Empty(t, r.BeginAll(next), "over the limit")
	r.Stamp = opened + command.HourMillis - 1000
	check.Equal(t, len(r.BeginAll(next)), 1, "attempts after the hour")
}

// waiting returns the entries of what waits for an agent.
func (r *rig) waiting(agent string) (entries []uint64) {
	r.T.Helper()
	v := r.View()
	defer v.Release()
	o := must.Get(outbox.LoadOutbox(v.Reader(), agent))(r.T)
	for _, q := range o.Queue {
		d, ok, err := outbox.LoadDelivery(v.Reader(), agent, q.Number)
		if err != nil || !ok {
			r.T.Fatal(q.Number, ok, err)
		}
		entries = append(entries, d.Entry)
	}
	return entries
}

// TestFullQueue holds what is dropped from a full queue, and that events of proven names go first.
func TestFullQueue(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	const most = command.MaxWaitingDeliveries
	for name, tt := range map[string]struct {
		before, proven, after int // mentions: without proof, under a proven name, without proof
		want                  [3]int
		first                 uint64 // entry that is sent first
	}{
		"strangers":          {most, 0, 50, [3]int{most, 0, 0}, 1},
		"behind strangers":   {most + 50, 3, 0, [3]int{most - 3, 3, 0}, most + 51},
		"before strangers":   {0, 3, most, [3]int{0, 3, most - 3}, 1},
		"proven names alone": {0, most + 50, 3, [3]int{0, most, 0}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Run(fsmtest.RegisterWithReceiver("ada", nil), fsmtest.Register("bob", "key of bob", nil))
			r.mentions("ada", tt.before, from("one"))
			r.mentions("ada", tt.proven, byKey("bob"))
			r.mentions("ada", tt.after, from("two"))
			var got [3]int
			for _, e := range r.waiting("ada") {
				switch n := int(e); {
				case n <= tt.before:
					got[0]++
				case n <= tt.before+tt.proven:
					got[1]++
				default:
					got[2]++
				}
			}
			check.Equal(t, got, tt.want, "what waits")
			check.Equal(t, r.Due(r.Now() + 1000)[0].Entry, tt.first, "what is sent first")
			checkRows(r)
		})
	}
}

// checkRows holds that the waiting deliveries of ada are counted, and that of the others
// only the newest are kept.
func checkRows(r *rig) {
	r.T.Helper()
	waiting := len(r.waiting("ada"))
	v := r.View()
	defer v.Release()
	if n, err := v.WaitingDeliveries(); err != nil || n != waiting {
		r.T.Errorf("%d wait for all, %v, want %d", n, err, waiting)
	}
	rows := 0
	must.Do(r.T, state.ScanAll(v.Reader(), state.SpaceDelivery, func(_, _ []byte) error { rows++; return nil }))
	if rows > command.MaxWaitingDeliveries+command.MaxListedDeliveries {
		r.T.Errorf("%d rows", rows)
	}
}
