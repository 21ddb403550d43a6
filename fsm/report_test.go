package fsm

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// report is a report of an entry by a sender.
func report(target, sender string) *command.Report {
	return &command.Report{
		Agent: command.AnonymousName, AgentKey: command.AnonymousName, Target: target, Reason: command.ReportSpam,
		Text: "This is advertisement.", Proof: command.Proof{Sender: sender},
	}
}

func resolveReport(outcome command.ReportOutcome, targets ...string) *command.ResolveReports {
	return &command.ResolveReports{Order: byOperator, Targets: targets, Outcome: outcome}
}

// wantReport returns the report with a number.
func (r *rig) wantReport(number uint64) state.Report {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	return must.Get(v.Report(number))(r.t)
}

// only runs a command and insists on its outcome and its problem; zero means no problem.
func (r *rig) only(p command.Payload, outcome command.Outcome, problem command.Problem) command.Result {
	r.t.Helper()
	got := r.run(p)[0]
	var problems []command.Problem
	if problem != 0 {
		problems = append(problems, problem)
	}
	if got.Outcome != outcome || !slices.Equal(got.Problems, problems) {
		r.t.Fatalf("%+v: %+v", p, got)
	}
	return got
}

// restart opens the state anew.
func (r *rig) restart() {
	r.t.Helper()
	closeMachine(r.t, r.Machine)
	r.Machine = openAt(r.t, r.opts.Dir, func(o *Options) { o.Observer = r.obs })
}

// reports lists reports, in pages of a size.
func (r *rig) reports(q view.ReportQuery) (all []state.Report) {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	for {
		page, next, err := v.Reports(q)
		if err != nil {
			r.t.Fatal(err)
		}
		if all = append(all, page...); next == 0 {
			return all
		}
		q.Beyond = next
	}
}

func numbersOf(reports []state.Report) (numbers []uint64) {
	for _, r := range reports {
		numbers = append(numbers, r.Number)
	}
	return numbers
}

func TestReportChecks(t *testing.T) {
	for name, c := range map[string]command.Payload{
		"no reason":  &command.Report{Agent: "ada", AgentKey: "ada", Target: "e1", Text: "Spam"},
		"reason":     &command.Report{Agent: "ada", AgentKey: "ada", Target: "e1", Reason: 7, Text: "Spam"},
		"no text":    &command.Report{Agent: "ada", AgentKey: "ada", Target: "e1", Reason: 1},
		"long text":  &command.Report{Agent: "ada", AgentKey: "ada", Target: "e1", Reason: 1, Text: strings.Repeat("x", command.MaxReport+1)},
		"no target":  &command.Report{Agent: "ada", AgentKey: "ada", Reason: 1, Text: "Spam"},
		"nobody":     &command.Report{Target: "e1", Reason: 1, Text: "Spam"},
		"nothing":    &command.ResolveReports{Order: byOperator, Outcome: command.ReportKept},
		"no outcome": resolveReport(command.ReportOpen, "e1"),
		"expired":    resolveReport(command.ReportExpired, "e1"),
	} {
		check.Fails(command.Check(c))(t, "%s: %+v is taken", name, c)
	}
	checkRoundTrip(t, report("e1", "s1"), resolveReport(command.ReportErased, "e1"))
	for _, name := range command.ReportReasons.List() {
		check.Equal(t, command.ReportReason(command.ReportReasons.Parse(name)).String(), name, "the name that is written again")
	}
	for _, name := range command.ReportOutcomes.List() {
		check.Equal(t, command.ReportOutcome(command.ReportOutcomes.Parse(name)).String(), name, "the name that is written again")
	}
	if command.ReportReasons.Parse("") != 0 || command.ReportReasons.Parse("rude") != 0 {
		t.Error("an unknown reason has a number")
	}
}

