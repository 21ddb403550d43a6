package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// reportID is the id of a receipt.
func reportID(n int) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, command.ReportIDBytes-8), uint64(n))
}

// report is a report of an entry by a sender.
func report(n int, target, sender string) *command.Report {
	return &command.Report{
		Agent: command.AnonymousName, AgentKey: command.AnonymousName, ID: reportID(n), Target: target, Reason: command.ReportSpam,
		Text: "This is advertisement.", Contact: "me@example.org", Proof: command.Proof{Sender: sender},
	}
}

func resolveReport(outcome command.ReportOutcome, ids ...int) *command.ResolveReports {
	c := &command.ResolveReports{Order: byOperator, Outcome: outcome}
	for _, n := range ids {
		c.Reports = append(c.Reports, reportID(n))
	}
	return c
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
		"short id":   &command.Report{Agent: "ada", AgentKey: "ada", ID: []byte("x"), Target: "e1", Reason: 1, Text: "Spam"},
		"no reason":  &command.Report{Agent: "ada", AgentKey: "ada", ID: reportID(1), Target: "e1", Text: "Spam"},
		"reason":     &command.Report{Agent: "ada", AgentKey: "ada", ID: reportID(1), Target: "e1", Reason: 7, Text: "Spam"},
		"no text":    &command.Report{Agent: "ada", AgentKey: "ada", ID: reportID(1), Target: "e1", Reason: 1},
		"long text":  &command.Report{Agent: "ada", AgentKey: "ada", ID: reportID(1), Target: "e1", Reason: 1, Text: strings.Repeat("x", command.MaxReport+1)},
		"contact":    &command.Report{Agent: "ada", AgentKey: "ada", ID: reportID(1), Target: "e1", Reason: 1, Text: "Spam", Contact: strings.Repeat("x", command.MaxReportContact+1)},
		"no target":  &command.Report{Agent: "ada", AgentKey: "ada", ID: reportID(1), Reason: 1, Text: "Spam"},
		"nobody":     &command.Report{ID: reportID(1), Target: "e1", Reason: 1, Text: "Spam"},
		"nothing":    &command.ResolveReports{Order: byOperator, Outcome: command.ReportKept},
		"no outcome": resolveReport(command.ReportOpen, 1),
		"dropped":    resolveReport(command.ReportDropped, 1),
		"expired":    resolveReport(command.ReportExpired, 1),
		"bad id":     &command.ResolveReports{Order: byOperator, Outcome: command.ReportKept, Reports: [][]byte{{1}}},
	} {
		if err := command.Check(c); err == nil {
			t.Errorf("%s: %+v is taken", name, c)
		}
	}
	checkRoundTrip(t, report(1, "e1", "s1"), &command.ResolveReports{Order: byOperator, Reports: [][]byte{reportID(1)}, Targets: []string{"e1"}, Outcome: command.ReportErased})
	for _, name := range command.ReportReasons.List() {
		if r := command.ReportReason(command.ReportReasons.Parse(name)); r.String() != name {
			t.Errorf("%s is %s", name, r)
		}
	}
	for _, name := range command.ReportOutcomes.List() {
		if o := command.ReportOutcome(command.ReportOutcomes.Parse(name)); o.String() != name {
			t.Errorf("%s is %s", name, o)
		}
	}
	if command.ReportReasons.Parse("") != 0 || command.ReportReasons.Parse("rude") != 0 {
		t.Error("an unknown reason has a number")
	}
}

