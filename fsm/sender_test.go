package fsm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// byRequest is a write with a request_id and no proof.
func byRequest(key command.RequestKey) command.Signature {
	return command.Signature{Proof: &command.Proof{}, Request: key}
}

// byAddress is the proof of a sender by its address.
func byAddress(sender string) command.Proof { return command.Proof{Sender: sender, Address: true} }

// postFrom is an entry of a sender.
func postFrom(sender, agent string, change func(*command.Publish)) *command.Publish {
	return post(agent, func(p *command.Publish) {
		if p.Proof = byAddress(sender); change != nil {
			change(p)
		}
	})
}

func (r *rig) wantProblem(p command.Payload, want command.Problem) {
	r.t.Helper()
	if got := r.run(p)[0]; !slices.Equal(got.Problems, []command.Problem{want}) {
		r.t.Errorf("%+v, want problem %d", got, want)
	}
}

func (r *rig) wantDone(p command.Payload) uint64 {
	r.t.Helper()
	got := r.run(p)[0]
	check.Equal(r.t, got.Outcome, command.OutcomeDone, "result: %+v", got)
	return got.Entry
}

// rows counts the rows of a space.
func (r *rig) rows(space byte) (n int) {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	lower, upper := state.SpaceBounds(space)
	must.Do(r.t, state.ScanSpace(v.Reader(), lower, upper, func([]byte, []byte) error { n++; return nil }))
	return n
}

// forgetSenders lets the time for which senders are remembered pass, and forgets them.
func (r *rig) forgetSenders() {
	r.t.Helper()
	r.log.stamp += int64(command.DefaultSettings.SenderDays)*command.DayMillis + 1
	for r.run(&command.ForgetSenders{})[0].Outcome == command.OutcomeDone {
	}
}

// TestSenderOf: what one sender wrote under any name is selected together, and its block stays
// when it is forgotten from where the entries came.
func TestSenderOf(t *testing.T) {
	r := newRig(t)
	first := r.wantDone(postFrom("spam", command.AnonymousName, nil))
	r.wantDone(postFrom("home", "bob", nil))
	second := r.wantDone(postFrom("spam", "eve", nil))
	selected := func() []uint64 {
		v := r.View()
		defer v.Release()
		seqs, _, err := v.Select(&view.Selection{Query: view.Query{Since: -1, Limit: 100}, Until: -1, SenderOf: second})
		must.Do(t, err)
		slices.Sort(seqs)
		return seqs
	}
	check.Diff(t, selected(), []uint64{first, second}, "entries of the sender")
	r.set(&command.SetRule{Order: byOperator, Kind: command.RuleSender, Subject: state.EntryID(first)})
	r.wantProblem(postFrom("spam", "eve", nil), command.ProblemBlocked)
	if j := r.checkPolicy(postFrom("spam", "eve", nil), "192.0.2.1"); j.Rule == nil {
		t.Error("the view does not reject it")
	}
	r.forgetSenders()
	if j := r.checkPolicy(postFrom("spam", "eve", nil), "192.0.2.1"); j.Rule == nil {
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
			many[i] = postFrom("home", command.AnonymousName, func(p *command.Publish) {
				p.Request = command.RequestKey{Scope: "home" + command.AnonymousScope, ID: fmt.Sprintf("request-%d", rows+i)}
			})
		}
		r.run(many...)
		rows += len(many)
	}
	rows++ // the budget
	check.Equal(t, r.rows(state.SpaceForget), rows, "rows that name a sender")
	forget := func() command.Outcome { return r.run(&command.ForgetSenders{})[0].Outcome }
	due := func() bool {
		v := r.View()
		defer v.Release()
		some := must.Get(v.SendersToForget(r.log.stamp))(t)
		return some
	}
	if forget() != command.OutcomeUnchanged || due() {
		t.Error("young entries have senders that are to be forgotten")
	}
	r.log.stamp += int64(command.DefaultSettings.SenderDays) * command.DayMillis
	if !due() {
		t.Error("nothing is due where nobody writes")
	}
	young := r.wantDone(postFrom("home", "bob", nil))
	later := r.rows(state.SpaceForget) - rows
	for _, left := range []int{rows - state.ForgetBatch, 0} {
		if !due() || forget() != command.OutcomeDone {
			t.Error("nothing is forgotten")
		}
		check.Equal(t, r.rows(state.SpaceSender), 1, "senders that are known")
		check.Equal(t, r.rows(state.SpaceForget), left+later, "rows that name a sender")
	}
	if due() || forget() != command.OutcomeUnchanged {
		t.Error("more is forgotten")
	}
	v := r.View()
	defer v.Release()
	if from, err := v.SenderFingerprint(young); err != nil || from == "" {
		t.Errorf("the young one's is forgotten, too: %v", err)
	}
}

