package fsm

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

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

// pseudonyms are those of a sender in an epoch.
func pseudonyms(epoch uint64, who string) command.Proof {
	p := command.Proof{Sender: command.PseudonymOf(epoch, who+strings.Repeat("'", int(epoch))), Address: true} //nolint:gosec // small
	if epoch > 1 {
		p.Former = command.PseudonymOf(epoch-1, who+strings.Repeat("'", int(epoch-1))) //nolint:gosec // small
	}
	return p
}

// epoch begins an epoch.
func (r *rig) epoch(number uint64) {
	r.t.Helper()
	expect(r.t, r.run(&command.NextEpoch{Number: number, SealedKey: []byte{byte(number)}})[0], command.OutcomeDone, "epoch %d", number)
}

// inEpoch is an entry of a sender in an epoch.
func inEpoch(epoch uint64, who, agent string, change func(*command.Publish)) *command.Publish {
	return post(agent, func(p *command.Publish) {
		if p.Proof = pseudonyms(epoch, who); change != nil {
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

// TestEpochs: a block, a proof by address and the request_ids of anonymous senders stay in
// force through changes of epoch, as long as their sender writes in each.
func TestEpochs(t *testing.T) {
	r := newRig(t)
	r.epoch(1)
	r.wantDone(inEpoch(1, "spam", "eve", nil))
	number := r.set(&command.SetRule{Order: byOperator, Kind: command.RuleSender, Subject: "e1"})
	r.wantDone(register("Bob", "bob", func(c *command.Register) { c.Proof = pseudonyms(1, "home") }))
	anonymous := func(epoch uint64) *command.Publish {
		return inEpoch(epoch, "den", command.AnonymousName, func(p *command.Publish) {
			p.Request = command.RequestKey{Scope: command.AnonymousScope, ID: "request-1"}
		})
	}
	r.wantDone(anonymous(1))
	for epoch := uint64(2); epoch < 5; epoch++ {
		r.epoch(epoch)
		r.wantProblem(inEpoch(epoch-1, "home", "bob", nil), command.ProblemOldPolicy) // checked again, it has other pseudonyms
		if j := r.checkPolicy(inEpoch(epoch, "spam", "eve", nil), "192.0.2.1"); j.Rule != nil {
			t.Errorf("epoch %d: the view rejects it: the rule cannot follow its sender", epoch)
		}
		r.wantProblem(inEpoch(epoch, "spam", "eve", nil), command.ProblemBlocked)
		if j := r.checkPolicy(inEpoch(epoch, "spam", "eve", nil), "192.0.2.1"); j.Rule == nil || j.Rule.Number != number {
			t.Errorf("epoch %d: the rule did not follow its sender", epoch)
		}
		own := r.wantDone(inEpoch(epoch, "home", "bob", nil))
		if doc, raw := r.read(own); !doc.NameVerified {
			t.Errorf("epoch %d: the address proves nothing: %s", epoch, raw)
		}
		if doc, raw := r.read(r.wantDone(inEpoch(epoch, "elsewhere", "bob", nil))); doc.NameVerified {
			t.Errorf("epoch %d: another address proves it: %s", epoch, raw)
		}
		if got := r.run(anonymous(epoch))[0]; epoch == 2 && (got.Outcome != command.OutcomeDuplicate || got.Entry != 2) {
			t.Errorf("epoch %d: a repeat is %+v", epoch, got)
		}
	}
	if n := r.rows(state.SpaceFormerly); n == 0 {
		t.Error("no former pseudonyms are kept: the test shows nothing")
	}
	// Who wrote in neither of the last two is not known any more.
	r.epoch(5)
	r.epoch(6)
	if doc, _ := r.read(r.wantDone(inEpoch(6, "home", "bob", nil))); doc.NameVerified {
		t.Error("a pseudonym whose key is gone proves a name")
	}
	r.wantDone(inEpoch(6, "spam", "eve", nil))
	check.Equal(t, r.rows(state.SpaceFormerly), 2, "former pseudonyms of the two that wrote since")
	v := r.View()
	defer v.Release()
	purged, err := v.Purged()
	if e, errEpoch := v.SenderEpoch(); err != nil || errEpoch != nil || purged != 4 || e.Number != 6 || !slices.Equal(e.Key, []byte{6}) || !slices.Equal(e.Last, []byte{5}) {
		t.Errorf("%d keys to destroy, %+v, %v %v", purged, e, err, errEpoch)
	}
	expect(t, r.run(&command.NextEpoch{Number: 6, SealedKey: []byte{9}})[0], command.OutcomeUnchanged, "an epoch that is in force already")
}

// TestBlockFollowsWhateverElseHolds: a block follows its sender through changes of epoch
// where each of its writes is against another rule, too.
func TestBlockFollowsWhateverElseHolds(t *testing.T) {
	proven := true
	for name, other := range map[string]command.Payload{
		"all":      rule(command.RuleAll, ""),
		"unproven": rule(command.RuleUnproven, ""),
		"channel":  rule(command.RuleChannel, "general"),
		"name":     rule(command.RuleName, "eve"),
		"network":  rule(command.RuleNetwork, "192.0.2.0/24"),
		"pattern":  &command.SetRule{Order: byOperator, Kind: command.RulePattern, Fold: command.FoldVersion, Subject: "pills"},
		"settings": &command.SetSettings{ProvenOnly: &proven},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.epoch(1)
			r.wantDone(inEpoch(1, "spam", "eve", nil))
			block := r.set(&command.SetRule{Order: byOperator, Kind: command.RuleSender, Subject: "e1"})
			expect(t, r.run(other)[0], command.OutcomeDone, "result")
			write := func(epoch uint64) { // as a node does
				t.Helper()
				p := inEpoch(epoch, "spam", "eve", func(p *command.Publish) { p.Body = "Cheap pills" })
				j := r.checkPolicy(p, "192.0.2.1")
				if j.Rule != nil || j.ProvenOnly {
					t.Fatalf("epoch %d: checked as %+v: the block does not follow", epoch, j)
				}
				p.Proof.Policy = j.Revision
				if got := r.only(p, command.OutcomeRejected, command.ProblemBlocked); got.Entry != block {
					t.Errorf("epoch %d: rejected by rule %d", epoch, got.Entry)
				}
				if j := r.checkPolicy(p, "192.0.2.1"); j.Rule == nil || j.Rule.Number != block {
					t.Errorf("epoch %d: after that it is checked as %+v", epoch, j)
				}
			}
			for epoch := uint64(2); epoch < 5; epoch++ {
				r.epoch(epoch)
				write(epoch)
			}
			none := false
			for _, rule := range r.rules() {
				if rule.Number != block {
					r.run(&command.LiftRule{Order: byOperator, Number: rule.Number})
				}
			}
			r.run(&command.SetSettings{ProvenOnly: &none})
			r.epoch(5)
			write(5)
		})
	}
}

// TestLongerBlockFollows: of two blocks of one sender, set by entries of two epochs, the
// one that ends later follows it: in whichever order they were set, and whether or not the
// sender tries to write before the next epoch.
func TestLongerBlockFollows(t *testing.T) {
	const day = command.DayMillis
	type block struct {
		entry  string
		length int64
	}
	for name, blocks := range map[string][2]block{ // the longer one first
		"the older has no end": {{"e1", 0}, {"e2", 14 * day}},
		"the older is longer":  {{"e1", 20 * day}, {"e2", 14 * day}},
		"the newer has no end": {{"e2", 0}, {"e1", 14 * day}},
		"the newer is longer":  {{"e2", 20 * day}, {"e1", 14 * day}},
	} {
		for _, turned := range []bool{false, true} {
			for _, tries := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, set first %t, tries %t", name, !turned, tries), func(t *testing.T) {
					r := newRig(t)
					for epoch := uint64(1); epoch < 3; epoch++ {
						r.epoch(epoch)
						r.wantDone(inEpoch(epoch, "spam", "eve", nil))
					}
					set := func(b block) uint64 {
						return r.set(&command.SetRule{Order: byOperator, Kind: command.RuleSender, Subject: b.entry, For: b.length})
					}
					var long uint64
					if turned {
						set(blocks[1])
						long = set(blocks[0])
					} else {
						long = set(blocks[0])
						set(blocks[1])
					}
					write := func(epoch uint64) { // as a node does
						t.Helper()
						p := inEpoch(epoch, "spam", "eve", nil)
						if j := r.checkPolicy(p, "192.0.2.1"); j.Rule == nil {
							r.only(p, command.OutcomeRejected, command.ProblemBlocked)
						}
						if j := r.checkPolicy(p, "192.0.2.1"); j.Rule == nil || j.Rule.Number != long {
							t.Fatalf("epoch %d: checked as %+v, want rule %d", epoch, j, long)
						}
					}
					if tries {
						write(2)
					}
					r.epoch(3)
					write(3)
					r.later(15 * day)
					r.run(&command.Tick{})
					write(3)
					if rules := r.rules(); len(rules) != 1 || rules[0].Number != long || rowsIn(t, r.Machine, state.SpaceRule) != 1 {
						t.Errorf("%d rules are left, want the longer one alone", len(rules))
					}
				})
			}
		}
	}
}