// TestReport: the reports of a subject are one, which counts its senders, hides nothing, and is closed
// once.
func TestReport(t *testing.T) {
	r := newRig(t)
	spam, other := state.EntryID(r.publish(nil)), state.EntryID(r.publish(nil))
	r.only(report(spam, "s1"), command.OutcomeDone, 0)
	second := report(spam, "s2")
	second.Reason, second.Text = command.ReportIllegal, "Another text."
	check.Equal(t, r.only(second, command.OutcomeDone, 0).Entry, 1, "the report that the second sender joins")
	check.Equal(t, r.only(report(spam, "s1"), command.OutcomeDuplicate, 0).Entry, 1, "the report of a repeat")
	repeats := func(p command.Payload, want uint64) {
		t.Helper()
		v := r.View()
		defer v.Release()
		if e, err := v.Admit(p, netip.Addr{}, 0); err != nil || e.Repeats != (want > 0) || e.Repeats && (e.Earlier.Outcome != command.OutcomeDuplicate || e.Earlier.Entry != want) {
			t.Errorf("the view says of a repeat %+v, %v; want report %d", e, err, want)
		}
	}
	repeats(report(spam, "s1"), 1)
	repeats(report(spam, "s2"), 1)
	repeats(report(spam, "s3"), 0)
	repeats(report(other, "s1"), 0)
	check.Equal(t, r.only(report(other, "s1"), command.OutcomeDone, 0).Entry, 2, "the report of another entry")
	r.only(report("e99", "s1"), command.OutcomeRejected, command.ProblemUnknownTarget)
	for i := range 50 {
		r.only(report(spam, fmt.Sprintf("x%d", i)), command.OutcomeDone, 0)
	}
	if doc, raw := r.read(1); doc.Hidden != nil {
		t.Errorf("reports hide: %s", raw)
	}
	for range 2 {
		got := r.wantReport(1)
		if got.Count != 52 || got.Text != "This is advertisement." || got.Reason != command.ReportSpam || got.Entry != 1 || got.Closed != 0 {
			t.Errorf("the report is %+v", got)
		}
		v := r.View()
		if n, oldest := v.OpenReports(); n != 2 || oldest != got.At {
			t.Errorf("%d are open, the oldest of %d", n, oldest)
		}
		v.Release()
		r.restart()
	}
	check.Diff(t, numbersOf(r.reports(view.ReportQuery{Limit: 1})), []uint64{1, 2}, "open reports")
	check.Diff(t, numbersOf(r.reports(view.ReportQuery{Of: state.ReportSubject{Entry: 1}})), []uint64{1}, "reports of an entry")

	stranger := resolveReport(command.ReportKept, spam)
	stranger.By = "mia"
	r.only(stranger, command.OutcomeRejected, command.ProblemNotModerator)
	r.only(resolveReport(command.ReportKept, "e77"), command.OutcomeUnchanged, 0)
	done := r.only(resolveReport(command.ReportKept, spam, other), command.OutcomeDone, 0)
	r.only(resolveReport(command.ReportHidden, spam), command.OutcomeUnchanged, 0)
	v := r.View()
	defer v.Release()
	if got := r.wantReport(1); got.Outcome != command.ReportKept || got.Closed != v.Time()-1000 {
		t.Errorf("it was closed as %+v", got)
	}
	rows, _, err := v.Records(done.Entry+1, 1)
	if err != nil || rows[0].What != "kept e1 e2" || rows[0].Action != state.ActionResolve || rows[0].By != command.Operator {
		t.Errorf("the record says %+v, %v", rows, err)
	}
	check.Diff(t, numbersOf(r.reports(view.ReportQuery{Closed: true, Limit: 1})), []uint64{2, 1}, "closed")
	check.Equal(t, r.only(report(spam, "s1"), command.OutcomeDuplicate, 0).Entry, 1, "the report of a repeat of what was closed")
	check.Equal(t, r.only(report(spam, "s8"), command.OutcomeDone, 0).Entry, 3, "the report of one who had not reported it")

	r.run(hide(spam))
	r.only(report(spam, "s9"), command.OutcomeRejected, command.ProblemHidden)
	r.only(report(spam, "s2"), command.OutcomeDuplicate, 0)
	repeats(report(spam, "s2"), 1)
	r.only(resolveReport(command.ReportHidden, spam), command.OutcomeDone, 0)
	check.Empty(t, r.reports(view.ReportQuery{}), "open")
}

// TestReportersAreBounded: a report remembers so many senders. More of them write nothing.
func TestReportersAreBounded(t *testing.T) {
	r := newRig(t)
	r.publish(nil)
	for i := range command.MaxReporters {
		r.only(report("e1", fmt.Sprint("s", i)), command.OutcomeDone, 0)
	}
	r.only(report("e1", "another"), command.OutcomeDuplicate, 0)
	check.Equal(t, r.wantReport(1).Count, command.MaxReporters, "the count")
}

