package fsm

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// erase returns a retraction by key that erases its target.
func erase(agent, target string) *command.Publish {
	return post(agent, func(p *command.Publish) {
		p.Relation, p.Target, p.Erase = command.RelationRetraction, target, true
		p.Proof.Key = keyHash(agent)
	})
}

// textByKey returns an entry by key.
func textByKey(agent, body string) *command.Publish {
	return post(agent, func(p *command.Publish) { p.Body, p.Proof.Key = body, keyHash(agent) })
}

// TestEraseOwn: a retraction erases the text of its author from the state and its files. The
// replies stay, and so does the sender.
func TestEraseOwn(t *testing.T) {
	r := newRig(t)
	r.wantDone(register("Bob", "bob", nil))
	own := textByKey("bob", "Buy "+purgedWord+" now.")
	own.Proof.Sender = "sender-1"
	seq := r.wantDone(own)
	id := state.FormatID(state.TypeEntry, seq)
	reply := r.publish(func(p *command.Publish) { p.Relation, p.Target = command.RelationReply, id })
	must.Do(t, r.store.Flush())
	if len(r.find()) == 0 {
		t.Fatal("the word is in no file: the test shows nothing")
	}
	retraction := r.wantDone(erase("bob", id))
	stub, raw := r.read(seq)
	if stub.Hidden == nil || !stub.Hidden.Purged || stub.Hidden.Reason != "Erased by its author" || strings.Contains(raw, purgedWord) {
		t.Errorf("the stub is %s", raw)
	}
	if doc, raw := r.read(reply); doc.Hidden != nil || *doc.Supersedes != id {
		t.Errorf("the reply is %s", raw)
	}
	if doc, raw := r.read(retraction); doc.Hidden != nil {
		t.Errorf("the retraction is %s", raw)
	}
	v := r.View()
	defer func() { v.Release() }()
	check.Equal(t, must.Get(v.SenderFingerprint(seq))(t), "sender-1", "the sender of the erased entry")
	var listed []string
	check.Err(t, v.Purges(0, func(p state.Purge) error { listed = append(listed, p.ID); return nil }), nil, "list the purges")
	check.Diff(t, listed, []string{id}, "the purges")
	v.Release()
	v = r.View()
	must.Do(t, r.store.Flush())
	v.Release()
	r.erase()
	v = r.View()
	check.Empty(t, r.find(), "files with the word")
	r.wantProblem(erase("bob", id), command.ProblemHidden)
}

