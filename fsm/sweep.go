package fsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
)

// An entry older than the retention of its channel is swept: it is hidden, and its content
// is not kept, as if it were purged. Sweeping proves nothing about any disk: the bytes go
// with the log, with compactions, and with the next EraseSwept.
//
// A job that is open or claimed, the claim of one, and an open request for help are kept
// until they are over; then the newest entry that relates to them must be old enough,
// too. Profiles are not entries and are not swept.

const (
	// sweptReason is why what is swept is hidden.
	sweptReason = "Older than the retention of its channel"
	// maxSweepLook is how many entries one sweep looks at in the order of their seqs.
	maxSweepLook = 1000
	// maxKeptLook is how many of the kept entries one look for the next sweep reads.
	maxKeptLook = 1000
)

// sweepRow is how far the sweeps are: the row of keySweep.
//
//	swept (period next)...
type sweepRow struct {
	swept   uint64 // entries, in all
	cursors []sweepCursor
}

// sweepCursor is how far those are that have one retention. Every other entry is passed
// over: they are swept, or never will be.
type sweepCursor struct {
	period int64 // milliseconds
	next   uint64
}

func (s *sweepRow) append(dst []byte) []byte {
	dst = appendUints(dst, s.swept)
	for _, c := range s.cursors {
		dst = appendUints(dst, uint64(c.period), c.next)
	}
	return dst
}

func decodeSweepRow(row []byte) (s sweepRow, err error) {
	r := rowReader{rest: row}
	s.swept = r.uint()
	for len(r.rest) > 0 && !r.bad {
		s.cursors = append(s.cursors, sweepCursor{period: int64(r.uint()), next: r.uint()}) //nolint:gosec // as it was written
	}
	return s, r.done("sweep row")
}

// restartSweep makes the sweeps start again, because the retention has changed.
func (tx *txn) restartSweep() {
	s, _ := read(tx, keySweep, decodeSweepRow)
	s.cursors = nil
	rules := retention(tx)
	for _, rule := range rules {
		if period := rule.Millis(); period > 0 && !slices.ContainsFunc(s.cursors, func(c sweepCursor) bool { return c.period == period }) {
			s.cursors = append(s.cursors, sweepCursor{period: period, next: 1})
		}
	}
	tx.keep(keySweep, s.append(nil))
}

func retention(s facts) command.Retention {
	rules, err := command.ParseRetention(settings(s).Retention)
	s.must(err)
	return rules
}

func sweptOutKey(block uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{spaceErased, 's'}, block)
}

func keptKey(seq uint64) []byte { return seqKey(spaceKept, seq) }

func (tx *txn) applySweep(c *command.Sweep) command.Result {
	rules := retention(tx)
	s, _ := read(tx, keySweep, decodeSweepRow)
	look, room := maxSweepLook, command.MaxSwept
	sweep := func(e *entryRow) {
		if tx.sweep(e, rules.Of(e.Channel)) {
			s.swept++
			room--
		}
	}
	for i := range s.cursors {
		at := &s.cursors[i]
		for ; look > 0 && room > 0; look-- {
			e, some := tx.entry(at.next)
			if !some || e.CreatedAt > tx.now-at.period {
				break
			}
			at.next++
			if rules.Of(e.Channel) == at.period {
				sweep(&e)
			}
		}
	}
	for _, seq := range c.Over {
		if e, some := tx.entry(seq); some && room > 0 && tx.release(keptKey(seq)) {
			sweep(&e)
		}
	}
	tx.keep(keySweep, s.append(nil))
	return command.Result{Outcome: command.OutcomeDone}
}

// sweep makes a stub of an entry whose texts were kept for long enough, and reports
// whether it has. An entry that must be kept longer is noted, to be looked at again.
func (tx *txn) sweep(e *entryRow, period int64) bool {
	if period == 0 || tx.gone(e.Seq) {
		return false
	}
	if end, over := endOf(tx, e); !over || end > tx.now-period {
		tx.keep(keptKey(e.Seq), []byte{})
		return false
	}
	if !e.Hidden {
		tx.hide(e, sweptReason)
	}
	tx.erase(e.Seq, spaceSweptBits, sweptReason)
	tx.closeReports(command.ReportExpired, func(r queuedReport) bool { return r.entry == e.Seq })
	return true
}