// TestReportsAreFair: there is room for so many, of one sender and of all. The oldest one with one
// sender makes room for a new one, unless an established name sent it.
func TestReportsAreFair(t *testing.T) {
	r := newRig(t)
	for range command.MaxOpenReports + 30 {
		r.publish(nil)
	}
	r.run(&command.Register{Agent: "judge", AgentKey: "judge", Given: command.FieldNote, Note: "A note", NewKey: keyHash("judge"), NewRecovery: keyHash("judge")})
	send := func(entry int, sender string, outcome command.Outcome, problem command.Problem) {
		t.Helper()
		r.only(report(state.EntryID(uint64(entry)), sender), outcome, problem) //nolint:gosec // small
	}
	named := report("e1", "flood0")
	named.Agent, named.AgentKey, named.Proof.Key = "judge", "judge", keyHash("judge")
	send(1, "flood0", command.OutcomeDone, 0)
	young := *named
	r.only(&young, command.OutcomeDuplicate, 0) // of flood0: a new name is the same sender
	r.log.stamp += state.EstablishedAfter
	r.only(named, command.OutcomeDone, 0)
	check.Equal(t, r.wantReport(1).Count, 2, "an established name is a sender of its own")
	named.Target = "e2"
	r.only(named, command.OutcomeDone, 0)
	named.Proof.Key = keyHash("other")
	r.only(named, command.OutcomeRejected, command.ProblemWrongKey)

	for i := 1; i < command.MaxSenderReports; i++ {
		send(i+2, "flood0", command.OutcomeDone, 0)
	}
	send(2, "flood0", command.OutcomeRejected, command.ProblemTooManyReports) // also of what others have reported
	next := command.MaxSenderReports + 2
	for ; next <= command.MaxOpenReports; next++ { // addresses of networks
		send(next, fmt.Sprintf("net%d.%d", next/command.MaxSenderReports, next), command.OutcomeDone, 0)
	}
	send(next, fmt.Sprintf("net%d.x", next/command.MaxSenderReports-1), command.OutcomeRejected, command.ProblemTooManyReports)
	check.Equal(t, len(r.reports(view.ReportQuery{Limit: 100})), command.MaxOpenReports, "open reports")
	send(4, "honest", command.OutcomeDone, 0) // there is always room for what is reported already
	send(next, "late", command.OutcomeDone, 0)
	open := numbersOf(r.reports(view.ReportQuery{Limit: 100}))
	check.Diff(t, open[:3], []uint64{1, 2, 4}, "the oldest that are open: the third had one sender without an established name")
	send(3, "flood0", command.OutcomeDone, 0) // it may be sent again
	open = numbersOf(r.reports(view.ReportQuery{Limit: 100}))
	check.Diff(t, open[:4], []uint64{1, 2, 4, 6}, "the oldest that are open: the fourth has two senders")
	v := r.View()
	n, err := v.RejectedReports()
	v.Release()
	check.Equal(t, n, 4, "reports without room, %v", err)

	for i, open := range r.reports(view.ReportQuery{Limit: 100}) {
		if open.Count == 1 {
			r.only(report(state.EntryID(open.Entry), fmt.Sprint("bot", i)), command.OutcomeDone, 0)
		}
	}
	send(next+1, "late", command.OutcomeRejected, command.ProblemReportsFull)
}

// TestReportsGo: closed ones after a while, and the oldest when there are too many; open
// ones later.
func TestReportsGo(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.publish(nil)
		r.only(report(state.EntryID(uint64(i+1)), fmt.Sprint("s", i)), command.OutcomeDone, 0) //nolint:gosec // small
	}
	r.only(resolveReport(command.ReportKept, "e2"), command.OutcomeDone, 0)
	v := r.View()
	next, some := v.NextReportEnd()
	v.Release()
	if closed := r.wantReport(2); !some || next != closed.Closed+command.ReportKeptMillis {
		t.Errorf("the next goes at %d, %t", next, some)
	}
	at := func(instant int64, want ...uint64) {
		t.Helper()
		r.log.stamp = instant - 1000
		r.run(&command.Tick{})
		known := append(numbersOf(r.reports(view.ReportQuery{})), numbersOf(r.reports(view.ReportQuery{Closed: true}))...)
		check.Diff(t, known, want, "known at %d", instant)
	}
	at(next-1, 1, 3, 2)
	at(next, 1, 3)
	check.Equal(t, r.only(report("e2", "s1"), command.OutcomeDone, 0).Entry, 4, "what is reported anew")
	r.restart()
	v = r.View()
	_, oldest := v.OpenReports()
	v.Release()
	at(oldest+command.ReportOpenMillis-1, 1, 3, 4)
	at(oldest+command.ReportOpenMillis, 3, 4)
	at(oldest+command.ReportOpenMillis+10_000_000, 4)
	check.Equal(t, rowsIn(t, r.Machine, state.SpaceReport), 1, "rows that are left")
}