// TestReport: a report waits, hides no entry, and is closed once. The same sender's next
// report of the entry is the first one.
func TestReport(t *testing.T) {
	r := newRig(t)
	spam, other := state.EntryID(r.publish(nil)), state.EntryID(r.publish(nil))
	r.only(report(1, spam, "s1"), command.OutcomeDone, 0)
	r.only(report(2, spam, "s2"), command.OutcomeDone, 0)
	if got := r.only(report(3, spam, "s1"), command.OutcomeDuplicate, 0); got.Entry != 1 {
		t.Errorf("a repeat is report %d", got.Entry)
	}
	repeats := func(p command.Payload, want uint64) {
		t.Helper()
		v := r.View()
		defer v.Release()
		if e, err := v.Examine(p, netip.Addr{}); err != nil || e.Repeats != (want > 0) || e.Repeats && (e.Earlier.Outcome != command.OutcomeDuplicate || e.Earlier.Entry != want) {
			t.Errorf("the view says of a repeat %+v, %v; want report %d", e, err, want)
		}
	}
	repeats(report(3, spam, "s1"), 1)
	repeats(report(3, spam, "s2"), 2)
	repeats(report(3, spam, "s3"), 0)
	repeats(report(3, other, "s1"), 0)
	if got := r.only(report(4, other, "s1"), command.OutcomeDone, 0); got.Entry != 3 {
		t.Errorf("a report of another entry is report %d", got.Entry)
	}
	r.only(report(5, "e99", "s1"), command.OutcomeRejected, command.ProblemUnknownTarget)
	for i := range 50 {
		r.only(report(100+i, spam, fmt.Sprintf("x%d", i)), command.OutcomeDone, 0)
	}
	if doc, raw := r.read(1); doc.Hidden != nil {
		t.Errorf("reports hide: %s", raw)
	}
	for range 2 {
		v := r.View()
		got, err := v.ReportByID(reportID(1))
		if err != nil || got.Number != 1 || got.Text != "This is advertisement." || got.Contact != "me@example.org" || got.Reason != command.ReportSpam || got.Entry != 1 || got.Closed != 0 {
			t.Errorf("the report is %+v, %v", got, err)
		}
		if n, oldest := v.OpenReports(); n != 53 || oldest != got.At {
			t.Errorf("%d are open, the oldest of %d", n, oldest)
		}
		v.Release()
		r.restart()
	}
	if got := numbersOf(r.reports(view.ReportQuery{Limit: 2, Of: state.ReportSubject{Entry: 1}})); len(got) != 52 || !slices.IsSorted(got) || slices.Contains(got, 3) {
		t.Errorf("the reports of an entry: %d", got)
	}

	stranger := resolveReport(command.ReportKept, 1)
	stranger.By = "mia"
	r.only(stranger, command.OutcomeRejected, command.ProblemNotModerator)
	r.only(resolveReport(command.ReportKept, 77), command.OutcomeUnchanged, 0)
	done := r.only(resolveReport(command.ReportKept, 1, 4), command.OutcomeDone, 0)
	r.only(resolveReport(command.ReportHidden, 1), command.OutcomeUnchanged, 0)
	v := r.View()
	defer v.Release()
	got, err := v.ReportByID(reportID(1))
	if err != nil || got.Outcome != command.ReportKept || got.Closed != v.Time()-1000 {
		t.Errorf("it was closed as %+v, %v", got, err)
	}
	rows, _, err := v.Records(done.Entry+1, 1)
	if err != nil || rows[0].What != "kept e1 e2" || rows[0].Action != state.ActionResolve || rows[0].By != command.Operator {
		t.Errorf("the record says %+v, %v", rows, err)
	}
	check.Diff(t, numbersOf(r.reports(view.ReportQuery{Closed: true, Limit: 1})), []uint64{3, 1}, "closed")
	if got := r.only(report(6, spam, "s1"), command.OutcomeDuplicate, 0); got.Entry != 1 {
		t.Errorf("a repeat of what was closed is report %d", got.Entry)
	}

	all := &command.ResolveReports{Order: byOperator, Targets: []string{spam}, Outcome: command.ReportHidden}
	r.run(hide(spam))
	r.only(report(7, spam, "s9"), command.OutcomeRejected, command.ProblemHidden)
	r.only(report(8, spam, "s2"), command.OutcomeDuplicate, 0)
	repeats(report(8, spam, "s2"), 2)
	r.only(all, command.OutcomeDone, 0)
	if open := r.reports(view.ReportQuery{}); len(open) > 0 {
		t.Errorf("open are %d", numbersOf(open))
	}
}