// endOf returns when the retention of an entry begins, and whether it has begun.
func endOf(s facts, e *entryRow) (end int64, over bool) {
	switch {
	case e.Hidden:
		return e.CreatedAt, true
	case e.Type == TypeJob:
		over = jobOf(s, e.Seq).at(s.instant()).status > JobClaimed
	case e.Type == TypeHelp:
		h, _ := read(s, seqKey(spaceHelp, e.Seq), decodeHelpRow)
		over = h.status > HelpOpen
	case e.parentType == TypeJob && e.Relation == command.RelationReply:
		job := jobOf(s, e.Parent).at(s.instant())
		return e.CreatedAt, job.status != JobClaimed || job.claim != e.Seq
	default:
		return e.CreatedAt, true
	}
	end = e.CreatedAt
	list, _ := read(s, seqKey(spaceLater, e.Seq), parseSuccessors)
	if len(list) > 0 {
		newest, _ := s.entry(list[len(list)-1].seq)
		end = newest.CreatedAt
	}
	return end, over
}

// gone reports whether nothing is left of an entry.
func (tx *txn) gone(seq uint64) bool {
	bits, _ := tx.get(seqKey(spaceSweptBits, seq/hiddenEntries))
	return index.Bitmap(bits).Has(seq) || tx.purged(seq)
}

// goneIn returns the entries of a block of which nothing is left; nil: no such entries.
func goneIn(r pebble.Reader, block uint64) (index.Bitmap, error) {
	purged, _, err := getRow(r, seqKey(spacePurgedBits, block))
	if err != nil {
		return nil, err
	}
	swept, _, err := getRow(r, seqKey(spaceSweptBits, block))
	return index.Bitmap(purged).Or(swept), err
}

// NextSweep returns the next sweep at an instant, in milliseconds since the epoch; nil:
// nothing is due, as far as it looked. It looks at a bounded number of the entries that
// were kept, starting at seq from. to is where the next look starts, 0 when it has seen
// the last one.
func (v *View) NextSweep(now int64, from uint64) (next *command.Sweep, to uint64, err error) {
	s := &viewState{v: v}
	rules := retention(s)
	if len(rules) == 0 || s.err != nil {
		return nil, 0, s.err
	}
	row, _ := read(s, keySweep, decodeSweepRow)
	due := slices.ContainsFunc(row.cursors, func(c sweepCursor) bool {
		e, some := s.entry(c.next)
		return some && e.CreatedAt <= now-c.period
	})
	next = new(command.Sweep)
	looked := 0
	_, upper := spaceBounds(spaceKept)
	err = scanSpace(v.snap, keptKey(from), upper, func(key, _ []byte) error {
		seq := seqOfKey(key)
		if looked == maxKeptLook || len(next.Over) == command.MaxSwept {
			to = seq
			return errEnough
		}
		looked++
		e, _ := s.entry(seq)
		if end, over := endOf(s, &e); over && end <= now-rules.Of(e.Channel) {
			next.Over = append(next.Over, seq)
		}
		return s.err
	})
	if err = errors.Join(err, s.err); err != nil || !due && len(next.Over) == 0 {
		next = nil
	}
	return next, to, err
}

// Sweeps returns how many entries were swept, and how many are old enough at an instant
// and were not looked at yet, be they to be swept or not.
func (v *View) Sweeps(now int64) (swept, waiting uint64, err error) {
	row, _, err := load(v.snap, keySweep, decodeSweepRow)
	for _, c := range row.cursors {
		before, errBefore := v.firstAt(now - c.period)
		if err == nil {
			err = errBefore
		}
		waiting += max(before, c.next) - c.next
	}
	return row.swept, waiting, err
}

// firstAt returns the first entry that is newer than an instant, or the seq that the next
// entry will get.
func (v *View) firstAt(since int64) (uint64, error) {
	seq, some, err := v.firstAfter(max(since, -1))
	if !some {
		seq = v.head.lastSeq + 1
	}
	return seq, err
}

