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
	w := &tx.judged.Writer
	subject, earlier, problems := w.Reported(tx, c.Target)
	switch {
	case len(problems) > 0:
		return rejected(problems...)
	case earlier != 0:
		return command.Result{Outcome: command.OutcomeDuplicate, Entry: earlier}
	}
	sender, q := w.Reporter(), tx.Reports.Clone()
	drop, problem := q.Room(subject, sender)
	if problem != 0 {
		tx.count(state.KeyReportsRejected)
		return rejected(problem)
	}
	if drop >= 0 {
		tx.count(state.KeyReportsRejected)
		tx.dropReport(q.Open[drop].Number)
		q.Open = slices.Delete(q.Open, drop, drop+1)
	}
	var r state.Report
	if at := q.Open.About(subject); at >= 0 {
		r = tx.report(q.Open[at].Number)
	} else {
		r = state.Report{
			Number: tx.count(state.KeyReported), ReportSubject: subject, At: tx.now, Reason: c.Reason, Text: c.Text,
			Agent: c.Agent, Proven: w.Strength == command.ByKey, Established: w.Established,
		}
		q.Open = append(q.Open, state.QueuedReport{Number: r.Number})
		tx.Notified = append(tx.Notified, state.WatchReports)
	}
	if len(r.Senders) == 0 {
		r.Reported = tx.now
		tx.set(state.ForgetKey(r.Reported, state.ReportKey(r.Number)), []byte{})
	}
	r.Count++
	r.Senders = append(r.Senders, sender)
	tx.set(state.ReportKey(r.Number), state.Encode(&r))
	q.Replace(r.Queued())
	tx.Reports = q
	return command.Result{Outcome: command.OutcomeDone, Entry: r.Number}
}

// report returns a report that must exist.
func (tx *Txn) report(number uint64) state.Report {
	r := need(tx, state.ReportKey(number), state.Decode[state.Report], "report")
	r.Number = number
	return r
}

// closeReports closes the open reports of the subjects that meant selects, and returns the subjects in
// order.
func (tx *Txn) closeReports(outcome command.ReportOutcome, meant func(state.ReportSubject) bool) (subjects []state.ReportSubject) {
	if !slices.ContainsFunc(tx.Reports.Open, func(r state.QueuedReport) bool { return meant(r.ReportSubject) }) {
		return nil
	}
	q := tx.Reports.Clone()
	q.Open = slices.DeleteFunc(q.Open, func(queued state.QueuedReport) bool {
		if !meant(queued.ReportSubject) {
			return false
		}
		r := tx.report(queued.Number)
		r.Outcome, r.Closed = outcome, tx.now
		tx.set(state.ReportKey(r.Number), state.Encode(&r))
		q.AddClosed(r.Queued())
		subjects = append(subjects, r.ReportSubject)
		return true
	})
	for ; len(q.Closed) > command.MaxClosedReports; q.Closed = q.Closed[1:] {
		tx.dropReport(q.Closed[0].Number)
	}
	tx.Reports = q
	return subjects
}

// dropReport deletes the rows of a report.
func (tx *Txn) dropReport(number uint64) {
	r := tx.report(number)
	tx.del(state.ReportKey(number))
	tx.del(state.ForgetKey(r.Reported, state.ReportKey(number)))
}

// forgetReporters forgets the senders of a report. It counts against their limits no longer, and
// they may send it again.
func (tx *Txn) forgetReporters(key []byte) {
	r := tx.report(state.SeqOfKey(key))
	r.Senders = nil
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

// applyResolveReports closes open reports. The Entry of its result is the number of its row in the
// record.
func (tx *Txn) applyResolveReports(c *command.ResolveReports) command.Result {
	meant := map[state.ReportSubject]bool{}
	for _, target := range c.Targets {
		if subject, _, known := state.SubjectOf(tx, target); known {
			meant[subject] = true
		}
	}
	closed := tx.closeReports(c.Outcome, func(s state.ReportSubject) bool { return meant[s] })
	if len(closed) == 0 {
		return unchanged
	}
	what := make([]string, 1, 1+len(closed))
	what[0] = c.Outcome.String()
	for _, subject := range closed {
		id := subject.Name
		if subject.Entry > 0 {
			e, _ := tx.Entry(subject.Entry)
			id = state.FormatID(e.Type, e.Seq)
		}
		what = append(what, id)
	}
	return command.Result{Outcome: command.OutcomeDone, Entry: tx.record(&c.Order, state.ActionResolve, strings.Join(what, " "))}
}

// eraseReportsOf erases the texts of all reports of a subject, which may quote it.
func (tx *Txn) eraseReportsOf(subject state.ReportSubject) {
	for _, queued := range slices.Concat(tx.Reports.Open, tx.Reports.Closed) {
		if queued.ReportSubject == subject {
			r := tx.report(queued.Number)
			r.Text = ""
			tx.set(state.ReportKey(r.Number), state.Encode(&r))
		}
	}
}
