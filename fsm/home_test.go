package fsm

import (
	"slices"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestClaimLost tells the last claimant, once, who took the job after its claim ran out.
func TestClaimLost(t *testing.T) {
	r := newRig(t)
	brief := func(agent string, job uint64) *command.ClaimJob {
		return &command.ClaimJob{JobAction: fsmtest.OnJob(agent, job), TTL: 1}
	}
	why := func(agent string) (reasons []string) {
		for _, item := range r.Home(agent, 0).ForYou {
			reasons = append(reasons, item.Reason.String())
		}
		return reasons
	}
	r.Run(fsmtest.PostJob("ada"), brief("bob", 1))
	r.Run(&command.Tick{})
	if h := r.Home("bob", 0); !slices.Equal(h.ToDeliver, []uint64{1}) || len(h.ForYou) != 0 {
		t.Errorf("after its end: %+v", h)
	}
	wake, stop := r.Watch("bob")
	defer stop()
	taken := brief("eve", 1)
	taken.Mentions = []string{"bob"}
	r.Run(taken)
	select {
	case <-wake:
	default:
		t.Error("who lost a claim was not woken")
	}
	if h := r.Home("bob", 0); len(h.ToDeliver) != 0 || !slices.Equal(why("bob"), []string{"claim_lost"}) {
		t.Errorf("after another has claimed: %+v", h)
	}
	r.Run(&command.Tick{})
	r.Run(brief("dan", 1), &command.FinishJob{JobAction: fsmtest.OnJob("dan", 1), Result: "Done."})
	check.Equal(t, len(why("bob")), 1, "told twice")
	check.Diff(t, why("eve"), []string{"claim_lost"}, "the second one was told")
	// An agent that takes its own job up again, or gives it back, has not lost it.
	r.Run(fsmtest.PostJob("ada"))
	v := r.View()
	job := v.LastSeq()
	v.Release()
	r.Run(brief("bob", job))
	r.Run(&command.Tick{})
	r.Run(brief("bob", job), fsmtest.Release("bob", job), brief("eve", job), &command.FinishJob{JobAction: fsmtest.OnJob("eve", job), Result: "Done."})
	if h := r.Home("bob", 0); len(h.ToDeliver) != 0 || len(h.ForYou) != 1 {
		t.Errorf("after it gave the job back: %+v", h)
	}
}

// TestWatch wakes the agents that an entry concerns, and no others, after it can be seen.
func TestWatch(t *testing.T) {
	r := newRig(t)
	first := r.Publish(nil)
	ada, stopAda := r.Watch("ada")
	bob, stopBob := r.Watch("bob")
	r.Run(fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, first)))
	select {
	case <-ada:
	default:
		t.Error("the author of the target was not woken")
	}
	if v := r.View(); v.LastSeq() != first+1 {
		t.Errorf("woken at %d entries", v.LastSeq())
	} else {
		v.Release()
	}
	select {
	case <-bob:
		t.Error("the writer was woken")
	default:
	}
	r.Run(fsmtest.Post("ada", func(p *command.Publish) { p.Mentions = []string{"bob"} }), fsmtest.Post("ada", func(p *command.Publish) { p.Mentions = []string{"bob"} }))
	select {
	case <-bob:
	default:
		t.Error("whom an entry mentions was not woken")
	}
	select {
	case <-bob:
		t.Error("woken twice for one publication")
	default:
	}
	stopAda()
	stopBob()
	stopBob()
	if n := r.watchers.count.Load(); n != 0 || len(r.watchers.by) != 0 {
		t.Errorf("%d watchers are left, %v", n, r.watchers.by)
	}
}

// TestWatchOpenedJobs wakes who waits for a job when it opens and has the tag, and nobody else.
func TestWatchOpenedJobs(t *testing.T) {
	r := newRig(t)
	watched := map[string]<-chan struct{}{}
	for _, tag := range []string{"", "french", "german"} {
		wake, stop := r.Watch("ada", state.WatchJobs+tag)
		t.Cleanup(stop)
		watched[tag] = wake
	}
	posted := fsmtest.PostJob("bob")
	posted.Tags = []string{"Français", "French"}
	for i, step := range []struct {
		command command.Payload
		woken   []string
	}{
		{posted, []string{"", "french"}},
		{fsmtest.Claim("eve", 1), nil},
		{&command.ReleaseJob{JobAction: fsmtest.OnJob("eve", 1)}, []string{"", "french"}},
		{fsmtest.PostJob("bob"), []string{""}},
		{fsmtest.Post("bob", nil), nil},
	} {
		r.Run(step.command)
		var woken []string
		for _, tag := range []string{"", "french", "german"} {
			select {
			case <-watched[tag]:
				woken = append(woken, tag)
			default:
			}
		}
		check.Diff(t, woken, step.woken, "step %d", i)
	}
}

func TestWatchEndsWithMachine(t *testing.T) {
	m := must.Get(tryOpenAt(t.TempDir()))(t)
	wake, stop := m.Watch("ada")
	defer stop()
	closeMachine(t, m)
	select {
	case <-wake:
	case <-time.After(time.Minute):
		t.Error("closing woke nobody")
	}
}
