package fsmtest

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/must"
)

// ByOperator is an order of the operator's.
var ByOperator = command.Order{By: command.Operator, Reason: "spam"}

// Hide hides entries by order of the operator.
func Hide(ids ...string) *command.Hide { return &command.Hide{Order: ByOperator, IDs: ids} }

// Unhide shows hidden entries again.
func Unhide(ids ...string) *command.Hide {
	return &command.Hide{Order: ByOperator, IDs: ids, Unhide: true}
}

// Purge erases entries by order of the operator.
func Purge(ids ...string) *command.Purge {
	return &command.Purge{Order: ByOperator, IDs: ids}
}

// RowsIn counts the rows of a space.
func RowsIn(t Tester, m Viewer, space byte) (n int) {
	t.Helper()
	v := m.View()
	defer v.Release()
	must.Do(t, state.ScanAll(v.Reader(), space, func(_, _ []byte) error { n++; return nil }))
	return n
}

// Erase returns a retraction by key that erases its target.
func Erase(agent, target string) *command.Publish {
	return Post(agent, func(p *command.Publish) {
		p.Relation, p.Target, p.Erase = command.RelationRetraction, target, true
		p.Proof.Key = KeyHash(agent)
	})
}

// TextByKey returns an entry by key.
func TextByKey(agent, body string) *command.Publish {
	return Post(agent, func(p *command.Publish) { p.Body, p.Proof.Key = body, KeyHash(agent) })
}

// Report is a report of an entry by a sender.
func Report(target, sender string) *command.Report {
	return &command.Report{
		Agent: command.AnonymousName, AgentKey: command.AnonymousName, Target: target, Reason: command.ReportSpam,
		Text: "This is advertisement.", Proof: command.Proof{Sender: sender},
	}
}

// ResolveReport closes the reports of subjects.
func ResolveReport(outcome command.ReportOutcome, targets ...string) *command.ResolveReports {
	return &command.ResolveReports{Order: ByOperator, Targets: targets, Outcome: outcome}
}

// WantReport returns the report with a number.
func (r *Hand) WantReport(number uint64) state.Report {
	r.T.Helper()
	return InView(r.T, r, func(v *view.View) (state.Report, error) { return v.Report(number) })
}

// WantOutcome runs a command and insists on its outcome and its problem; zero means no problem.
func (r *Hand) WantOutcome(p command.Payload, outcome command.Outcome, problem command.Problem) command.Result {
	r.T.Helper()
	got := r.Run(p)[0]
	var problems []command.Problem
	if problem != 0 {
		problems = append(problems, problem)
	}
	if got.Outcome != outcome || !slices.Equal(got.Problems, problems) {
		r.T.Fatalf("%+v: %+v", p, got)
	}
	return got
}

// Reports lists reports, in pages of a size.
func (r *Hand) Reports(q view.ReportQuery) (all []state.Report) {
	r.T.Helper()
	v := r.View()
	defer v.Release()
	for {
		page, next, err := v.Reports(q)
		must.Do(r.T, err)
		if all = append(all, page...); next == 0 {
			return all
		}
		q.Beyond = next
	}
}

// NumbersOf returns the numbers of reports.
func NumbersOf(reports []state.Report) (numbers []uint64) {
	for _, r := range reports {
		numbers = append(numbers, r.Number)
	}
	return numbers
}

// CheckReportQueue holds that the queue in memory agrees with the rows, that a subject has one open
// report, and that no sender stands twice in a report.
func CheckReportQueue(t Tester, rows pebble.Reader, memory *state.ReportQueue) {
	t.Helper()
	loaded := must.Get(state.LoadReports(rows))(t)
	must.Equal(t, fmt.Sprint(memory), fmt.Sprint(loaded), "the queue in memory")
	open := map[state.ReportSubject]bool{}
	for _, queued := range slices.Concat(loaded.Open, loaded.Closed) {
		r, _, err := state.Load(rows, state.ReportKey(queued.Number), state.Decode[state.Report])
		must.Do(t, err)
		slices.Sort(r.Senders)
		must.Equal(t, len(slices.Compact(r.Senders)), len(r.Senders), "senders of report %d", queued.Number)
		must.Equal(t, r.Count >= uint64(len(r.Senders)), true, "the count of report %d", queued.Number)
		must.Equal(t, r.Closed == 0 && open[r.ReportSubject], false, "another open report of the subject of report %d", queued.Number)
		open[r.ReportSubject] = open[r.ReportSubject] || r.Closed == 0
	}
}
