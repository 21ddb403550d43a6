package fsm

import (
	"crypto/sha256"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// grant gives a moderator a token with a role.
func (r *rig) grant(name string, role command.Role, millis int64) {
	r.t.Helper()
	token := sha256.Sum256([]byte(name))
	r.wantDone(&command.SetModerator{Order: byOperator, Name: name, Token: token[:], Role: role, For: millis})
}

// purgeBy is the purge of an entry by a moderator.
func purgeBy(name string, ids ...string) *command.Purge {
	return &command.Purge{Order: command.Order{By: name, Reason: "An address"}, IDs: ids, Servers: []string{"n1-a"}}
}

func confirm(name string, number uint64) *command.ConfirmPurge {
	return &command.ConfirmPurge{Order: command.Order{By: name}, Number: number, Servers: []string{"n2-b"}}
}

// applyNextAt sets the stamp of the next log entry.
func (r *rig) applyNextAt(stamp int64) { r.log.stamp = stamp - stampStep }

// waitingPurges returns the numbers of the purges that wait.
func (r *rig) waitingPurges() (numbers []uint64) {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	list, _, err := v.WaitingPurges(0, 0)
	must.Do(r.t, err)
	for i := range list {
		numbers = append(numbers, list[i].Number)
	}
	return numbers
}

// TestRolesIncludeSmallerOnes holds which role each order needs, and that larger ones include it.
func TestRolesIncludeSmallerOnes(t *testing.T) {
	rule := func(kind command.RuleKind, subject string) func(command.Order) command.Payload {
		return func(o command.Order) command.Payload {
			return &command.SetRule{Order: o, Kind: kind, Subject: subject, For: command.DayMillis}
		}
	}
	for name, tt := range map[string]struct {
		needs command.Role
		order func(o command.Order) command.Payload
	}{
		"resolve": {command.RoleReport, func(o command.Order) command.Payload {
			return &command.ResolveReports{Order: o, Targets: []string{"e1"}, Outcome: command.ReportKept}
		}},
		"hide":         {command.RoleHide, func(o command.Order) command.Payload { return &command.Hide{Order: o, IDs: []string{"e1"}} }},
		"block a name": {command.RoleHide, rule(command.RuleName, "eve")},
		"lift a block": {command.RoleHide, func(o command.Order) command.Payload { return &command.LiftRule{Order: o, Number: 1} }},
		"purge":        {command.RolePurge, func(o command.Order) command.Payload { return &command.Purge{Order: o, IDs: []string{"e1"}} }},
		"confirm":      {command.RolePurge, func(o command.Order) command.Payload { return &command.ConfirmPurge{Order: o, Number: 9} }},
		"a network":    {command.RoleAdmin, rule(command.RuleNetwork, "192.0.2.0/24")},
		"a pattern":    {command.RoleAdmin, rule(command.RulePattern, "casino")},
		"freeze":       {command.RoleAdmin, rule(command.RuleChannel, "general")},
		"lift freeze":  {command.RoleAdmin, func(o command.Order) command.Payload { return &command.LiftRule{Order: o, Number: 2} }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.wantDone(rule(command.RuleName, "mallory")(byOperator))
			r.wantDone(rule(command.RuleAll, "")(byOperator))
			for role := command.RoleReport; role <= command.RoleAdmin; role++ {
				r.grant("mia", role, command.TokenMillis)
				got := r.run(tt.order(command.Order{By: "mia"}))[0]
				small := len(got.Problems) == 1 && got.Problems[0] == command.ProblemRole
				check.Equal(t, small, role < tt.needs, "rejected with the role %s", role)
				if small {
					check.Equal(t, command.Role(got.Entry), tt.needs, "the role that is needed") //nolint:gosec // small
				}
			}
		})
	}
}

// TestTokensEnd holds that log time ends a token, and that a view knows when.
func TestTokensEnd(t *testing.T) {
	r := newRig(t)
	id := state.EntryID(r.publish(nil))
	r.grant("mia", command.RoleAdmin, 10_000)
	r.grant("zoe", command.RoleReport, 20_000)
	v := r.View()
	first, ends := v.NextTokenEnd()
	last := must.Get(v.LastAdminEnd())(t)
	v.Release()
	check.Equal(t, ends, true, "a token ends")
	check.Equal(t, first, last, "the first end is that of the only token with the role admin")
	r.applyNextAt(first - 1)
	order := command.Order{By: "mia"}
	r.only(&command.Hide{Order: order, IDs: []string{id}}, command.OutcomeDone, 0)
	r.applyNextAt(first)
	r.only(&command.Hide{Order: order, IDs: []string{id}, Unhide: true}, command.OutcomeRejected, command.ProblemNotModerator)
	v = r.View()
	defer v.Release()
	hash := sha256.Sum256([]byte("mia"))
	mia, ended, err := v.Moderator(hash[:])
	must.Do(t, err)
	check.Equal(t, mia.Name, "mia", "the owner of a token that has ended")
	check.Equal(t, ended, true, "the token has ended")
	next, _ := v.NextTokenEnd()
	check.Equal(t, next > first, true, "the next end is that of the other token")
	check.Equal(t, must.Get(v.LastAdminEnd())(t), first, "the end of the last token with the role admin, in the past")
}

