package apply_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestSenderOf: what one sender wrote under any name is selected together, and its block stays
// when it is forgotten from where the entries came.
func TestSenderOf(t *testing.T) {
	r := newRig(t)
	first := r.WantDone(fsmtest.PostFrom("spam", command.AnonymousName, nil))
	r.WantDone(fsmtest.PostFrom("home", "bob", nil))
	second := r.WantDone(fsmtest.PostFrom("spam", "eve", nil))
	selected := func() []uint64 {
		v := r.View()
		defer v.Release()
		seqs, _, err := v.Select(&view.Selection{Query: view.Query{Since: -1, Limit: 100}, Until: -1, SenderOf: second})
		must.Do(t, err)
		slices.Sort(seqs)
		return seqs
	}
	check.Diff(t, selected(), []uint64{first, second}, "entries of the sender")
	r.set(&command.SetRule{Order: fsmtest.ByOperator, Kind: command.RuleSender, Subject: state.EntryID(first)})
	r.WantProblem(fsmtest.PostFrom("spam", "eve", nil), command.ProblemBlocked)
	if j := r.checkPolicy(fsmtest.PostFrom("spam", "eve", nil), "192.0.2.1"); j.Rule == nil {
		t.Error("the view does not reject it")
	}
	r.ForgetSenders()
	if j := r.checkPolicy(fsmtest.PostFrom("spam", "eve", nil), "192.0.2.1"); j.Rule == nil {
		t.Error("the block has ended")
	}
}

// TestForgetSenders: it is forgotten from where old entries came, and a bounded number of
// other rows that name a sender at once.
func TestForgetSenders(t *testing.T) {
	r := newRig(t)
	rows := 0
	for rows < state.ForgetBatch+50 {
		many := make([]command.Payload, 100)
		for i := range many {
			many[i] = fsmtest.PostFrom("home", command.AnonymousName, func(p *command.Publish) {
				p.Request = command.RequestKey{Scope: "home" + command.AnonymousScope, ID: fmt.Sprintf("request-%d", rows+i)}
			})
		}
		r.Run(many...)
		rows += len(many)
	}
	rows++ // the budget
	check.Equal(t, fsmtest.RowsIn(t, r, state.SpaceForget), rows, "rows that name a sender")
	forget := func() command.Outcome { return r.Run(&command.ForgetSenders{})[0].Outcome }
	due := func() bool {
		return fsmtest.InView(t, r, func(v *view.View) (bool, error) { return v.SendersToForget(r.Stamp) })
	}
	if forget() != command.OutcomeUnchanged || due() {
		t.Error("young entries have senders that are to be forgotten")
	}
	r.Stamp += int64(command.DefaultSettings.SenderDays) * command.DayMillis
	if !due() {
		t.Error("nothing is due where nobody writes")
	}
	young := r.WantDone(fsmtest.PostFrom("home", "bob", nil))
	later := fsmtest.RowsIn(t, r, state.SpaceForget) - rows
	for _, left := range []int{rows - state.ForgetBatch, 0} {
		if !due() || forget() != command.OutcomeDone {
			t.Error("nothing is forgotten")
		}
		check.Equal(t, fsmtest.RowsIn(t, r, state.SpaceSender), 1, "senders that are known")
		check.Equal(t, fsmtest.RowsIn(t, r, state.SpaceForget), left+later, "rows that name a sender")
	}
	if due() || forget() != command.OutcomeUnchanged {
		t.Error("more is forgotten")
	}
	if fsmtest.InView(t, r, func(v *view.View) (string, error) { return v.SenderFingerprint(young) }) == "" {
		t.Error("the young one's is forgotten, too")
	}
}

// TestForgottenAddress: an address proves the names that were registered from it for as long as it
// writes now and then, and none of them once it is forgotten, also after it registers another one.
func TestForgottenAddress(t *testing.T) {
	r := newRig(t)
	name := func(agent string) {
		r.WantDone(fsmtest.Register(agent, "key of "+agent, func(c *command.Register) { c.Proof = fsmtest.ByAddress("home") }))
	}
	verified := func(agent string) bool {
		doc, _ := r.Read(r.WantDone(fsmtest.PostFrom("home", agent, nil)))
		fsmtest.CheckNameCounts(t, r)
		return doc.NameVerified
	}
	name("ada")
	for range 5 {
		r.Stamp += 20 * command.DayMillis
		r.Run(&command.ForgetSenders{})
		if !verified("ada") {
			t.Fatal("the address writes, and proves nothing")
		}
	}
	r.ForgetSenders()
	check.Equal(t, fsmtest.RowsIn(t, r, state.SpaceNamed), 0, "counts")
	check.Equal(t, verified("ada"), false, "a forgotten address proves a name")
	name("bob")
	if verified("ada") || !verified("bob") {
		t.Error("a name of before counts")
	}
	r.WantDone(&command.ResetKey{AgentKey: "ada", NewKey: fsmtest.KeyHash("reset"), NewRecovery: fsmtest.KeyHash("reset")})
	if !verified("bob") {
		t.Error("a name of before was counted")
	}
}

// TestAnonymousRequestsAreForgotten: a request_id without a name is known for as long as its sender.
func TestAnonymousRequestsAreForgotten(t *testing.T) {
	r := newRig(t)
	write := func() command.Outcome {
		return r.Run(fsmtest.PostFrom("home", command.AnonymousName, func(p *command.Publish) {
			p.Request = command.RequestKey{Scope: command.AnonymousScope, ID: "request-1"}
		}))[0].Outcome
	}
	check.Equal(t, write(), command.OutcomeDone, "first")
	check.Equal(t, write(), command.OutcomeDuplicate, "again")
	r.ForgetSenders()
	check.Equal(t, write(), command.OutcomeDone, "once the sender is forgotten")
}