// TestBlockAgainFollows: who was blocked and tried to write, and is blocked for longer by
// the same entry of the last epoch, is blocked for as long.
func TestBlockAgainFollows(t *testing.T) {
	r := newRig(t)
	r.epoch(1)
	r.wantDone(inEpoch(1, "spam", "eve", nil))
	r.epoch(2)
	r.set(rule(command.RuleSender, "e1"))
	p := inEpoch(2, "spam", "eve", nil)
	r.wantProblem(p, command.ProblemBlocked)
	again := r.set(&command.SetRule{Order: byOperator, Kind: command.RuleSender, Subject: "e1", For: 2 * hourOfRule})
	if j := r.checkPolicy(p, "192.0.2.1"); j.Rule != nil {
		t.Errorf("the view rejects it by rule %d: the longer one cannot follow", j.Rule.Number)
	}
	if got := r.only(p, command.OutcomeRejected, command.ProblemBlocked); got.Entry != again || len(r.rules()) != 1 {
		t.Errorf("rejected by rule %d of %d, want %d alone", got.Entry, len(r.rules()), again)
	}
}

// TestRulesFollowInTheSameCall: which rules follow their senders into an epoch does not
// depend on what one call of Raft has.
func TestRulesFollowInTheSameCall(t *testing.T) {
	block := &command.SetRule{Order: byOperator, Kind: command.RuleSender, Subject: "e1"}
	next := func(epoch uint64) command.Payload { return &command.NextEpoch{Number: epoch, SealedKey: []byte{1}} }
	for name, test := range map[string]struct {
		commands []command.Payload
		epoch    uint64 // of the pseudonym that the rule is against at last
	}{
		"before the change": {[]command.Payload{inEpoch(2, "spam", "eve", nil), block, next(3)}, 2},
		"after it":          {[]command.Payload{inEpoch(2, "spam", "eve", nil), next(3), block, next(4)}, 1},
	} {
		for together := range len(test.commands) + 1 { // the last commands, in one call
			r := newRig(t)
			r.epoch(1)
			r.wantDone(inEpoch(1, "spam", "eve", nil))
			r.epoch(2)
			alone := len(test.commands) - together
			for _, c := range test.commands[:alone] {
				r.run(c)
			}
			if together > 0 {
				var indexes []uint64
				for _, c := range test.commands[alone:] {
					indexes = append(indexes, r.log.commands(c))
				}
				r.log.feed(r.Machine, indexes[0], indexes[together-1])
			}
			if rules := r.rules(); len(rules) != 1 || command.EpochOf(rules[0].Sender) != test.epoch {
				t.Errorf("%s, %d together: rules %+v, want one against a pseudonym of epoch %d", name, together, rules, test.epoch)
			}
		}
	}
}