// TestPurgeWaitsForAnother holds that a moderator's purge hides at once, and that another moderator
// alone makes it final.
func TestPurgeWaitsForAnother(t *testing.T) {
	r := newRig(t)
	id := state.EntryID(r.publish(func(p *command.Publish) { p.Agent, p.AgentKey = "eve", "eve" }))
	r.run(register("eve", "A key", nil))
	for _, name := range []string{"mia", "zoe"} {
		r.grant(name, command.RolePurge, command.TokenMillis)
	}
	order := purgeBy("mia", id, "e77")
	order.Agents = []string{"eve"}
	asked := r.wantDone(order)
	stub := func() (hidden, purged bool) {
		doc, _ := r.read(1)
		return doc.Hidden != nil, doc.Hidden != nil && doc.Hidden.Purged
	}
	hidden, purged := stub()
	check.Equal(t, hidden, true, "it is hidden at once")
	check.Equal(t, purged, false, "its text is kept")
	check.Equal(t, r.wantDone(order), asked, "the same call again is the same purge")
	check.Diff(t, r.waitingPurges(), []uint64{asked}, "the purges that wait")
	r.wantProblem(confirm("mia", asked), command.ProblemOwnPurge)
	r.wantProblem(confirm("zoe", asked+7), command.ProblemUnknownPurge)
	done := r.wantDone(confirm("zoe", asked))
	_, purged = stub()
	check.Equal(t, purged, true, "its text is gone once another moderator confirms")
	check.Diff(t, r.waitingPurges(), []uint64(nil), "the purges that wait after that")
	r.wantProblem(confirm("zoe", asked), command.ProblemUnknownPurge)
	v := r.View()
	defer v.Release()
	rows, _, err := v.Records(0, 0)
	must.Do(t, err)
	for _, row := range rows {
		switch row.Number {
		case asked:
			check.Diff(t, []string{row.By, row.Action, row.What, row.Reason}, []string{"mia", state.ActionAskPurge, "e1 @eve", "An address"}, "the record of the wish")
		case done:
			check.Diff(t, []string{row.By, row.Action, row.What, row.Reason}, []string{"zoe", state.ActionPurge, "e1 @eve", "An address"}, "the record of the purge")
		}
	}
	must.Do(t, v.Purges(0, func(p state.Purge) error {
		check.Diff(t, p.Servers, []string{"n2-b"}, "the servers at the time of the confirmation")
		return nil
	}))
}

// TestPurgeLapses holds that a purge without a confirmation lapses after a day of log time, with
// the text hidden and kept.
func TestPurgeLapses(t *testing.T) {
	r := newRig(t)
	id := state.EntryID(r.publish(nil))
	for _, name := range []string{"mia", "zoe"} {
		r.grant(name, command.RolePurge, command.TokenMillis)
	}
	asked := r.wantDone(purgeBy("mia", id))
	lapses := r.now() + command.ConfirmMillis
	r.applyNextAt(lapses - 1)
	r.wantProblem(confirm("mia", asked), command.ProblemOwnPurge)
	v := r.View()
	next, _ := v.NextReportEnd()
	v.Release()
	check.Equal(t, next, lapses, "when log time has to advance")
	r.restart()
	r.applyNextAt(lapses)
	r.run(&command.Tick{})
	v = r.View()
	defer v.Release()
	rows, _, err := v.Records(0, 1)
	must.Do(t, err)
	check.Diff(t, rows, []state.Record{{Number: asked + 1, At: lapses, By: "mia", Action: state.ActionLapsePurge, What: id, Reason: "An address"}}, "the record of a purge that lapses")
	r.wantProblem(confirm("zoe", asked), command.ProblemUnknownPurge)
	check.Diff(t, r.waitingPurges(), []uint64(nil), "the purges that wait after a day")
	doc, _ := r.read(1)
	check.Equal(t, doc.Hidden != nil && !doc.Hidden.Purged, true, "it is hidden, and its text is kept")
	again := r.wantDone(purgeBy("zoe", id))
	check.Equal(t, r.rows(state.SpaceWaiting), 1, "rows: the lapsed one is removed")
	r.wantDone(confirm("mia", again))
}

// TestPurgeAtOnce holds who needs no confirmation: the operator, and moderators where the operator
// has turned it off; and that the operator may confirm.
func TestPurgeAtOnce(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.publish(nil)
	}
	r.grant("mia", command.RolePurge, command.TokenMillis)
	purged := func(seq uint64) bool {
		doc, _ := r.read(seq)
		return doc.Hidden != nil && doc.Hidden.Purged
	}
	r.wantDone(purge("e1"))
	check.Equal(t, purged(1), true, "the operator's purge")
	r.wantDone(confirm(command.Operator, r.wantDone(purgeBy("mia", "e2"))))
	check.Equal(t, purged(2), true, "a purge that the operator confirms")
	off := false
	r.wantDone(&command.SetSettings{PurgeConfirm: &off})
	r.wantDone(purgeBy("mia", "e3"))
	check.Equal(t, purged(3), true, "a purge without the setting")
}

// TestWaitingPurgesAreBounded holds that no more purges wait than fit, and that a rejected one
// hides no entry.
func TestWaitingPurgesAreBounded(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	r.grant("mia", command.RolePurge, command.TokenMillis)
	var orders []command.Payload
	for range command.MaxWaitingPurges + 1 {
		orders = append(orders, purgeBy("mia", state.EntryID(r.publish(nil))))
	}
	results := r.run(orders...)
	check.Equal(t, results[command.MaxWaitingPurges-1].Outcome, command.OutcomeDone, "the last one that fits")
	check.Diff(t, results[command.MaxWaitingPurges].Problems, []command.Problem{command.ProblemTooManyPurges}, "one too many")
	doc, _ := r.read(command.MaxWaitingPurges + 1)
	check.Equal(t, doc.Hidden == nil, true, "its entry is shown")
}