// TestClosedReportsAreBounded: the oldest goes for the newest.
func TestClosedReportsAreBounded(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	r.publish(nil)
	for i := 0; i <= command.MaxClosedReports; i += 100 {
		var sent []command.Payload
		for j := range 100 {
			sent = append(sent, report("e1", fmt.Sprint("s", i+j)), resolveReport(command.ReportKept, "e1"))
		}
		r.run(sent...)
	}
	closed := numbersOf(r.reports(view.ReportQuery{Closed: true, Limit: 100}))
	if len(closed) != command.MaxClosedReports || closed[len(closed)-1] != 101 {
		t.Errorf("%d are kept, from %d on", len(closed), closed[len(closed)-1])
	}
}

// TestReportsAndThePolicy: a blocked sender cannot report; frozen channels can be reported,
// and no name is needed.
func TestReportsAndThePolicy(t *testing.T) {
	r := newRig(t)
	r.publish(bySender("s1"))
	yes := true
	r.run(&command.SetSettings{ProvenOnly: &yes})
	r.set(rule(command.RuleAll, ""))
	r.set(rule(command.RuleUnproven, ""))
	r.only(report("e1", "s2"), command.OutcomeDone, 0)
	if j := r.checkPolicy(report("e1", "s3"), "192.0.2.1"); j.Rule != nil || j.ProvenOnly {
		t.Errorf("checked as %+v", j)
	}
	r.set(rule(command.RuleSender, "e1"))
	expectProblem(t, r.run(report("e1", "s1"))[0], command.ProblemBlocked, "of a sender that is blocked")
	policy := r.set(rule(command.RuleNetwork, "192.0.2.0/24"))
	if j := r.checkPolicy(report("e1", "s3"), "192.0.2.1"); j.Rule == nil || j.Rule.Number != policy {
		t.Errorf("from a network that is blocked: %+v", j)
	}
}

// TestPurgeErasesReports: what a report quotes goes with the entry, out of the files too,
// also of one that was closed or is gone.
func TestPurgeErasesReports(t *testing.T) {
	r := newRig(t)
	for range 2 {
		r.publish(nil)
	}
	send := func(target, says string) {
		c := report(target, "s"+says)
		c.Text = "It says " + says
		r.only(c, command.OutcomeDone, 0)
	}
	send("e1", purgedWord+" first.")
	r.only(resolveReport(command.ReportKept, "e1"), command.OutcomeDone, 0)
	r.log.stamp += command.ReportKeptMillis
	r.run(&command.Tick{}) // the first is gone
	send("e1", purgedWord+" again.")
	r.only(resolveReport(command.ReportErased, "e1"), command.OutcomeDone, 0)
	send("e1", purgedWord+" once more.")
	send("e2", "nothing.")
	must.Do(t, r.store.Flush())
	if found := r.find(); len(found) == 0 {
		t.Error("it is found nowhere before")
	}
	r.run(purge("e1"))
	for number := uint64(2); number <= 4; number++ {
		if got := r.wantReport(number); (got.Text == "") != (number < 4) || got.Reason != command.ReportSpam {
			t.Errorf("report %d is %+v", number, got)
		}
	}
	r.erase()
	if found, err := fsmtest.FindText(r.opts.Dir, purgedWord); len(found) > 0 || err != nil {
		t.Errorf("it is still in %q, %v", found, err)
	}
}