// TestEraseRules: only the key that wrote a text erases it, and no text that a moderator or a
// claimant needs.
func TestEraseRules(t *testing.T) {
	jobOf := func(r *rig, agent string) uint64 {
		job := postJob(agent)
		job.Proof.Key = keyHash(agent)
		return r.wantDone(job)
	}
	tests := map[string]struct {
		setUp func(r *rig) (retraction *command.Publish)
		want  command.Problem
	}{
		"without the key": {func(r *rig) *command.Publish {
			own := r.wantDone(textByKey("bob", "A text by key."))
			c := erase("bob", state.FormatID(state.TypeEntry, own))
			c.Proof.Key = nil
			return c
		}, command.ProblemProofRequired},
		"without the key, a text without it": {func(r *rig) *command.Publish {
			own := r.wantDone(post("bob", nil))
			c := erase("bob", state.FormatID(state.TypeEntry, own))
			c.Proof.Key = nil
			return c
		}, command.ProblemEraseNoKey},
		"a text without the key": {func(r *rig) *command.Publish {
			return erase("bob", state.FormatID(state.TypeEntry, r.wantDone(post("bob", nil))))
		}, command.ProblemEraseUnproven},
		"another's": {func(r *rig) *command.Publish {
			return erase("bob", state.FormatID(state.TypeEntry, r.publish(nil)))
		}, command.ProblemRetractionOther},
		"reported": {func(r *rig) *command.Publish {
			id := state.FormatID(state.TypeEntry, r.wantDone(textByKey("bob", "A text that is reported.")))
			r.only(report(id, "sender-2"), command.OutcomeDone, 0)
			return erase("bob", id)
		}, command.ProblemEraseReported},
		"hidden": {func(r *rig) *command.Publish {
			id := state.FormatID(state.TypeEntry, r.wantDone(textByKey("bob", "A text that is hidden.")))
			r.wantDone(hide(id))
			return erase("bob", id)
		}, command.ProblemHidden},
		"a claimed job": {func(r *rig) *command.Publish {
			job := jobOf(r, "bob")
			r.wantDone(claim("ada", job))
			return erase("bob", state.FormatID(state.TypeJob, job))
		}, command.ProblemJobClaimed},
		"the claim of a job": {func(r *rig) *command.Publish {
			c := claim("bob", jobOf(r, "ada"))
			c.Proof.Key = keyHash("bob")
			return erase("bob", state.FormatID(state.TypeEntry, r.wantDone(c)))
		}, command.ProblemJobClaimed},
		"an open job": {func(r *rig) *command.Publish {
			return erase("bob", state.FormatID(state.TypeJob, jobOf(r, "bob")))
		}, 0},
		"a report without grounds": {func(r *rig) *command.Publish {
			id := state.FormatID(state.TypeEntry, r.wantDone(textByKey("bob", "A text that was reported.")))
			r.only(report(id, "sender-2"), command.OutcomeDone, 0)
			r.run(resolveReport(command.ReportKept, id))
			return erase("bob", id)
		}, 0},
		"retracted before": {func(r *rig) *command.Publish {
			c := erase("bob", state.FormatID(state.TypeEntry, r.wantDone(textByKey("bob", "A text that is retracted."))))
			plain := *c
			plain.Erase = false
			r.wantDone(&plain)
			return c
		}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.wantDone(register("Bob", "bob", nil))
			c := tt.setUp(r)
			v := r.View()
			problems, err := v.Problems(c)
			v.Release()
			must.Do(t, err)
			if tt.want == 0 {
				check.Equal(t, len(problems), 0, "problems of a view")
				r.wantDone(c)
				_, seq, _ := state.ParseID(c.Target)
				if doc, raw := r.read(seq); doc.Hidden == nil || !doc.Hidden.Purged {
					t.Errorf("not erased: %s", raw)
				}
				return
			}
			r.wantProblem(c, tt.want)
			check.Diff(t, problems, []command.Problem{tt.want}, "problems of a view")
		})
	}
}

// TestErasuresOfADay: a name erases few texts in a day, and goes on the next day.
func TestErasuresOfADay(t *testing.T) {
	r := newRig(t)
	r.wantDone(register("Bob", "bob", nil))
	id := func() string {
		return state.FormatID(state.TypeEntry, r.wantDone(textByKey("bob", "A text to erase.")))
	}
	for range command.MaxErasures {
		r.wantDone(erase("bob", id()))
	}
	over := erase("bob", id())
	v := r.View()
	a, err := v.Admit(over, netip.Addr{}, 0)
	v.Release()
	check.Err(t, err, nil, "look at the limits")
	check.Equal(t, a.Limit, command.ProblemErasures, "the limit, by a view")
	r.wantProblem(over, command.ProblemErasures)
	r.log.stamp += command.DayMillis
	r.wantDone(over)
}

// TestErasuresOfAll: all names together erase a bounded number of texts in a day.
func TestErasuresOfAll(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	names := command.MaxAllErasures/command.MaxErasures + 1
	last := command.Result{}
	for i := range names {
		name := "bob-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		r.wantDone(register(name, name, nil))
		var texts []command.Payload
		for range command.MaxErasures {
			texts = append(texts, textByKey(name, "A text to erase."))
		}
		var erasures []command.Payload
		for _, res := range r.run(texts...) {
			erasures = append(erasures, erase(name, state.FormatID(state.TypeEntry, res.Entry)))
		}
		for _, res := range r.run(erasures...) {
			if last = res; res.Outcome != command.OutcomeDone && i < names-1 {
				t.Fatalf("%s: %+v", name, res)
			}
		}
	}
	expectProblem(t, last, command.ProblemErasures, "one more than the cluster erases")
	v := r.View()
	defer v.Release()
	got := must.Get(v.Visibility(2))(t)
	check.Equal(t, got, view.Purged, "the first text")
}
