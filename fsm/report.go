package fsm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

// Reports wait for a moderator, in the order in which they came, and do nothing by
// themselves. A report holds what its sender wrote and nothing of the entry. Senders with
// an established name have separate room. When there is no room left, the sender with the
// most open reports loses its newest one, so that senders of many reports do not push out
// the reports of others. A report is removed some time after it was closed, and also when
// it stays open for too long.

// Report is a report as moderators see it.
type Report struct {
	Number  uint64
	ID      []byte // of the receipt
	Entry   uint64 // seq of what was reported
	At      int64  // milliseconds since the epoch
	Reason  command.ReportReason
	Text    string // "": erased with the entry
	Contact string // "": not given
	Agent   string // command.AnonymousName: no name
	Proven  bool   // by the name's key
	Outcome command.ReportOutcome
	Closed  int64 // when it got its outcome; 0: it is open

	// from is the sender; group is whose room the report takes: a network, or the sender.
	from, group senderGroup
}

func (r *Report) encode() []byte {
	dst := appendBlob(nil, r.ID)
	dst = appendUints(dst, r.Entry, uint64(r.At), uint64(r.Closed))
	dst = append(dst, byte(r.Reason), byte(r.Outcome), bit(r.Proven, 1))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.from))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.group))
	return appendBlob(appendBlob(appendBlob(dst, r.Text), r.Contact), r.Agent)
}

func decodeReport(row []byte) (Report, error) {
	r := rowReader{rest: row}
	rep := Report{
		ID: []byte(r.text()), Entry: r.uint(), At: int64(r.uint()), Closed: int64(r.uint()),
		Reason: command.ReportReason(r.byte()), Outcome: command.ReportOutcome(r.byte()), Proven: r.byte() != 0,
		from: r.sender(), group: r.sender(), Text: r.text(), Contact: r.text(), Agent: r.text(),
	}
	return rep, r.done("report row")
}

// maxReportSweep is how many reports end in one log entry at most.
const maxReportSweep = 100

// reportQueue lists the reports that exist at one applied log entry. A published queue
// never changes.
type reportQueue struct {
	open   []queuedReport // by number, which is by when they came
	closed []queuedReport // by when they were closed, then by number
}

type queuedReport struct {
	number, entry uint64
	at            int64 // when it came; of a closed one when it was closed
	group         senderGroup
}

func (r *Report) queued() queuedReport {
	at := r.At
	if r.Closed > 0 {
		at = r.Closed
	}
	return queuedReport{r.Number, r.Entry, at, r.group}
}

func loadReports(r pebble.Reader) (*reportQueue, error) {
	q := &reportQueue{}
	err := scanSpace(r, reportKey(0), reportKey(1<<64-1), func(key, row []byte) error {
		rep, err := decodeReport(row)
		rep.Number = binary.BigEndian.Uint64(key[2:])
		if rep.Closed > 0 {
			q.addClosed(rep.queued())
		} else {
			q.open = append(q.open, rep.queued())
		}
		return err
	})
	return q, err
}

func (q *reportQueue) clone() *reportQueue {
	return &reportQueue{open: slices.Clone(q.open), closed: slices.Clone(q.closed)}
}

func (q *reportQueue) addClosed(r queuedReport) {
	i, _ := slices.BinarySearchFunc(q.closed, r, func(a, b queuedReport) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.number, b.number))
	})
	q.closed = slices.Insert(q.closed, i, r)
}

// nextEnd is when the next report is removed because of its age; noEnd: no reports.
func (q *reportQueue) nextEnd() int64 {
	at := int64(noEnd)
	if len(q.open) > 0 {
		at = q.open[0].at + command.ReportOpenMillis
	}
	if len(q.closed) > 0 {
		at = min(at, q.closed[0].at+command.ReportKeptMillis)
	}
	return at
}

