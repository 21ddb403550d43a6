package apply_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
)

// TestReportersAreBounded: a report remembers so many senders. More of them write nothing.
func TestReportersAreBounded(t *testing.T) {
	r := newRig(t)
	r.Publish(nil)
	for i := range command.MaxReporters {
		r.WantOutcome(fsmtest.Report("e1", fmt.Sprint("s", i)), command.OutcomeDone, 0)
	}
	r.WantOutcome(fsmtest.Report("e1", "another"), command.OutcomeDuplicate, 0)
	check.Equal(t, r.WantReport(1).Count, command.MaxReporters, "the count")
}

// TestReportsAreFair: there is room for so many, of one sender and of all. The oldest one with one
// sender makes room for a new one, unless an established name sent it.
func TestReportsAreFair(t *testing.T) {
	r := newRig(t)
	for range command.MaxOpenReports + 30 {
		r.Publish(nil)
	}
	r.Run(&command.Register{Agent: "judge", AgentKey: "judge", Given: command.FieldNote, Note: "A note", NewKey: fsmtest.KeyHash("judge"), NewRecovery: fsmtest.KeyHash("judge")})
	send := func(entry int, sender string, outcome command.Outcome, problem command.Problem) {
		t.Helper()
		r.WantOutcome(fsmtest.Report(state.EntryID(uint64(entry)), sender), outcome, problem) //nolint:gosec // small
	}
	named := fsmtest.Report("e1", "flood0")
	named.Agent, named.AgentKey, named.Proof.Key = "judge", "judge", fsmtest.KeyHash("judge")
	send(1, "flood0", command.OutcomeDone, 0)
	young := *named
	r.WantOutcome(&young, command.OutcomeDuplicate, 0) // of flood0: a new name is the same sender
	r.Stamp += state.EstablishedAfter
	r.WantOutcome(named, command.OutcomeDone, 0)
	check.Equal(t, r.WantReport(1).Count, 2, "an established name is a sender of its own")
	named.Target = "e2"
	r.WantOutcome(named, command.OutcomeDone, 0)
	named.Proof.Key = fsmtest.KeyHash("other")
	r.WantOutcome(named, command.OutcomeRejected, command.ProblemWrongKey)

	for i := 1; i < command.MaxSenderReports; i++ {
		send(i+2, "flood0", command.OutcomeDone, 0)
	}
	send(2, "flood0", command.OutcomeRejected, command.ProblemTooManyReports) // also of what others have reported
	next := command.MaxSenderReports + 2
	for ; next <= command.MaxOpenReports; next++ { // addresses of networks
		send(next, fmt.Sprintf("net%d.%d", next/command.MaxSenderReports, next), command.OutcomeDone, 0)
	}
	send(next, fmt.Sprintf("net%d.x", next/command.MaxSenderReports-1), command.OutcomeRejected, command.ProblemTooManyReports)
	check.Equal(t, len(r.Reports(view.ReportQuery{Limit: 100})), command.MaxOpenReports, "open reports")
	send(4, "honest", command.OutcomeDone, 0) // there is always room for what is reported already
	send(next, "late", command.OutcomeDone, 0)
	open := fsmtest.NumbersOf(r.Reports(view.ReportQuery{Limit: 100}))
	check.Diff(t, open[:3], []uint64{1, 2, 4}, "the oldest that are open: the third had one sender without an established name")
	send(3, "flood0", command.OutcomeDone, 0) // it may be sent again
	open = fsmtest.NumbersOf(r.Reports(view.ReportQuery{Limit: 100}))
	check.Diff(t, open[:4], []uint64{1, 2, 4, 6}, "the oldest that are open: the fourth has two senders")
	check.Equal(t, fsmtest.InView(t, r, (*view.View).RejectedReports), 4, "reports without room")

	for i, open := range r.Reports(view.ReportQuery{Limit: 100}) {
		if open.Count == 1 {
			r.WantOutcome(fsmtest.Report(state.EntryID(open.Entry), fmt.Sprint("bot", i)), command.OutcomeDone, 0)
		}
	}
	send(next+1, "late", command.OutcomeRejected, command.ProblemReportsFull)
}