// TestReportsOfNames: a profile and the name of a channel are reported once by a sender, and not while
// they are hidden. A purge of the profile erases the texts of its reports.
func TestReportsOfNames(t *testing.T) {
	r := newRig(t)
	r.publish(func(p *command.Publish) { p.Channel = "pills" })
	r.run(register("eve", "k1", nil))
	for _, target := range []string{"@eve", "#pills"} {
		first := r.only(report(target, "s1"), command.OutcomeDone, 0)
		again := r.only(report(target, "s1"), command.OutcomeDuplicate, 0)
		check.Equal(t, again.Entry, first.Entry, "the report of %s that is repeated", target)
	}
	for _, target := range []string{"@bob", "#knitting", "e9"} {
		r.only(report(target, "s1"), command.OutcomeRejected, command.ProblemUnknownTarget)
	}
	check.Diff(t, numbersOf(r.reports(view.ReportQuery{Of: state.ReportSubject{Name: "#pills"}})), []uint64{2}, "reports of the channel")
	r.restart()
	r.wantDone(&command.Hide{Order: byOperator, IDs: []string{"e1"}, Agents: []string{"eve"}})
	for _, target := range []string{"@eve", "#pills"} {
		r.only(report(target, "s2"), command.OutcomeRejected, command.ProblemHidden)
	}
	r.wantDone(&command.Purge{Order: byOperator, Agents: []string{"eve"}})
	r.wantDone(resolveReport(command.ReportHidden, "#pills"))
	open, closed := r.reports(view.ReportQuery{}), r.reports(view.ReportQuery{Closed: true})
	check.Equal(t, len(open) == 1 && open[0].Name == "@eve" && open[0].Text == "", true, "the open report of the purged profile has no text")
	check.Equal(t, len(closed) == 1 && closed[0].Name == "#pills" && closed[0].Text != "", true, "the report of the channel is closed")
}

// checkReportQueue holds that the queue in memory agrees with the rows, that a subject has one open
// report, and that no sender stands twice in a report.
func checkReportQueue(t tester, m *Machine) {
	t.Helper()
	loaded := must.Get(state.LoadReports(m.store.DB))(t)
	must.Equal(t, fmt.Sprint(m.Reports), fmt.Sprint(loaded), "the queue in memory")
	rows, open := rowsOf(t, m), map[state.ReportSubject]bool{}
	for _, queued := range slices.Concat(loaded.Open, loaded.Closed) {
		r := must.Get(state.Decode[state.Report]([]byte(rows[string(state.ReportKey(queued.Number))])))(t)
		slices.Sort(r.Senders)
		must.Equal(t, len(slices.Compact(r.Senders)), len(r.Senders), "senders of report %d", queued.Number)
		must.Equal(t, r.Count >= uint64(len(r.Senders)), true, "the count of report %d", queued.Number)
		must.Equal(t, r.Closed == 0 && open[r.ReportSubject], false, "another open report of the subject of report %d", queued.Number)
		open[r.ReportSubject] = open[r.ReportSubject] || r.Closed == 0
	}
}

// TestReporterIsForgotten: a report that stays open names nobody after a while. Its sender may send it again
// then, and the report takes no room of the sender.
func TestReporterIsForgotten(t *testing.T) {
	r := newRig(t)
	for range command.MaxSenderReports + 1 {
		r.publish(nil)
	}
	for i := range command.MaxSenderReports {
		r.only(report(state.EntryID(uint64(i+1)), "s1"), command.OutcomeDone, 0) //nolint:gosec // small
	}
	last := state.EntryID(command.MaxSenderReports + 1)
	r.only(report("e1", "s1"), command.OutcomeDuplicate, 0)
	r.only(report(last, "s1"), command.OutcomeRejected, command.ProblemTooManyReports)
	r.forgetSenders()
	for _, q := range r.reports(view.ReportQuery{Limit: 100}) {
		check.Equal(t, len(q.Senders), 0, "senders of report %d", q.Number)
	}
	checkReportQueue(t, r.Machine)
	r.only(report(last, "s1"), command.OutcomeDone, 0)
	r.only(report("e1", "s1"), command.OutcomeDone, 0)
	check.Equal(t, r.wantReport(1).Count, 2, "the count of what was sent again")
	r.forgetSenders()
	check.Equal(t, len(r.wantReport(1).Senders), 0, "senders of what was sent again")
	r.only(resolveReport(command.ReportKept, "e1", last), command.OutcomeDone, 0)
	r.log.stamp += command.ReportOpenMillis
	r.run(&command.Tick{})
	check.Equal(t, rowsIn(t, r.Machine, state.SpaceReport)+rowsIn(t, r.Machine, state.SpaceForget), 0, "rows of reports that are gone")
}