// TestReportsAreFair: there is room for so many, of one sender and of all; who sends most
// makes room for others, and names that are established have their own.
func TestReportsAreFair(t *testing.T) {
	r := newRig(t)
	for range 60 {
		r.publish(nil)
	}
	n := 0
	send := func(entry int, sender string, outcome command.Outcome, problem command.Problem) {
		t.Helper()
		n++
		r.only(report(n, state.EntryID(uint64(entry)), sender), outcome, problem)
	}
	for i := range command.MaxSenderReports {
		send(i+1, "flood0", command.OutcomeDone, 0)
	}
	send(command.MaxSenderReports+1, "flood0", command.OutcomeRejected, command.ProblemTooManyReports)
	for i := range command.MaxSenderReports { // addresses of one network
		send(i+1, fmt.Sprintf("net.%d", i), command.OutcomeDone, 0)
	}
	send(1, "net.x", command.OutcomeRejected, command.ProblemTooManyReports)
	for s := 1; s <= command.MaxOpenReports/command.MaxSenderReports-2; s++ {
		for i := range command.MaxSenderReports {
			send(i+1, fmt.Sprintf("flood%d", s), command.OutcomeDone, 0)
		}
	}
	honest := n + 1
	send(60, "honest", command.OutcomeDone, 0)
	check.Equal(t, len(r.reports(view.ReportQuery{Limit: 100})), command.MaxOpenReports, "open reports")
	for i := range 100 { // many more newcomers: no sender of one is pushed out
		send(59, fmt.Sprintf("new%d", i), command.OutcomeDone, 0)
	}
	v := r.View()
	got, err := v.ReportByID(reportID(honest))
	if err != nil || got.Closed != 0 {
		t.Errorf("the honest one is %+v, %v", got, err)
	}
	dropped, _, err := v.Reports(view.ReportQuery{Closed: true, Limit: 100})
	if err != nil || slices.ContainsFunc(dropped, func(r state.Report) bool { return r.Outcome != command.ReportDropped || r.Entry >= 59 }) {
		t.Errorf("dropped were %+v, %v", dropped, err)
	}
	if n, err := v.RejectedReports(); n != uint64(2+len(r.reports(view.ReportQuery{Closed: true, Limit: 100}))) || err != nil {
		t.Errorf("%d had no room, %v", n, err)
	}
	v.Release()
	send(58, "honest", command.OutcomeDone, 0) // its second one: there are others with more
	full := false
	for i := 0; !full; i++ {
		got := r.run(report(10_000+i, state.EntryID(57), fmt.Sprintf("bot%d", i)))[0]
		if full = slices.Equal(got.Problems, []command.Problem{command.ProblemReportsFull}); !full && got.Outcome != command.OutcomeDone || i > command.MaxOpenReports {
			t.Fatalf("bot %d: %+v", i, got)
		}
	}
	send(56, "late", command.OutcomeRejected, command.ProblemReportsFull)

	r.run(&command.Register{Agent: "judge", AgentKey: "judge", Given: command.FieldNote, Note: "A note", NewKey: keyHash("judge"), NewRecovery: keyHash("judge")})
	named := report(99_999, "e1", "flood1")
	named.Agent, named.AgentKey, named.Proof.Key = "judge", "judge", keyHash("judge")
	young := *named
	r.only(&young, command.OutcomeDuplicate, 0) // of flood1: a new name is the same sender
	r.log.stamp += state.EstablishedAfter
	r.only(named, command.OutcomeDone, 0)
	named.ID, named.Proof.Key = reportID(99_998), keyHash("other")
	r.only(named, command.OutcomeRejected, command.ProblemWrongKey)
}