// TestClosedReportsAreBounded: the oldest goes for the newest.
func TestClosedReportsAreBounded(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	r.Publish(nil)
	for i := 0; i <= command.MaxClosedReports; i += 100 {
		var sent []command.Payload
		for j := range 100 {
			sent = append(sent, fsmtest.Report("e1", fmt.Sprint("s", i+j)), fsmtest.ResolveReport(command.ReportKept, "e1"))
		}
		r.Run(sent...)
	}
	closed := fsmtest.NumbersOf(r.Reports(view.ReportQuery{Closed: true, Limit: 100}))
	if len(closed) != command.MaxClosedReports || closed[len(closed)-1] != 101 {
		t.Errorf("%d are kept, from %d on", len(closed), closed[len(closed)-1])
	}
}

// TestReportsAndThePolicy: a blocked sender cannot report; frozen channels can be reported,
// and no name is needed.
func TestReportsAndThePolicy(t *testing.T) {
	r := newRig(t)
	r.Publish(bySender("s1"))
	yes := true
	r.Run(&command.SetSettings{ProvenOnly: &yes})
	r.set(rule(command.RuleAll, ""))
	r.set(rule(command.RuleUnproven, ""))
	r.WantOutcome(fsmtest.Report("e1", "s2"), command.OutcomeDone, 0)
	if j := r.checkPolicy(fsmtest.Report("e1", "s3"), "192.0.2.1"); j.Rule != nil || j.ProvenOnly {
		t.Errorf("checked as %+v", j)
	}
	r.set(rule(command.RuleSender, "e1"))
	expectProblem(t, r.Run(fsmtest.Report("e1", "s1"))[0], command.ProblemBlocked, "of a sender that is blocked")
	policy := r.set(rule(command.RuleNetwork, "192.0.2.0/24"))
	if j := r.checkPolicy(fsmtest.Report("e1", "s3"), "192.0.2.1"); j.Rule == nil || j.Rule.Number != policy {
		t.Errorf("from a network that is blocked: %+v", j)
	}
}

