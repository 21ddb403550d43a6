package apply

import (
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// maxReportSweep is how many reports end in one log entry at most.
const maxReportSweep = 100

func (tx *Txn) applyReport(c *command.Report) command.Result {
	w := tx.writer()
	subject, earlier, problems := w.Reported(tx, c.Target)
	if same := tx.number(state.ReportIDKey(c.ID)); same != 0 { // the id is random: it is the same command
		earlier, problems = same, nil
	}
	switch {
	case len(problems) > 0:
		return rejected(problems...)
	case earlier != 0:
		return command.Result{Outcome: command.OutcomeDuplicate, Entry: earlier}
	}
	from, group := w.Reporter()
	q := tx.Reports.Clone()
	if drop, problem := q.Room(group); problem != 0 {
		tx.count(state.KeyReportsRejected)
		return rejected(problem)
	} else if drop >= 0 {
		tx.closeReport(q, drop, command.ReportDropped)
		tx.count(state.KeyReportsRejected)
	}
	r := state.Report{
		Number: tx.count(state.KeyReported), ID: c.ID, ReportSubject: subject, At: tx.now, Reason: c.Reason, Text: c.Text, Contact: c.Contact,
		Agent: c.Agent, Proven: w.Strength == command.ByKey, From: from, Group: group,
	}
	tx.set(state.ReportKey(r.Number), state.Encode(&r))
	tx.setNumber(state.ReportIDKey(r.ID), r.Number)
	tx.setNumber(subject.Key(from), r.Number)
	tx.set(state.ForgetKey(r.At, state.ReportKey(r.Number)), []byte{})
	q.Open = append(q.Open, r.Queued())
	tx.Reports = q
	tx.Notified = append(tx.Notified, state.WatchReports)
	return command.Result{Outcome: command.OutcomeDone, Entry: r.Number}
}

// report returns a report that must exist.
func (tx *Txn) report(number uint64) state.Report {
	r := need(tx, state.ReportKey(number), state.Decode[state.Report], "report")
	r.Number = number
	return r
}

// closeReport gives the open report at a place its outcome.
func (tx *Txn) closeReport(q *state.ReportQueue, at int, outcome command.ReportOutcome) {
	r := tx.report(q.Open[at].Number)
	r.Outcome, r.Closed = outcome, tx.now
	tx.set(state.ReportKey(r.Number), state.Encode(&r))
	if outcome == command.ReportDropped { // no moderator has seen it: it may be sent again
		tx.del(r.Key(r.From))
	}
	q.Open = slices.Delete(q.Open, at, at+1)
	q.AddClosed(r.Queued())
	if len(q.Closed) > command.MaxClosedReports {
		tx.dropReport(q.Closed[0].Number)
		q.Closed = q.Closed[1:]
	}
}

// closeReports closes the open reports that meant selects, and returns their subjects in
// order.
func (tx *Txn) closeReports(outcome command.ReportOutcome, meant func(state.QueuedReport) bool) (subjects []state.ReportSubject) {
	if !slices.ContainsFunc(tx.Reports.Open, meant) {
		return nil
	}
	q := tx.Reports.Clone()
	for i := 0; i < len(q.Open); {
		r := q.Open[i]
		if !meant(r) {
			i++
			continue
		}
		tx.closeReport(q, i, outcome)
		subjects = append(subjects, r.ReportSubject)
	}
	tx.Reports = q
	return subjects
}

// dropReport removes all that is kept of a report.
func (tx *Txn) dropReport(number uint64) {
	r := tx.report(number)
	tx.del(state.ReportKey(number))
	tx.del(state.ReportIDKey(r.ID))
	tx.del(state.ForgetKey(r.At, state.ReportKey(number)))
	if tx.number(r.Key(r.From)) == number {
		tx.del(r.Key(r.From))
	}
}

// forgetReporter forgets who sent a report, which takes nobody's room from then on. Its sender may
// send it again.
func (tx *Txn) forgetReporter(key []byte) {
	r := need(tx, key, state.Decode[state.Report], "report")
	r.Number = state.NumberOfReport(key)
	if tx.number(r.Key(r.From)) == r.Number {
		tx.del(r.Key(r.From))
	}
	r.From, r.Group = 0, r.Group.Forgotten()
	tx.set(key, state.Encode(&r))
	q := tx.Reports.Clone()
	q.Replace(r.Queued())
	tx.Reports = q
}

// endReports removes the reports whose time has ended.
func (tx *Txn) endReports() {
	if tx.now < tx.Reports.NextEnd() {
		return
	}
	q := tx.Reports.Clone()
	for n := 0; n < maxReportSweep && tx.now >= q.NextEnd(); n++ {
		list := &q.Open
		if len(q.Open) == 0 || tx.now < q.Open[0].At+command.ReportOpenMillis {
			list = &q.Closed
		}
		tx.dropReport((*list)[0].Number)
		*list = (*list)[1:]
	}
	tx.Reports = q
}

// applyResolveReports closes open reports. Its Entry is the number of its row in the record.
func (tx *Txn) applyResolveReports(c *command.ResolveReports) command.Result {
	meant := map[uint64]bool{}
	for _, id := range c.Reports {
		if number := tx.number(state.ReportIDKey(id)); number != 0 {
			meant[number] = true
		}
	}
	all := map[state.ReportSubject]bool{}
	for _, target := range c.Targets {
		if subject, _, known := state.SubjectOf(tx, target); known {
			all[subject] = true
		}
	}
	what := []string{c.Outcome.String()}
	for _, subject := range tx.closeReports(c.Outcome, func(r state.QueuedReport) bool { return meant[r.Number] || all[r.ReportSubject] }) {
		id := subject.Name
		if subject.Entry > 0 {
			e, _ := tx.Entry(subject.Entry)
			id = state.FormatID(e.Type, e.Seq)
		}
		if !slices.Contains(what, id) {
			what = append(what, id)
		}
	}
	if len(what) == 1 {
		return unchanged
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: tx.record(&c.Order, state.ActionResolve, strings.Join(what, " "))}
}

// eraseReportsOf erases the texts of all reports of a subject, which may quote it, and the contacts
// of those who sent them.
func (tx *Txn) eraseReportsOf(subject state.ReportSubject) {
	for _, queued := range slices.Concat(tx.Reports.Open, tx.Reports.Closed) {
		if queued.ReportSubject == subject {
			r := tx.report(queued.Number)
			r.Text, r.Contact = "", ""
			tx.set(state.ReportKey(r.Number), state.Encode(&r))
		}
	}
}