// waiting counts the open reports of a sender, and of all who share its room.
func (q *reportQueue) waiting(group senderGroup) (own, all int) {
	for _, r := range q.open {
		if r.group == group {
			own++
		}
		if r.group.proven() == group.proven() {
			all++
		}
	}
	return own, all
}

// mostOf looks for the sender with the most open reports, among senders with an
// established name or among all others. It returns the index in open of that sender's
// newest report, and how many reports the sender has there.
func (q *reportQueue) mostOf(established bool) (at, most int) {
	counts := map[senderGroup]int{}
	for _, r := range q.open {
		counts[r.group]++
	}
	for i, r := range slices.Backward(q.open) {
		if n := counts[r.group]; r.group.proven() == established && n > most {
			at, most = i, n
		}
	}
	return at, most
}

// reporter returns who reports, and whose room the report takes. Anybody can get a name
// that is not established at any time, so such names do not count.
func (w *writer) reporter() (from, group senderGroup) {
	if w.Established {
		from = provenSender(w.AgentKey)
		return from, from
	}
	from = unprovenSender(w.Proof.Sender)
	if network := command.NetworkOf(w.Proof.Sender); network != "" {
		return from, unprovenSender(network)
	}
	return from, from
}

// reported returns the entry that a writer reports, the number of its earlier report of
// that entry (0: none), and the problems of the report. It does not check for room.
func (w *writer) reported(s facts, target string) (e entryRow, earlier uint64, problems []command.Problem) {
	if problems = w.Problems(); len(problems) > 0 {
		return e, 0, problems
	}
	e, known := resolve(s, target)
	if !known {
		return e, 0, []command.Problem{command.ProblemUnknownTarget}
	}
	from, _ := w.reporter()
	earlier, _ = read(s, reportedKey(e.Seq, from), decodeNumber)
	if former := w.Proof.Former; earlier == 0 && former != "" {
		earlier, _ = read(s, reportedKey(e.Seq, unprovenSender(former)), decodeNumber)
	}
	if earlier == 0 && e.Hidden {
		problems = []command.Problem{command.ProblemHidden}
	}
	return e, earlier, problems
}

// reportedBefore returns the result of a report that its sender has sent before.
func reportedBefore(s facts, w *writer, target string) (command.Result, bool) {
	_, earlier, problems := w.reported(s, target)
	return command.Result{Outcome: command.OutcomeDuplicate, Entry: earlier}, earlier != 0 && len(problems) == 0
}

func (tx *txn) applyReport(c *command.Report) command.Result {
	w := tx.writer(c.Signature())
	e, earlier, problems := w.reported(tx, c.Target)
	if earlier == 0 { // nobody guesses an id: it is the same command again
		earlier, _ = read(tx, reportIDKey(c.ID), decodeNumber)
	}
	switch {
	case len(problems) > 0:
		return command.Result{Outcome: command.OutcomeRejected, Problems: problems}
	case earlier != 0:
		return command.Result{Outcome: command.OutcomeDuplicate, Entry: earlier}
	}
	from, group := w.reporter()
	q := tx.reports.clone()
	if problem := tx.makeRoom(q, group); problem != 0 {
		tx.keep(keyReportsRejected, binary.AppendUvarint(nil, tx.number(keyReportsRejected)+1))
		return rejected(problem)
	}
	r := Report{
		Number: tx.number(keyReported) + 1, ID: c.ID, Entry: e.Seq, At: tx.now, Reason: c.Reason, Text: c.Text, Contact: c.Contact,
		Agent: c.Agent, Proven: w.Strength == command.ByKey, from: from, group: group,
	}
	number := binary.AppendUvarint(nil, r.Number)
	tx.keep(keyReported, number)
	tx.keep(reportKey(r.Number), r.encode())
	tx.keep(reportIDKey(r.ID), number)
	tx.keep(reportedKey(r.Entry, from), number)
	q.open = append(q.open, r.queued())
	tx.reports = q
	return command.Result{Outcome: command.OutcomeDone, Entry: r.Number}
}