// TestReportsGo: closed ones after a while, and the oldest when there are too many; open
// ones later.
func TestReportsGo(t *testing.T) {
	r := newRig(t)
	r.publish(nil)
	for i := range 3 {
		r.only(report(i, "e1", fmt.Sprint("s", i)), command.OutcomeDone, 0)
	}
	r.only(resolveReport(command.ReportKept, 1), command.OutcomeDone, 0)
	v := r.View()
	next, some := v.NextReportEnd()
	if closed, _ := v.ReportByID(reportID(1)); !some || next != closed.Closed+command.ReportKeptMillis {
		t.Errorf("the next goes at %d, %t", next, some)
	}
	v.Release()
	known := func() (ids []int) {
		v := r.View()
		defer v.Release()
		for i := range 3 {
			if _, err := v.ReportByID(reportID(i)); err == nil {
				ids = append(ids, i)
			}
		}
		return ids
	}
	at := func(instant int64, want ...int) {
		t.Helper()
		r.log.stamp = instant - 1000
		r.run(&command.Tick{})
		check.Diff(t, known(), want, "known at %d", instant)
	}
	at(next-1, 0, 1, 2)
	at(next, 0, 2)
	if got := r.only(report(4, "e1", "s1"), command.OutcomeDone, 0); got.Entry != 4 {
		t.Errorf("reported anew as %d", got.Entry)
	}
	r.restart()
	v = r.View()
	_, oldest := v.OpenReports()
	v.Release()
	at(oldest+command.ReportOpenMillis-1, 0, 2)
	at(oldest+command.ReportOpenMillis, 2)
	at(oldest + command.ReportOpenMillis + 10_000_000)
	left := rowsOf(t, r.Machine)
	maps.DeleteFunc(left, func(key, _ string) bool { return key[0] != state.SpaceReport })
	if len(left) != 3 { // of the one that was sent later
		t.Errorf("rows are left: %q", left)
	}
}

// TestClosedReportsAreBounded: the oldest goes for the newest.
func TestClosedReportsAreBounded(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	r.publish(nil)
	for i := 0; i <= command.MaxClosedReports; i += 100 {
		var sent []command.Payload
		for j := range 100 {
			sent = append(sent, report(i+j, "e1", fmt.Sprint("s", i+j)))
		}
		r.run(append(sent, &command.ResolveReports{Order: byOperator, Targets: []string{"e1"}, Outcome: command.ReportKept})...)
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
	r.only(report(1, "e1", "s2"), command.OutcomeDone, 0)
	if j := r.checkPolicy(report(2, "e1", "s3"), "192.0.2.1"); j.Rule != nil || j.ProvenOnly {
		t.Errorf("checked as %+v", j)
	}
	r.set(rule(command.RuleSender, "e1"))
	expectProblem(t, r.run(report(3, "e1", "s1"))[0], command.ProblemBlocked, "of a sender that is blocked")
	policy := r.set(rule(command.RuleNetwork, "192.0.2.0/24"))
	if j := r.checkPolicy(report(2, "e1", "s3"), "192.0.2.1"); j.Rule == nil || j.Rule.Number != policy {
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
	for i, target := range []string{"e1", "e1", "e1", "e2"} {
		c := report(i, target, fmt.Sprint("s", i))
		c.Text, c.Contact = fmt.Sprintf("It says %s.", purgedWord), purgedWord+"@example.org"
		if target == "e2" {
			c.Text, c.Contact = "It says nothing.", "me@example.org"
		}
		r.only(c, command.OutcomeDone, 0)
	}
	r.only(resolveReport(command.ReportKept, 0), command.OutcomeDone, 0)
	r.log.stamp += command.ReportKeptMillis
	r.run(&command.Tick{}) // the first is gone
	r.only(resolveReport(command.ReportErased, 1), command.OutcomeDone, 0)
	must.Do(t, r.store.Flush())
	if found := r.find(); len(found) == 0 {
		t.Error("it is found nowhere before")
	}
	r.run(purge("e1"))
	v := r.View()
	for i := 1; i <= 3; i++ {
		got, err := v.ReportByID(reportID(i))
		if err != nil || (got.Text == "") != (i < 3) || (got.Contact == "") != (i < 3) || got.Reason != command.ReportSpam {
			t.Errorf("report %d is %+v, %v", i, got, err)
		}
	}
	v.Release()
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
	for i, target := range []string{"@eve", "#pills"} {
		first := r.only(report(2*i, target, "s1"), command.OutcomeDone, 0)
		again := r.only(report(2*i+1, target, "s1"), command.OutcomeDuplicate, 0)
		check.Equal(t, again.Entry, first.Entry, "the report of %s that is repeated", target)
	}
	for i, target := range []string{"@bob", "#knitting", "e9"} {
		r.only(report(10+i, target, "s1"), command.OutcomeRejected, command.ProblemUnknownTarget)
	}
	check.Diff(t, numbersOf(r.reports(view.ReportQuery{Of: state.ReportSubject{Name: "#pills"}})), []uint64{2}, "reports of the channel")
	r.restart()
	r.wantDone(&command.Hide{Order: byOperator, IDs: []string{"e1"}, Agents: []string{"eve"}})
	for i, target := range []string{"@eve", "#pills"} {
		r.only(report(20+i, target, "s2"), command.OutcomeRejected, command.ProblemHidden)
	}
	r.wantDone(&command.Purge{Order: byOperator, Agents: []string{"eve"}})
	r.wantDone(&command.ResolveReports{Order: byOperator, Targets: []string{"#pills"}, Outcome: command.ReportHidden})
	open, closed := r.reports(view.ReportQuery{}), r.reports(view.ReportQuery{Closed: true})
	check.Equal(t, len(open) == 1 && open[0].Name == "@eve" && open[0].Text == "" && open[0].Contact == "", true, "the open report of the purged profile has no texts")
	check.Equal(t, len(closed) == 1 && closed[0].Name == "#pills" && closed[0].Text != "", true, "the report of the channel is closed")
}

// TestReportsAreTheSameEverywhere draws logs: machines that take them in other pieces, with
// restarts and snapshots, agree; the queue in memory agrees with the rows; and a model of
// the senders of waiting reports agrees.
func TestReportsAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := newLog(t)
		l.commands(post("ada", nil), post("bob", nil), post("ada", nil))
		for n := range rapid.IntRange(1, 40).Draw(rt, "log entries") {
			var sent []command.Payload
			for i := range rapid.IntRange(1, 8).Draw(rt, "commands") {
				sent = append(sent, drawReportCommand(rt, 10*n+i))
			}
			l.commands(sent...)
			l.stamp += rapid.Int64Range(0, command.ReportKeptMillis).Draw(rt, "pause")
		}
		one, two := tempMachine(rt), tempMachine(rt)
		for i := uint64(1); i <= l.last(); i++ {
			l.feed(one, i, i)
			checkReportQueue(rt, one)
		}
		defer func() { dropMachine(rt, one) }()
		two = feedRoughly(rt, l, two)
		defer func() { dropMachine(rt, two) }()
		if a, b := rowsOf(rt, one), rowsOf(rt, two); !maps.Equal(a, b) {
			rt.Fatalf("the rows of two machines differ:\n%q\n%q", a, b)
		}
		if a, b := fmt.Sprint(one.Reports), fmt.Sprint(two.Reports); a != b {
			rt.Fatalf("the queues of two machines differ:\n%s\n%s", a, b)
		}
	})
}