// Older returns how many entries that are not stubs for good are older at an instant than
// a retention, hidden ones too, counted up to most.
func (v *View) Older(rules command.Retention, now int64, most uint64) (n uint64, err error) {
	lower, upper := spaceBounds(spaceChannel)
	err = scanSpace(v.snap, lower, upper, func(key, _ []byte) error {
		channel := string(key[1:])
		period := rules.Of(channel)
		if period == 0 {
			return nil
		}
		older, err := v.countUpTo(channel, now-period, most-n)
		if n += older; n >= most && err == nil {
			err = errEnough
		}
		return err
	})
	return min(n, most), err
}

// countUpTo counts the entries of a channel of which something is left and that are not
// newer than an instant, up to most.
func (v *View) countUpTo(channel string, instant int64, most uint64) (n uint64, err error) {
	before, err := v.firstAt(instant)
	search := index.Query{All: []string{termChannel + channel}, Min: 1, Before: before, Limit: maxSelected}
	search.Without = func(block uint64) (index.Bitmap, error) { return goneIn(v.snap, block) }
	for search.Before > 1 && n < most && err == nil {
		var seqs []uint64
		seqs, search.Before, err = v.searchAll(search)
		n += uint64(len(seqs))
	}
	return n, err
}

// EraseSwept removes what was swept since the last time from the files of the state, except
// for what Pebble has not deleted yet. It removes its words from the index, and rewrites
// the tables that hold its rows and the index. Before each part of the work it stops if due
// says that something else waits: done is false then, and the next call continues.
// It is called again after an error. One goroutine calls it and Erase.
func (m *Machine) EraseSwept(ctx context.Context, due func() bool) (done bool, err error) {
	v := m.View()
	s := v.store
	row, _, err := load(v.snap, keySweep, decodeSweepRow)
	blocks, errBlocks := sweptBlocks(v.snap)
	if err = errors.Join(err, errBlocks); err != nil || len(blocks) == 0 {
		v.Release()
		return err == nil, err
	}
	s.ref() // or a snapshot that is installed closes it
	v.Release()
	defer s.unref()
	if done, err = s.eraseSwept(ctx, row.swept, blocks, due); err != nil {
		return false, fmt.Errorf("erase what was swept: %w", err)
	}
	if err := s.Flush(); err != nil {
		return false, err
	}
	m.republish(s)
	return done, nil
}

// eraseSwept erases what was swept in blocks, when so many entries were swept in all.
func (s *store) eraseSwept(ctx context.Context, swept uint64, blocks []sweptBlock, due func() bool) (done bool, err error) {
	if s.indexSwept != swept {
		if due() {
			return false, nil
		}
		if err := s.index.Erase(ctx); err != nil {
			return false, err
		}
		s.m.renewView(s) // Pebble keeps what a snapshot can see
		var ranges []keyRange
		for _, space := range quotingSpaces {
			ranges = append(ranges, wholeRange(space))
		}
		if err := s.compact(ctx, ranges); err != nil {
			return false, err
		}
		s.indexSwept = swept
	}
	for _, b := range blocks {
		if due() {
			return false, nil
		}
		var ranges []keyRange
		for _, space := range textSpaces {
			ranges = append(ranges, keyRange{seqKey(space, max(1, b.number*hiddenEntries)), seqKey(space, (b.number+1)*hiddenEntries)})
		}
		if err := s.compact(ctx, ranges); err != nil {
			return false, err
		}
		if err := s.db.Set(sweptOutKey(b.number), b.bits, pebble.NoSync); err != nil {
			return false, err
		}
	}
	return true, nil
}

// sweptBlock are hiddenEntries entries, and which of them were swept.
type sweptBlock struct {
	number uint64
	bits   []byte
}

// sweptBlocks returns the blocks in which entries were swept since EraseSwept was done
// with them.
func sweptBlocks(r pebble.Reader) (blocks []sweptBlock, err error) {
	lower, upper := spaceBounds(spaceSweptBits)
	err = scanSpace(r, lower, upper, func(key, bits []byte) error {
		block := seqOfKey(key)
		done, _, err := getRow(r, sweptOutKey(block))
		if err == nil && !bytes.Equal(done, bits) {
			blocks = append(blocks, sweptBlock{block, slices.Clone(bits)})
		}
		return err
	})
	return blocks, err
}