// rules are those of the policy.
func (r *rig) rules() []*state.Rule {
	v := r.View()
	defer v.Release()
	rules, _ := v.Policy().Rules(0, 0)
	return rules
}

// TestSenderOfAcrossEpochs: what one sender wrote in this epoch and in the last one is
// selected together, whichever of it is named, and may be retracted from there.
func TestSenderOfAcrossEpochs(t *testing.T) {
	r := newRig(t)
	var spam []uint64
	for epoch := uint64(1); epoch < 4; epoch++ {
		r.epoch(epoch)
		spam = append(spam, r.wantDone(inEpoch(epoch, "spam", command.AnonymousName, nil)))
		r.wantDone(inEpoch(epoch, "home", "bob", nil))
	}
	v := r.View()
	for _, named := range spam[1:] {
		seqs, _, err := v.Select(&view.Selection{Query: view.Query{Since: -1, Limit: 100}, Until: -1, SenderOf: named})
		slices.Sort(seqs)
		if err != nil || !slices.Equal(seqs, spam[1:]) {
			t.Errorf("the sender of %d wrote %d, %v; want %d", named, seqs, err, spam[1:])
		}
	}
	v.Release()
	retract := func(seq uint64) *command.Publish {
		return inEpoch(3, "spam", command.AnonymousName, relate(command.RelationRetraction, seq))
	}
	r.wantDone(retract(spam[1]))
	r.wantProblem(retract(spam[0]), command.ProblemRetractionAnonymous)
}

// TestBudgetAcrossEpochs: a sender has no new share of the day because an epoch begins.
func TestBudgetAcrossEpochs(t *testing.T) {
	r := newRig(t)
	r.epoch(1)
	r.setSettings(0, 5000)
	big := func(epoch uint64) *command.Publish {
		return inEpoch(epoch, "spam", "eve", func(p *command.Publish) { p.Body = strings.Repeat("a", 2000) })
	}
	r.wantDone(big(1))
	r.epoch(2)
	r.wantDone(big(2))
	r.wantProblem(big(2), command.ProblemOverBudget)
	r.wantDone(inEpoch(2, "home", "bob", nil))
}

