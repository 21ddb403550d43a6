package state

import (
	"cmp"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
)

// ReportSubject is the subject of a report: an entry, a profile or the name of a channel.
type ReportSubject struct {
	Entry uint64 // seq, or 0
	Name  string // marked as in command.Report, or empty
}

// ReportQueue lists the reports at one applied log entry. A published queue never changes.
type ReportQueue struct {
	Open   QueuedReports // by number, which is by when they came
	Closed QueuedReports // by when they were closed, then by number
}

// QueuedReports are the open or the closed reports of a ReportQueue.
type QueuedReports []QueuedReport

// About returns the place of the first report of a subject, or -1.
func (q QueuedReports) About(subject ReportSubject) int {
	return slices.IndexFunc(q, func(r QueuedReport) bool { return r.ReportSubject == subject })
}

// QueuedReport is a report in a ReportQueue.
type QueuedReport struct {
	Number uint64
	ReportSubject
	At       int64 // when it came; of a closed one when it was closed
	givesWay bool  // when there is no room for another one
	senders  []SenderGroup
}

// Clone returns a copy, to be changed.
func (q *ReportQueue) Clone() *ReportQueue {
	return &ReportQueue{Open: slices.Clone(q.Open), Closed: slices.Clone(q.Closed)}
}

// Replace replaces the report with the same number.
func (q *ReportQueue) Replace(r QueuedReport) {
	for _, list := range [...]QueuedReports{q.Open, q.Closed} {
		if i := slices.IndexFunc(list, func(o QueuedReport) bool { return o.Number == r.Number }); i >= 0 {
			list[i] = r
		}
	}
}

// AddClosed adds a closed report to the queue.
func (q *ReportQueue) AddClosed(r QueuedReport) {
	i, _ := slices.BinarySearchFunc(q.Closed, r, func(a, b QueuedReport) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Number, b.Number))
	})
	q.Closed = slices.Insert(q.Closed, i, r)
}

// earlier returns the number of the report of a subject that a further one of the sender adds nothing
// to, or 0.
func (q *ReportQueue) earlier(subject ReportSubject, sender SenderGroup) uint64 {
	for _, list := range [...]QueuedReports{q.Open, q.Closed} {
		for _, r := range list {
			if r.ReportSubject == subject && slices.Contains(r.senders, sender) {
				return r.Number
			}
		}
	}
	if at := q.Open.About(subject); at >= 0 && len(q.Open[at].senders) >= command.MaxReporters {
		return q.Open[at].Number
	}
	return 0
}

// Room returns the place of the open report that gives way to one of a sender, -1 if there
// is room without that, or the reason why there is no room.
func (q *ReportQueue) Room(subject ReportSubject, sender SenderGroup) (drop int, _ command.Problem) {
	own := 0
	for _, r := range q.Open {
		if slices.Contains(r.senders, sender) {
			own++
		}
	}
	switch {
	case own >= command.MaxSenderReports:
		return -1, command.ProblemTooManyReports
	case len(q.Open) < command.MaxOpenReports || q.Open.About(subject) >= 0:
		return -1, 0
	}
	drop = slices.IndexFunc(q.Open, func(r QueuedReport) bool { return r.givesWay })
	if drop < 0 {
		return -1, command.ProblemReportsFull
	}
	return drop, 0
}