// makeRoom makes room for a report of a sender, or returns why there is none.
func (tx *txn) makeRoom(q *reportQueue, group senderGroup) command.Problem {
	own, all := q.waiting(group)
	switch {
	case own >= command.MaxSenderReports:
		return command.ProblemTooManyReports
	case all < command.MaxOpenReports:
		return 0
	}
	at, most := q.mostOf(group.proven())
	if most <= own+1 {
		return command.ProblemReportsFull
	}
	tx.closeReport(q, at, command.ReportDropped)
	tx.keep(keyReportsRejected, binary.AppendUvarint(nil, tx.number(keyReportsRejected)+1))
	return 0
}

// report returns a report that must exist.
func (tx *txn) report(number uint64) Report {
	r, ok := read(tx, reportKey(number), decodeReport)
	if !ok {
		tx.must(fmt.Errorf("%w: report %d is missing", ErrCorrupt, number))
	}
	r.Number = number
	return r
}

// closeReport gives the open report at a place its outcome.
func (tx *txn) closeReport(q *reportQueue, at int, outcome command.ReportOutcome) {
	r := tx.report(q.open[at].number)
	r.Outcome, r.Closed = outcome, tx.now
	tx.keep(reportKey(r.Number), r.encode())
	if outcome == command.ReportDropped { // nobody looked at it: it may be sent again
		tx.keep(reportedKey(r.Entry, r.from), nil)
	}
	q.open = slices.Delete(q.open, at, at+1)
	q.addClosed(r.queued())
	if len(q.closed) > command.MaxClosedReports {
		tx.dropReport(q.closed[0].number)
		q.closed = q.closed[1:]
	}
}

// closeReports gives the outcome to the open reports that meant selects, and returns the
// entries that they report, in the order of the reports.
func (tx *txn) closeReports(outcome command.ReportOutcome, meant func(queuedReport) bool) (entries []uint64) {
	if !slices.ContainsFunc(tx.reports.open, meant) {
		return nil
	}
	q := tx.reports.clone()
	for i := 0; i < len(q.open); {
		r := q.open[i]
		if !meant(r) {
			i++
			continue
		}
		tx.closeReport(q, i, outcome)
		entries = append(entries, r.entry)
	}
	tx.reports = q
	return entries
}

// dropReport removes all that is kept of a report.
func (tx *txn) dropReport(number uint64) {
	r := tx.report(number)
	tx.keep(reportKey(number), nil)
	tx.keep(reportIDKey(r.ID), nil)
	if newest, _ := read(tx, reportedKey(r.Entry, r.from), decodeNumber); newest == number {
		tx.keep(reportedKey(r.Entry, r.from), nil)
	}
}

// endReports removes reports that have had their time at the instant of the log entry
// that is being applied.
func (tx *txn) endReports() {
	if tx.now < tx.reports.nextEnd() {
		return
	}
	q := tx.reports.clone()
	for n := 0; n < maxReportSweep && tx.now >= q.nextEnd(); n++ {
		list := &q.open
		if len(q.open) == 0 || tx.now < q.open[0].at+command.ReportOpenMillis {
			list = &q.closed
		}
		tx.dropReport((*list)[0].number)
		*list = (*list)[1:]
	}
	tx.reports = q
}