// TestReportsAcrossEpochs: who reports an entry again in the next epoch has reported it
// before.
func TestReportsAcrossEpochs(t *testing.T) {
	r := newRig(t)
	r.epoch(1)
	target := state.EntryID(r.wantDone(inEpoch(1, "spam", "eve", nil)))
	first := report(1, target, "")
	first.Proof = pseudonyms(1, "home")
	r.wantDone(first)
	r.epoch(2)
	again := report(2, target, "")
	again.Proof = pseudonyms(2, "home")
	expect(t, r.run(again)[0], command.OutcomeDuplicate, "again")
	other := report(3, target, "")
	other.Proof = pseudonyms(2, "elsewhere")
	r.wantDone(other)
}

// TestForgetSenders: it is forgotten from where old entries came, and a bounded number of
// them at once.
func TestForgetSenders(t *testing.T) {
	r := newRig(t)
	r.epoch(1)
	many := make([]command.Payload, 100)
	for i := range many {
		many[i] = inEpoch(1, "home", "bob", nil)
	}
	entries := 0
	for entries < state.ForgetBatch+50 {
		entries += len(r.run(many...))
	}
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
	young := r.wantDone(inEpoch(1, "home", "bob", nil))
	if !due() || forget() != command.OutcomeDone || r.rows(state.SpaceSender) != entries+1-state.ForgetBatch {
		t.Errorf("after the first batch %d senders are known", r.rows(state.SpaceSender))
	}
	if !due() || forget() != command.OutcomeDone || r.rows(state.SpaceSender) != 1 || due() || forget() != command.OutcomeUnchanged {
		t.Errorf("after the second %d senders are known", r.rows(state.SpaceSender))
	}
	v := r.View()
	defer v.Release()
	if from, err := v.SenderFingerprint(young); err != nil || from == "" {
		t.Errorf("the young one's is forgotten, too: %v", err)
	}
}

// TestForgottenInTheSameCall: the result is the same if one call of Raft has both the
// command that forgets senders and one that looks for a sender.
func TestForgottenInTheSameCall(t *testing.T) {
	for _, together := range []bool{false, true} {
		r := newRig(t)
		r.epoch(1)
		seq := r.wantDone(inEpoch(1, "home", command.AnonymousName, nil))
		r.log.stamp += int64(command.DefaultSettings.SenderDays) * command.DayMillis
		r.epoch(2)
		before := len(r.obs.got)
		first := r.log.commands(&command.ForgetSenders{})
		last := r.log.commands(inEpoch(2, "home", command.AnonymousName, relate(command.RelationRetraction, seq)))
		if together {
			r.log.feed(r.Machine, first, last)
		} else {
			r.log.feed(r.Machine, first, first)
			r.log.feed(r.Machine, last, last)
		}
		got := r.obs.got[before:]
		if len(got) != 2 || got[0].Res.Outcome != command.OutcomeDone || !slices.Equal(got[1].Res.Problems, []command.Problem{command.ProblemRetractionAnonymous}) {
			t.Errorf("together %t: %+v", together, got)
		}
	}
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

// TestUnchangedRegistrationFollowsItsSender: a registration without a change enters the log
// once in an epoch, because its sender has another pseudonym; not where the profile was
// purged.
func TestUnchangedRegistrationFollowsItsSender(t *testing.T) {
	r := newRig(t)
	again := func(epoch uint64) *command.Register {
		return register("bob", "k2", func(c *command.Register) {
			c.Proof, c.Request = pseudonyms(epoch, "home"), command.RequestKey{Scope: "bob", ID: "request-1"}
		})
	}
	repeats := func(when string, c *command.Register, want bool) {
		t.Helper()
		v := r.View()
		defer v.Release()
		if got, err := v.Examine(c, netip.Addr{}); got.Repeats != want || err != nil {
			t.Errorf("%s: %+v, %v", when, got, err)
		}
	}
	r.epoch(1)
	r.wantDone(again(1))
	r.log.stamp += 2 * state.KeyGrace
	r.run(&command.Tick{})
	repeats("in its epoch", again(1), true)
	r.epoch(2)
	repeats("in the next one", again(2), false)
	r.run(again(2))
	repeats("after that", again(2), true)
	r.run(&command.Purge{Order: byOperator, Agents: []string{"bob"}})
	r.epoch(3)
	repeats("after a purge", again(3), true)

	r.wantDone(register("eve", "k3", func(c *command.Register) {
		c.Proof, c.Request = pseudonyms(3, "home"), command.RequestKey{Scope: "eve", ID: "request-1"}
	}))
	r.run(&command.Purge{Order: byOperator, Agents: []string{"eve"}})
	lost := register("eve", "k4", func(c *command.Register) {
		c.Proof, c.Request = pseudonyms(3, "home"), command.RequestKey{Scope: "eve", ID: "request-1"}
	})
	repeats("purged within the time of a new key", lost, true)
	if got := r.run(lost)[0]; got.Outcome != command.OutcomeDuplicate || got.KeyIssued {
		t.Errorf("a repeat of what was purged: %+v", got)
	}
}