// TestReport: the reports of a subject are one, which counts its senders, hides nothing, and is closed
// once.
func TestReport(t *testing.T) {
	r := newRig(t)
	spam, other := state.EntryID(r.Publish(nil)), state.EntryID(r.Publish(nil))
	r.WantOutcome(fsmtest.Report(spam, "s1"), command.OutcomeDone, 0)
	second := fsmtest.Report(spam, "s2")
	second.Reason, second.Text = command.ReportIllegal, "Another text."
	check.Equal(t, r.WantOutcome(second, command.OutcomeDone, 0).Entry, 1, "the report that the second sender joins")
	check.Equal(t, r.WantOutcome(fsmtest.Report(spam, "s1"), command.OutcomeDuplicate, 0).Entry, 1, "the report of a repeat")
	repeats := func(p command.Payload, want uint64) {
		t.Helper()
		v := r.View()
		defer v.Release()
		if e, err := v.Admit(p, netip.Addr{}, 0); err != nil || e.Repeats != (want > 0) || e.Repeats && (e.Earlier.Outcome != command.OutcomeDuplicate || e.Earlier.Entry != want) {
			t.Errorf("the view says of a repeat %+v, %v; want report %d", e, err, want)
		}
	}
	repeats(fsmtest.Report(spam, "s1"), 1)
	repeats(fsmtest.Report(spam, "s2"), 1)
	repeats(fsmtest.Report(spam, "s3"), 0)
	repeats(fsmtest.Report(other, "s1"), 0)
	check.Equal(t, r.WantOutcome(fsmtest.Report(other, "s1"), command.OutcomeDone, 0).Entry, 2, "the report of another entry")
	r.WantOutcome(fsmtest.Report("e99", "s1"), command.OutcomeRejected, command.ProblemUnknownTarget)
	for i := range 50 {
		r.WantOutcome(fsmtest.Report(spam, fmt.Sprintf("x%d", i)), command.OutcomeDone, 0)
	}
	if doc, raw := r.Read(1); doc.Hidden != nil {
		t.Errorf("reports hide: %s", raw)
	}
	for range 2 {
		got := r.WantReport(1)
		if got.Count != 52 || got.Text != "This is advertisement." || got.Reason != command.ReportSpam || got.Entry != 1 || got.Closed != 0 {
			t.Errorf("the report is %+v", got)
		}
		v := r.View()
		if n, oldest := v.OpenReports(); n != 2 || oldest != got.At {
			t.Errorf("%d are open, the oldest of %d", n, oldest)
		}
		v.Release()
		r.Reload()
	}
	check.Diff(t, fsmtest.NumbersOf(r.Reports(view.ReportQuery{Limit: 1})), []uint64{1, 2}, "open reports")
	check.Diff(t, fsmtest.NumbersOf(r.Reports(view.ReportQuery{Of: state.ReportSubject{Entry: 1}})), []uint64{1}, "reports of an entry")

	stranger := fsmtest.ResolveReport(command.ReportKept, spam)
	stranger.By = "mia"
	r.WantOutcome(stranger, command.OutcomeRejected, command.ProblemNotModerator)
	r.WantOutcome(fsmtest.ResolveReport(command.ReportKept, "e77"), command.OutcomeUnchanged, 0)
	done := r.WantOutcome(fsmtest.ResolveReport(command.ReportKept, spam, other), command.OutcomeDone, 0)
	r.WantOutcome(fsmtest.ResolveReport(command.ReportHidden, spam), command.OutcomeUnchanged, 0)
	v := r.View()
	defer v.Release()
	if got := r.WantReport(1); got.Outcome != command.ReportKept || got.Closed != v.Time()-1000 {
		t.Errorf("it was closed as %+v", got)
	}
	rows, _, err := v.Records(done.Entry+1, 1)
	if err != nil || rows[0].What != "kept e1 e2" || rows[0].Action != state.ActionResolve || rows[0].By != command.Operator {
		t.Errorf("the record says %+v, %v", rows, err)
	}
	check.Diff(t, fsmtest.NumbersOf(r.Reports(view.ReportQuery{Closed: true, Limit: 1})), []uint64{2, 1}, "closed")
	check.Equal(t, r.WantOutcome(fsmtest.Report(spam, "s1"), command.OutcomeDuplicate, 0).Entry, 1, "the report of a repeat of what was closed")
	check.Equal(t, r.WantOutcome(fsmtest.Report(spam, "s8"), command.OutcomeDone, 0).Entry, 3, "the report of one who had not reported it")

	r.Run(fsmtest.Hide(spam))
	r.WantOutcome(fsmtest.Report(spam, "s9"), command.OutcomeRejected, command.ProblemHidden)
	r.WantOutcome(fsmtest.Report(spam, "s2"), command.OutcomeDuplicate, 0)
	repeats(fsmtest.Report(spam, "s2"), 1)
	r.WantOutcome(fsmtest.ResolveReport(command.ReportHidden, spam), command.OutcomeDone, 0)
	check.Empty(t, r.Reports(view.ReportQuery{}), "open")
}

// TestReportsGo: closed ones after a while, and the oldest when there are too many; open
// ones later.
func TestReportsGo(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.Publish(nil)
		r.WantOutcome(fsmtest.Report(state.EntryID(uint64(i+1)), fmt.Sprint("s", i)), command.OutcomeDone, 0) //nolint:gosec // small
	}
	r.WantOutcome(fsmtest.ResolveReport(command.ReportKept, "e2"), command.OutcomeDone, 0)
	next := fsmtest.InView(t, r, (*view.View).NextEnd)
	check.Equal(t, next, r.WantReport(2).Closed+command.ReportKeptMillis, "the instant at which the next goes")
	at := func(instant int64, want ...uint64) {
		t.Helper()
		r.Stamp = instant - 1000
		r.Run(&command.Tick{})
		known := append(fsmtest.NumbersOf(r.Reports(view.ReportQuery{})), fsmtest.NumbersOf(r.Reports(view.ReportQuery{Closed: true}))...)
		check.Diff(t, known, want, "known at %d", instant)
	}
	at(next-1, 1, 3, 2)
	at(next, 1, 3)
	check.Equal(t, r.WantOutcome(fsmtest.Report("e2", "s1"), command.OutcomeDone, 0).Entry, 4, "what is reported anew")
	r.Reload()
	v := r.View()
	_, oldest := v.OpenReports()
	v.Release()
	at(oldest+command.ReportOpenMillis-1, 1, 3, 4)
	at(oldest+command.ReportOpenMillis, 3, 4)
	at(oldest+command.ReportOpenMillis+10_000_000, 4)
	check.Equal(t, fsmtest.RowsIn(t, r, state.SpaceReport), 1, "rows that are left")
}