// applyResolveReports closes the open reports that the command names. Its Entry is the
// number of its row in the record.
func (tx *txn) applyResolveReports(c *command.ResolveReports) command.Result {
	if !mayOrder(tx, &c.Order) {
		return rejected(command.ProblemNotModerator)
	}
	meant := map[uint64]bool{}
	for _, id := range c.Reports {
		if number, known := read(tx, reportIDKey(id), decodeNumber); known {
			meant[number] = true
		}
	}
	entries := map[uint64]bool{}
	for _, id := range c.Targets {
		if e, known := resolve(tx, id); known {
			entries[e.Seq] = true
		}
	}
	what := []string{c.Outcome.String()}
	for _, entry := range tx.closeReports(c.Outcome, func(r queuedReport) bool { return meant[r.number] || entries[r.entry] }) {
		e, _ := tx.entry(entry)
		if id := FormatID(e.Type, e.Seq); !slices.Contains(what, id) {
			what = append(what, id)
		}
	}
	if len(what) == 1 {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	// Private only by its mark: everybody is shown ids and the outcome in the record, and no
	// report.
	return command.Result{Outcome: command.OutcomeDone, Entry: tx.record(&c.Order, ActionResolve, strings.Join(what, " "), true)}
}

// eraseReportsOf erases the texts of all reports of an entry, which may quote it.
func (tx *txn) eraseReportsOf(entry uint64) {
	for _, list := range [...][]queuedReport{tx.reports.open, tx.reports.closed} {
		for _, queued := range list {
			if queued.entry == entry {
				r := tx.report(queued.number)
				r.Text = ""
				tx.keep(reportKey(r.Number), r.encode())
			}
		}
	}
}

// ReportProblems returns the problems of a report of an entry, as far as the view knows.
// It does not check for room.
func (v *View) ReportProblems(by command.Signature, target string) ([]command.Problem, error) {
	w, s, err := v.writer(by)
	if err != nil {
		return nil, err
	}
	_, _, problems := w.reported(s, target)
	return problems, s.err
}

// Report returns the report with a number, or ErrNotFound.
func (v *View) Report(number uint64) (Report, error) {
	r, known, err := load(v.snap, reportKey(number), decodeReport)
	if err == nil && !known {
		err = ErrNotFound
	}
	r.Number = number
	return r, err
}

// ReportByID returns the report with the id of a receipt, or ErrNotFound.
func (v *View) ReportByID(id []byte) (Report, error) {
	number, known, err := load(v.snap, reportIDKey(id), decodeNumber)
	if err != nil || !known {
		return Report{}, cmp.Or(err, ErrNotFound)
	}
	return v.Report(number)
}

// ReportQuery says which reports are listed.
type ReportQuery struct {
	Closed bool   // closed ones, newest first; else open ones, oldest first
	Entry  uint64 // those of this entry; 0: all
	Beyond uint64 // those after this number in the list; 0: from its beginning
	Limit  int
}

// Reports lists reports in the order of their numbers. next is the Beyond of the next
// page; 0 on the last page.
func (v *View) Reports(query ReportQuery) (reports []Report, next uint64, err error) {
	list := v.reports.open
	if query.Closed {
		list = v.reports.closed
	}
	var numbers []uint64
	for _, r := range list {
		isBehind := r.number > query.Beyond
		if query.Closed {
			isBehind = query.Beyond == 0 || r.number < query.Beyond
		}
		if isBehind && (query.Entry == 0 || query.Entry == r.entry) {
			numbers = append(numbers, r.number)
		}
	}
	slices.Sort(numbers)
	if query.Closed {
		slices.Reverse(numbers)
	}
	numbers, next = cutPage(numbers, pageLimit(query.Limit))
	for _, number := range numbers {
		r, err := v.Report(number)
		if err != nil {
			return nil, 0, err
		}
		reports = append(reports, r)
	}
	return reports, next, nil
}

// OpenReports returns how many reports are open, and when the oldest of them came, in
// milliseconds since the epoch; 0: none is open.
func (v *View) OpenReports() (n int, oldest int64) {
	if n = len(v.reports.open); n > 0 {
		oldest = v.reports.open[0].at
	}
	return n, oldest
}

// RejectedReports returns how many reports were rejected or dropped for lack of room.
func (v *View) RejectedReports() (uint64, error) {
	n, _, err := load(v.snap, keyReportsRejected, decodeNumber)
	return n, err
}

// NextReportEnd returns when the next report is removed because of its age, in
// milliseconds since the epoch; false when there are no reports.
func (v *View) NextReportEnd() (at int64, ok bool) {
	at = v.reports.nextEnd()
	return at, at != noEnd
}
