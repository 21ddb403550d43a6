package state

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// Reports wait for a moderator, in the order in which they came. A subject has one open report: who
// reports it, too, is counted there. A report holds the text of its first sender and no text of the
// subject. When there is no room left, the oldest report gives way whose only sender has no
// established name. A report is removed some time after it was closed, or when it stays open for too
// long.

// Report is a report as moderators see it.
type Report struct {
	Number uint64
	ReportSubject
	At          int64 // milliseconds since the epoch
	Reason      command.ReportReason
	Text        string // empty if erased with the subject
	Agent       string // command.AnonymousName without a name
	Proven      bool   // by the name's key
	Established bool   // the name
	Outcome     command.ReportOutcome
	Closed      int64 // when it got its outcome; 0 while it is open

	Count    uint64        // of senders. Agent, Reason and Text are those of the first
	Senders  []SenderGroup // that are remembered, at most command.MaxReporters
	Reported int64         // when the first of Senders came
}

// SubjectOf returns the subject that the target of a report names, and whether the subject is hidden
// and exists.
func SubjectOf(s Reader, target string) (subject ReportSubject, hidden, known bool) {
	if name, isProfile := strings.CutPrefix(target, command.ProfileMark); isProfile {
		p, known := Read(s, ProfileKey(name), Decode[ProfileRow])
		return ReportSubject{Name: target}, p.Hidden(), known && !p.Deleted
	}
	if name, isChannel := strings.CutPrefix(target, command.ChannelMark); isChannel {
		c, known := Read(s, ChannelKey(name), Decode[ChannelRow])
		return ReportSubject{Name: target}, c.Entries == 0, known
	}
	e, known := Resolve(s, target)
	return ReportSubject{Entry: e.Seq}, e.Hidden, known
}

// Fields implements Row. The number stands in the key.
func (r *Report) Fields(c *Codec) {
	c.Fields(
		&r.Entry, &r.At, &r.Closed, (*byte)(&r.Reason), (*byte)(&r.Outcome), &r.Proven, &r.Established, &r.Count, &r.Reported,
		&r.Text, &r.Agent, &r.Name,
	)
	List(c, &r.Senders, func(sender *SenderGroup) { c.Fields(sender) })
}

// WatchReports is the key under which callers wait for reports. No agent has such a key.
const WatchReports = "\r"

// Queued returns the report as the queue lists it.
func (r *Report) Queued() QueuedReport {
	return QueuedReport{r.Number, r.ReportSubject, cmp.Or(r.Closed, r.At), r.Count == 1 && !r.Established, r.Senders}
}

// NextEnd is when the next report is removed because of its age, or Never.
func (q *ReportQueue) NextEnd() int64 {
	at := int64(Never)
	if len(q.Open) > 0 {
		at = q.Open[0].At + command.ReportOpenMillis
	}
	if len(q.Closed) > 0 {
		at = min(at, q.Closed[0].At+command.ReportKeptMillis)
	}
	return at
}

// Reporter returns the group that a report counts for: an established name, else a network, else a
// sender. Anybody can get a name that is not established at any time, so such names do not count.
func (w *Writer) Reporter() SenderGroup {
	if w.Established {
		return ProvenSender(w.AgentKey)
	}
	return UnprovenSender(cmp.Or(command.NetworkOf(w.Proof.Sender), w.Proof.Sender))
}

// Reported returns the subject that a writer reports, the number of its earlier report of it or 0, and
// the problems of the report. It does not check for room.
func (w *Writer) Reported(s Reader, target string) (subject ReportSubject, earlier uint64, problems []command.Problem) {
	if problems = w.Problems(); len(problems) > 0 {
		return subject, 0, problems
	}
	subject, hidden, known := SubjectOf(s, target)
	if !known {
		return subject, 0, []command.Problem{command.ProblemUnknownTarget}
	}
	earlier = s.ReportQueue().earlier(subject, w.Reporter())
	if earlier == 0 && hidden {
		problems = []command.Problem{command.ProblemHidden}
	}
	return subject, earlier, problems
}

// LoadReports reads the queue of reports.
func LoadReports(r pebble.Reader) (*ReportQueue, error) {
	q := &ReportQueue{}
	err := ScanSpace(r, ReportKey(0), ReportKey(1<<64-1), func(key, row []byte) error {
		rep, err := Decode[Report](row)
		rep.Number = SeqOfKey(key)
		if rep.Closed > 0 {
			q.AddClosed(rep.Queued())
		} else {
			q.Open = append(q.Open, rep.Queued())
		}
		return err
	})
	return q, err
}

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

// earlier returns the number of the report that another one of the sender would only repeat, or 0.
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

// Room returns the index of the open report that a new one of a sender replaces, -1 if there is
// room for both, or the reason why there is none.
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