// TestForgottenInTheSameCall: the results are the same if one call of Raft has the command
// that forgets senders, another one, and one that looks for a sender.
func TestForgottenInTheSameCall(t *testing.T) {
	for _, together := range []bool{false, true} {
		r := newRig(t)
		seq := r.wantDone(postFrom("home", command.AnonymousName, nil))
		r.log.stamp += int64(command.DefaultSettings.SenderDays) * command.DayMillis
		before := len(r.obs.got)
		first := r.log.commands(&command.ForgetSenders{})
		r.log.commands(&command.ForgetSenders{})
		last := r.log.commands(postFrom("home", command.AnonymousName, relate(command.RelationRetraction, seq)))
		if together {
			r.log.feed(r.Machine, first, last)
		} else {
			for i := first; i <= last; i++ {
				r.log.feed(r.Machine, i, i)
			}
		}
		var got []command.Result
		for _, a := range r.obs.got[before:] {
			got = append(got, a.Res)
		}
		check.Diff(t, got, []command.Result{
			{Outcome: command.OutcomeDone},
			{Outcome: command.OutcomeUnchanged},
			{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemRetractionAnonymous}},
		}, "results, together: %t", together)
	}
}

// TestForgottenAddress: an address proves the names that were registered from it for as long as it
// writes now and then, and none of them once it is forgotten, also after it registers another one.
func TestForgottenAddress(t *testing.T) {
	r := newRig(t)
	name := func(agent string) {
		r.wantDone(register(agent, "key of "+agent, func(c *command.Register) { c.Proof = byAddress("home") }))
	}
	verified := func(agent string) bool {
		doc, _ := r.read(r.wantDone(postFrom("home", agent, nil)))
		checkNameCounts(t, r.Machine)
		return doc.NameVerified
	}
	name("ada")
	for range 5 {
		r.log.stamp += 20 * command.DayMillis
		r.run(&command.ForgetSenders{})
		if !verified("ada") {
			t.Fatal("the address writes, and proves nothing")
		}
	}
	r.forgetSenders()
	check.Equal(t, r.rows(state.SpaceNamed), 0, "counts")
	check.Equal(t, verified("ada"), false, "a forgotten address proves a name")
	name("bob")
	if verified("ada") || !verified("bob") {
		t.Error("a name of before counts")
	}
	r.wantDone(&command.ResetKey{AgentKey: "ada", NewKey: keyHash("reset"), NewRecovery: keyHash("reset")})
	if !verified("bob") {
		t.Error("a name of before was counted")
	}
}

// TestAnonymousRequestsAreForgotten: a request_id without a name is known for as long as its sender.
func TestAnonymousRequestsAreForgotten(t *testing.T) {
	r := newRig(t)
	write := func() command.Outcome {
		return r.run(postFrom("home", command.AnonymousName, func(p *command.Publish) {
			p.Request = command.RequestKey{Scope: command.AnonymousScope, ID: "request-1"}
		}))[0].Outcome
	}
	check.Equal(t, write(), command.OutcomeDone, "first")
	check.Equal(t, write(), command.OutcomeDuplicate, "again")
	r.forgetSenders()
	check.Equal(t, write(), command.OutcomeDone, "once the sender is forgotten")
}

// TestNoRowNamesAForgottenSender draws logs of all commands, lets the time pass for which senders are
// remembered, and looks for the pseudonyms in every row. A profile has the address that registered it,
// and a rule its sender; waiting deliveries end in their own time.
func TestNoRowNamesAForgottenSender(t *testing.T) {
	senders := []string{"from-home", "from-work"}
	spared := []byte{state.SpaceProfile, state.SpaceRule, state.SpaceOutbox, state.SpaceDelivery}
	rapid.Check(t, func(rt *rapid.T) {
		l, m := newLog(t), tempMachine(rt)
		defer func() { dropMachine(rt, m) }()
		w := newLogWriter(rt, l, m, func() {})
		for range rapid.IntRange(1, 20).Draw(rt, "log entries") {
			w.write()
		}
		l.stamp += 100 * command.DayMillis // reports are open for longer
		l.nextSeq[boot1] = w.seqs[boot1]
		later := post("later", func(p *command.Publish) { p.Proof.Sender = "elsewhere" })
		for range 5 {
			l.commands(&command.Tick{}, &command.ForgetSenders{}, later)
			w.feed()
		}
		v := m.View()
		defer v.Release()
		for _, space := range state.Keyspaces {
			if slices.Contains(spared, space.Letter) {
				continue
			}
			lower, upper := state.SpaceBounds(space.Letter)
			must.Do(rt, state.ScanSpace(v.Reader(), lower, upper, func(key, row []byte) error {
				for _, sender := range senders {
					if all := slices.Concat(key, row); namesSender(all, sender) {
						rt.Errorf("keyspace %c: %q %q names the sender %s", space.Letter, key, row, sender)
					}
				}
				return nil
			}))
		}
	})
}

// namesSender reports whether a row has the pseudonym of a sender, or a hash of it.
func namesSender(row []byte, sender string) bool {
	hash := uint64(state.UnprovenSender(sender))
	return bytes.Contains(row, []byte(sender)) || bytes.Contains(row, binary.LittleEndian.AppendUint64(nil, hash)) ||
		bytes.Contains(row, binary.BigEndian.AppendUint64(nil, hash))
}
