package state

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// Reports wait for a moderator, in the order in which they came. A report holds its sender's
// text and no text of the entry. Senders with an established name have separate room. When
// there is no room left, the sender with the most open reports loses its newest one. A report
// is removed some time after it was closed, or when it stays open for too long.

// Report is a report as moderators see it.
type Report struct {
	Number uint64
	ID     []byte // of the receipt
	ReportSubject
	At      int64 // milliseconds since the epoch
	Reason  command.ReportReason
	Text    string // empty if erased with the entry
	Contact string // empty if not given, or erased with the entry
	Agent   string // command.AnonymousName without a name
	Proven  bool   // by the name's key
	Outcome command.ReportOutcome
	Closed  int64 // when it got its outcome; 0 while it is open

	// From is the sender; Group is whose room the report takes: a network, or the sender. Once the
	// sender is forgotten, From is 0, and all forgotten ones are one Group.
	From, Group SenderGroup
}

// ReportSubject is the subject of a report: an entry, a profile or the name of a channel.
type ReportSubject struct {
	Entry uint64 // seq, or 0
	Name  string // marked as in command.Report, or empty
}

// Key returns the key under which the number of a sender's report of the subject is stored.
func (r ReportSubject) Key(from SenderGroup) []byte {
	key := binary.BigEndian.AppendUint64([]byte{SpaceReport, 'e'}, r.Entry)
	return append(binary.BigEndian.AppendUint64(key, uint64(from)), r.Name...)
}

// SubjectOf returns the subject that the target of a report names, and whether the subject is hidden
// and exists.
func SubjectOf(s Facts, target string) (subject ReportSubject, hidden, known bool) {
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
		&r.ID, &r.Entry, &r.At, &r.Closed, (*byte)(&r.Reason), (*byte)(&r.Outcome), &r.Proven, &r.From, &r.Group,
		&r.Text, &r.Contact, &r.Agent, &r.Name,
	)
}

// ReportQueue lists the reports at one applied log entry. A published queue never changes.
type ReportQueue struct {
	Open   []QueuedReport // by number, which is by when they came
	Closed []QueuedReport // by when they were closed, then by number
}

// WatchReports is the key of those who wait for reports. No agent has such a key.
const WatchReports = "\r"

// QueuedReport is a report in a ReportQueue.
type QueuedReport struct {
	Number uint64
	ReportSubject
	At    int64 // when it came; of a closed one when it was closed
	group SenderGroup
}

// Queued returns the report as the queue lists it.
func (r *Report) Queued() QueuedReport {
	at := r.At
	if r.Closed > 0 {
		at = r.Closed
	}
	return QueuedReport{r.Number, r.ReportSubject, at, r.Group}
}

// Names reports whether an open report is about an entry.
func (q *ReportQueue) Names(entry uint64) bool {
	return slices.ContainsFunc(q.Open, func(r QueuedReport) bool { return r.Entry == entry })
}

// Clone returns a copy, to be changed.
func (q *ReportQueue) Clone() *ReportQueue {
	return &ReportQueue{Open: slices.Clone(q.Open), Closed: slices.Clone(q.Closed)}
}

// Replace replaces the report with the same number.
func (q *ReportQueue) Replace(r QueuedReport) {
	for _, list := range [...][]QueuedReport{q.Open, q.Closed} {
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

// NextEnd is when the next report is removed because of its age, or NoEnd.
func (q *ReportQueue) NextEnd() int64 {
	at := int64(NoEnd)
	if len(q.Open) > 0 {
		at = q.Open[0].At + command.ReportOpenMillis
	}
	if len(q.Closed) > 0 {
		at = min(at, q.Closed[0].At+command.ReportKeptMillis)
	}
	return at
}

// Reporter returns who reports, and whose room the report takes. Anybody can get a name
// that is not established at any time, so such names do not count.
func (w *Writer) Reporter() (from, group SenderGroup) {
	if w.Established {
		from = ProvenSender(w.AgentKey)
		return from, from
	}
	from = UnprovenSender(w.Proof.Sender)
	if network := command.NetworkOf(w.Proof.Sender); network != "" {
		return from, UnprovenSender(network)
	}
	return from, from
}

// Reported returns the subject that a writer reports, the number of its earlier report of it or 0, and
// the problems of the report. It does not check for room.
func (w *Writer) Reported(s Facts, target string) (subject ReportSubject, earlier uint64, problems []command.Problem) {
	if problems = w.Problems(); len(problems) > 0 {
		return subject, 0, problems
	}
	subject, hidden, known := SubjectOf(s, target)
	if !known {
		return subject, 0, []command.Problem{command.ProblemUnknownTarget}
	}
	from, _ := w.Reporter()
	earlier, _ = Read(s, subject.Key(from), DecodeNumber)
	if earlier == 0 && hidden {
		problems = []command.Problem{command.ProblemHidden}
	}
	return subject, earlier, problems
}

// Room returns the place of the open report that gives way to one of a sender, -1 if there
// is room without that, or the reason why there is no room.
func (q *ReportQueue) Room(group SenderGroup) (drop int, _ command.Problem) {
	counts, all := map[SenderGroup]int{}, 0 // among established names, or among all others
	for _, r := range q.Open {
		if r.group.Proven() == group.Proven() {
			counts[r.group]++
			all++
		}
	}
	own, most := counts[group], 0
	switch {
	case own >= command.MaxSenderReports:
		return -1, command.ProblemTooManyReports
	case all < command.MaxOpenReports:
		return -1, 0
	}
	for i, r := range slices.Backward(q.Open) { // the newest report of the sender with the most
		if n := counts[r.group]; n > most {
			drop, most = i, n
		}
	}
	if most <= own+1 {
		return -1, command.ProblemReportsFull
	}
	return drop, 0
}

// LoadReports reads the queue of reports.
func LoadReports(r pebble.Reader) (*ReportQueue, error) {
	q := &ReportQueue{}
	err := ScanSpace(r, ReportKey(0), ReportKey(1<<64-1), func(key, row []byte) error {
		rep, err := Decode[Report](row)
		rep.Number = NumberOfReport(key)
		if rep.Closed > 0 {
			q.AddClosed(rep.Queued())
		} else {
			q.Open = append(q.Open, rep.Queued())
		}
		return err
	})
	return q, err
}
