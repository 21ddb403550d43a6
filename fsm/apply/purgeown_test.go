package apply_test

import (
	"net/netip"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
)

// TestEraseRules: only the key that wrote a text erases it, and no text that a moderator or a
// claimant needs.
func TestEraseRules(t *testing.T) {
	jobOf := func(r *rig, agent string) uint64 {
		job := fsmtest.PostJob(agent)
		job.Proof.Key = fsmtest.KeyHash(agent)
		return r.WantDone(job)
	}
	for name, tt := range map[string]struct {
		setUp func(r *rig) (retraction *command.Publish)
		want  command.Problem
	}{
		"without the key": {func(r *rig) *command.Publish {
			own := r.WantDone(fsmtest.TextByKey("bob", "A text by key."))
			c := fsmtest.Erase("bob", state.FormatID(state.TypeEntry, own))
			c.Proof.Key = nil
			return c
		}, command.ProblemProofRequired},
		"without the key, a text without it": {func(r *rig) *command.Publish {
			own := r.WantDone(fsmtest.Post("bob", nil))
			c := fsmtest.Erase("bob", state.FormatID(state.TypeEntry, own))
			c.Proof.Key = nil
			return c
		}, command.ProblemEraseNoKey},
		"a text without the key": {func(r *rig) *command.Publish {
			return fsmtest.Erase("bob", state.FormatID(state.TypeEntry, r.WantDone(fsmtest.Post("bob", nil))))
		}, command.ProblemEraseUnproven},
		"another's": {func(r *rig) *command.Publish {
			return fsmtest.Erase("bob", state.FormatID(state.TypeEntry, r.Publish(nil)))
		}, command.ProblemRetractionOther},
		"reported": {func(r *rig) *command.Publish {
			id := state.FormatID(state.TypeEntry, r.WantDone(fsmtest.TextByKey("bob", "A text that is reported.")))
			r.WantOutcome(fsmtest.Report(id, "sender-2"), command.OutcomeDone, 0)
			return fsmtest.Erase("bob", id)
		}, command.ProblemEraseReported},
		"hidden": {func(r *rig) *command.Publish {
			id := state.FormatID(state.TypeEntry, r.WantDone(fsmtest.TextByKey("bob", "A text that is hidden.")))
			r.WantDone(fsmtest.Hide(id))
			return fsmtest.Erase("bob", id)
		}, command.ProblemHidden},
		"a claimed job": {func(r *rig) *command.Publish {
			job := jobOf(r, "bob")
			r.WantDone(fsmtest.Claim("ada", job))
			return fsmtest.Erase("bob", state.FormatID(state.TypeJob, job))
		}, command.ProblemJobClaimed},
		"the claim of a job": {func(r *rig) *command.Publish {
			c := fsmtest.Claim("bob", jobOf(r, "ada"))
			c.Proof.Key = fsmtest.KeyHash("bob")
			return fsmtest.Erase("bob", state.FormatID(state.TypeEntry, r.WantDone(c)))
		}, command.ProblemJobClaimed},
		"an open job": {func(r *rig) *command.Publish {
			return fsmtest.Erase("bob", state.FormatID(state.TypeJob, jobOf(r, "bob")))
		}, 0},
		"a report without grounds": {func(r *rig) *command.Publish {
			id := state.FormatID(state.TypeEntry, r.WantDone(fsmtest.TextByKey("bob", "A text that was reported.")))
			r.WantOutcome(fsmtest.Report(id, "sender-2"), command.OutcomeDone, 0)
			r.Run(fsmtest.ResolveReport(command.ReportKept, id))
			return fsmtest.Erase("bob", id)
		}, 0},
		"retracted before": {func(r *rig) *command.Publish {
			c := fsmtest.Erase("bob", state.FormatID(state.TypeEntry, r.WantDone(fsmtest.TextByKey("bob", "A text that is retracted."))))
			plain := *c
			plain.Erase = false
			r.WantDone(&plain)
			return c
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.WantDone(fsmtest.Register("Bob", "bob", nil))
			c := tt.setUp(r)
			problems := r.Problems(c)
			if tt.want == 0 {
				check.Equal(t, len(problems), 0, "problems of a view")
				r.WantDone(c)
				_, seq, _ := state.ParseID(c.Target)
				if doc, raw := r.Read(seq); doc.Hidden == nil || !doc.Hidden.Purged {
					t.Errorf("not erased: %s", raw)
				}
				return
			}
			r.WantProblem(c, tt.want)
			check.Diff(t, problems, []command.Problem{tt.want}, "problems of a view")
		})
	}
}

// TestErasuresOfADay: a name erases few texts in a day, and goes on the next day.
func TestErasuresOfADay(t *testing.T) {
	r := newRig(t)
	r.WantDone(fsmtest.Register("Bob", "bob", nil))
	id := func() string {
		return state.FormatID(state.TypeEntry, r.WantDone(fsmtest.TextByKey("bob", "A text to erase.")))
	}
	for range command.MaxErasures {
		r.WantDone(fsmtest.Erase("bob", id()))
	}
	over := fsmtest.Erase("bob", id())
	v := r.View()
	a, err := v.Admit(over, netip.Addr{}, 0)
	v.Release()
	check.Err(t, err, nil, "look at the limits")
	check.Equal(t, a.Limit, command.ProblemErasures, "the limit, by a view")
	r.WantProblem(over, command.ProblemErasures)
	r.Stamp += command.DayMillis
	r.WantDone(over)
}

// TestErasuresOfAll: all names together erase a bounded number of texts in a day.
func TestErasuresOfAll(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	names := command.MaxAllErasures/command.MaxErasures + 1
	last := command.Result{}
	for i := range names {
		name := "bob-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		r.WantDone(fsmtest.Register(name, name, nil))
		var texts []command.Payload
		for range command.MaxErasures {
			texts = append(texts, fsmtest.TextByKey(name, "A text to erase."))
		}
		var erasures []command.Payload
		for _, res := range r.Run(texts...) {
			erasures = append(erasures, fsmtest.Erase(name, state.FormatID(state.TypeEntry, res.Entry)))
		}
		for _, res := range r.Run(erasures...) {
			if last = res; res.Outcome != command.OutcomeDone && i < names-1 {
				t.Fatalf("%s: %+v", name, res)
			}
		}
	}
	expectProblem(t, last, command.ProblemErasures, "one more than the cluster erases")
	got := fsmtest.InView(t, r, func(v *view.View) (view.Visibility, error) { return v.Visibility(2) })
	check.Equal(t, got, view.Purged, "the first text")
}