// drawReportCommand draws a report, what becomes of it, or what becomes of its entry.
func drawReportCommand(rt *rapid.T, n int) command.Payload {
	target := state.EntryID(rapid.Uint64Range(1, 4).Draw(rt, "target"))
	switch rapid.IntRange(0, 9).Draw(rt, "command") {
	case 0:
		return resolveReport(command.ReportKept, rapid.IntRange(0, n+1).Draw(rt, "one"), rapid.IntRange(0, n+1).Draw(rt, "another"))
	case 1:
		return &command.ResolveReports{Order: byOperator, Targets: []string{target}, Outcome: command.ReportHidden}
	case 2:
		return hide(target)
	case 3:
		return unhide(target)
	case 4:
		if rapid.Bool().Draw(rt, "purged") {
			return purge(target)
		}
	}
	return report(n, target, rapid.SampledFrom([]string{"s1", "s2", "net.1", "net.2", ""}).Draw(rt, "sender"))
}

// checkReportQueue holds that the queue in memory agrees with the rows, that no two reports
// are of one sender and one entry, and that every key leads to its report.
func checkReportQueue(t tester, m *Machine) {
	t.Helper()
	loaded, err := state.LoadReports(m.store.DB)
	if err != nil || fmt.Sprint(loaded) != fmt.Sprint(m.Reports) {
		t.Fatalf("in memory: %+v\non disk: %+v, %v", m.Reports, loaded, err)
	}
	rows, want := rowsOf(t, m), map[string]bool{}
	for _, list := range [][]state.QueuedReport{loaded.Open, loaded.Closed} {
		for _, queued := range list {
			r := must.Get(state.Decode[state.Report]([]byte(rows[string(state.ReportKey(queued.Number))])))(t)
			number := string(binary.AppendUvarint(nil, queued.Number))
			for _, key := range [][]byte{state.ReportIDKey(r.ID), r.Key(r.From)} {
				must.Equal(t, rows[string(key)], number, "number of %q", key)
				want[string(key)] = true
			}
			want[string(state.ReportKey(queued.Number))] = true
		}
	}
	for key := range rows {
		if bytes.HasPrefix([]byte(key), []byte{state.SpaceReport}) && !want[key] {
			t.Fatalf("the row %q is of no report", key)
		}
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
		r.only(report(i, state.EntryID(uint64(i+1)), "s1"), command.OutcomeDone, 0)
	}
	last := state.EntryID(command.MaxSenderReports + 1)
	r.only(report(50, "e1", "s1"), command.OutcomeDuplicate, 0)
	r.only(report(51, last, "s1"), command.OutcomeRejected, command.ProblemTooManyReports)
	r.forgetSenders()
	for _, q := range r.reports(view.ReportQuery{Limit: 100}) {
		check.Equal(t, q.From, state.SenderGroup(0), "the sender of report %d", q.Number)
	}
	checkReportQueueLoads(t, r.Machine)
	r.only(report(52, last, "s1"), command.OutcomeDone, 0)
	r.only(report(53, "e1", "s1"), command.OutcomeDone, 0)
	r.only(resolveReport(command.ReportKept, 0, 52, 53), command.OutcomeDone, 0)
	r.log.stamp += command.ReportOpenMillis
	r.run(&command.Tick{})
	r.forgetSenders()
	check.Equal(t, rowsIn(t, r.Machine, state.SpaceReport), 0, "rows of reports that are gone")
}

