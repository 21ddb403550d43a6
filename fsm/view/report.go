package view

import (
	"slices"

	"github.com/commons-cluster/commons/fsm/state"
)

// Report returns the report with a number, or ErrNotFound.
func (v *View) Report(number uint64) (state.Report, error) {
	r, known, err := state.Load(v.snap, state.ReportKey(number), state.Decode[state.Report])
	if err == nil && !known {
		err = state.ErrNotFound
	}
	r.Number = number
	return r, err
}

// OpenReport returns the open report of a subject, or ErrNotFound.
func (v *View) OpenReport(subject state.ReportSubject) (state.Report, error) {
	at := v.at.Reports.Open.About(subject)
	if at < 0 {
		return state.Report{}, state.ErrNotFound
	}
	return v.Report(v.at.Reports.Open[at].Number)
}

// ReportSubject returns the subject that the target of a report names, and whether it is hidden and
// exists.
func (v *View) ReportSubject(target string) (subject state.ReportSubject, hidden, known bool, err error) {
	s := &viewState{v: v}
	subject, hidden, known = state.SubjectOf(s, target)
	return subject, hidden, known, s.err
}

// ReportQuery selects reports.
type ReportQuery struct {
	Closed bool                // closed ones, newest first; else open ones, oldest first
	Of     state.ReportSubject // those of this, unless zero
	Beyond uint64              // those after this number in the list; 0 means from its beginning
	Limit  int
}

// Reports lists reports in the order of their numbers. next is the Beyond of the next
// page; 0 on the last page.
func (v *View) Reports(query ReportQuery) (reports []state.Report, next uint64, err error) {
	list := v.at.Reports.Open
	if query.Closed {
		list = v.at.Reports.Closed
	}
	var numbers []uint64
	for _, r := range list {
		isBehind := r.Number > query.Beyond
		if query.Closed {
			isBehind = query.Beyond == 0 || r.Number < query.Beyond
		}
		if isBehind && (query.Of == state.ReportSubject{} || query.Of == r.ReportSubject) {
			numbers = append(numbers, r.Number)
		}
	}
	slices.Sort(numbers)
	if query.Closed {
		slices.Reverse(numbers)
	}
	numbers, next = cutPage(numbers, state.PageLimit(query.Limit))
	for _, number := range numbers {
		r, err := v.Report(number)
		if err != nil {
			return nil, 0, err
		}
		reports = append(reports, r)
	}
	return reports, next, nil
}

// OpenReports returns how many reports are open, and when the oldest of them came, or 0.
func (v *View) OpenReports() (n int, oldest int64) {
	if n = len(v.at.Reports.Open); n > 0 {
		oldest = v.at.Reports.Open[0].At
	}
	return n, oldest
}

// RejectedReports returns how many reports were rejected or dropped for lack of room.
func (v *View) RejectedReports() (uint64, error) {
	return state.LoadOrZero(v.snap, state.KeyReportsRejected, state.DecodeNumber)
}