// TestReportsOfNames: a profile and the name of a channel are reported once by a sender, and not while
// they are hidden. A purge of the profile erases the texts of its reports.
func TestReportsOfNames(t *testing.T) {
	r := newRig(t)
	r.Publish(func(p *command.Publish) { p.Channel = "pills" })
	r.Run(fsmtest.Register("eve", "k1", nil))
	for _, target := range []string{"@eve", "#pills"} {
		first := r.WantOutcome(fsmtest.Report(target, "s1"), command.OutcomeDone, 0)
		again := r.WantOutcome(fsmtest.Report(target, "s1"), command.OutcomeDuplicate, 0)
		check.Equal(t, again.Entry, first.Entry, "the report of %s that is repeated", target)
	}
	for _, target := range []string{"@bob", "#knitting", "e9"} {
		r.WantOutcome(fsmtest.Report(target, "s1"), command.OutcomeRejected, command.ProblemUnknownTarget)
	}
	check.Diff(t, fsmtest.NumbersOf(r.Reports(view.ReportQuery{Of: state.ReportSubject{Name: "#pills"}})), []uint64{2}, "reports of the channel")
	r.Reload()
	r.WantDone(&command.Hide{Order: fsmtest.ByOperator, IDs: []string{"e1"}, Agents: []string{"eve"}})
	for _, target := range []string{"@eve", "#pills"} {
		r.WantOutcome(fsmtest.Report(target, "s2"), command.OutcomeRejected, command.ProblemHidden)
	}
	r.WantDone(&command.Purge{Order: fsmtest.ByOperator, Agents: []string{"eve"}})
	r.WantDone(fsmtest.ResolveReport(command.ReportHidden, "#pills"))
	open, closed := r.Reports(view.ReportQuery{}), r.Reports(view.ReportQuery{Closed: true})
	check.Equal(t, len(open) == 1 && open[0].Name == "@eve" && open[0].Text == "", true, "the open report of the purged profile has no text")
	check.Equal(t, len(closed) == 1 && closed[0].Name == "#pills" && closed[0].Text != "", true, "the report of the channel is closed")
}

// TestReporterIsForgotten: a report that stays open names nobody after a while. Its sender may send it again
// then, and the report takes no room of the sender.
func TestReporterIsForgotten(t *testing.T) {
	r := newRig(t)
	for range command.MaxSenderReports + 1 {
		r.Publish(nil)
	}
	for i := range command.MaxSenderReports {
		r.WantOutcome(fsmtest.Report(state.EntryID(uint64(i+1)), "s1"), command.OutcomeDone, 0) //nolint:gosec // small
	}
	last := state.EntryID(command.MaxSenderReports + 1)
	r.WantOutcome(fsmtest.Report("e1", "s1"), command.OutcomeDuplicate, 0)
	r.WantOutcome(fsmtest.Report(last, "s1"), command.OutcomeRejected, command.ProblemTooManyReports)
	r.ForgetSenders()
	for _, q := range r.Reports(view.ReportQuery{Limit: 100}) {
		check.Equal(t, len(q.Senders), 0, "senders of report %d", q.Number)
	}
	r.CheckReportQueue()
	r.WantOutcome(fsmtest.Report(last, "s1"), command.OutcomeDone, 0)
	r.WantOutcome(fsmtest.Report("e1", "s1"), command.OutcomeDone, 0)
	check.Equal(t, r.WantReport(1).Count, 2, "the count of what was sent again")
	r.ForgetSenders()
	check.Equal(t, len(r.WantReport(1).Senders), 0, "senders of what was sent again")
	r.WantOutcome(fsmtest.ResolveReport(command.ReportKept, "e1", last), command.OutcomeDone, 0)
	r.Stamp += command.ReportOpenMillis
	r.Run(&command.Tick{})
	check.Equal(t, fsmtest.RowsIn(t, r, state.SpaceReport)+fsmtest.RowsIn(t, r, state.SpaceForget), 0, "rows of reports that are gone")
}