// checkReportQueueLoads holds that the queue in memory is that of the rows.
func checkReportQueueLoads(t *testing.T, m *Machine) {
	t.Helper()
	loaded, err := state.LoadReports(m.store.DB)
	check.Equal(t, fmt.Sprint(m.Reports), fmt.Sprint(loaded), "the queue in memory, %v", err)
}

// TestDroppedReportIsSentAgain: whose report was dropped may send it again, and the end of
// the first one leaves what holds the second.
func TestDroppedReportIsSentAgain(t *testing.T) {
	r := newRig(t)
	for range command.MaxSenderReports {
		r.publish(nil)
	}
	// Each sender has as many as it may: the newest of the last one is dropped.
	n := 0
	for s := range command.MaxOpenReports / command.MaxSenderReports {
		for i := range command.MaxSenderReports {
			n++
			r.only(report(n, state.EntryID(uint64(i+1)), fmt.Sprintf("flood%d", s)), command.OutcomeDone, 0)
		}
	}
	r.only(report(n+1, "e1", "newcomer"), command.OutcomeDone, 0)
	v := r.View()
	dropped, _, err := v.Reports(view.ReportQuery{Closed: true, Limit: 1})
	v.Release()
	if err != nil || len(dropped) != 1 {
		t.Fatalf("dropped were %+v, %v", dropped, err)
	}
	by := fmt.Sprintf("flood%d", (dropped[0].Number-1)/command.MaxSenderReports)
	again := report(n+2, state.EntryID(dropped[0].Entry), by)
	r.run(resolveReport(command.ReportKept, 1, 2)) // there is room again
	r.only(again, command.OutcomeDone, 0)
	r.log.stamp += command.ReportKeptMillis
	r.run(&command.Tick{})
	v = r.View()
	_, err = v.ReportByID(dropped[0].ID)
	v.Release()
	if !errors.Is(err, state.ErrNotFound) {
		t.Fatalf("the dropped one is still there: %v", err)
	}
	again.ID = reportID(n + 3)
	r.only(again, command.OutcomeDuplicate, 0)
}
