package fsm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
)

// What is older than the retention of its channel is swept: it is hidden, and nothing of
// what it was is kept, as if it were purged. Nothing is proven of any disk: the bytes go
// with the log, with compactions, and with the next EraseSwept.
//
// A job that is open or claimed, the claim of one, and an open request for help are kept
// until they are over; then the newest of what was said to them has to be old enough,
// too. Profiles are no entries and stay.

const (
	// sweptReason is why what is swept is hidden.
	sweptReason = "Older than the retention of its channel"
	// maxSweepLook is how many entries one sweep looks at in the order of their seqs.
	maxSweepLook = 1000
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

// restartSweep has the sweeps begin anew, as the retention is another one.
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
// whether it has. What is not over is noted, to be looked at again.
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
	return true
}

// endOf returns from when on the retention of an entry runs, and whether it does.
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

// goneIn returns of which entries of a block nothing is left; nil: there are none.
func (s *store) goneIn(block uint64) (index.Bitmap, error) {
	purged, _, err := getRow(s.db, seqKey(spacePurgedBits, block))
	if err != nil {
		return nil, err
	}
	swept, _, err := getRow(s.db, seqKey(spaceSweptBits, block))
	return index.Bitmap(purged).Or(swept), err
}

// NextSweep returns the next sweep at an instant, in milliseconds since the epoch; nil:
// nothing is due.
func (v *View) NextSweep(now int64) (*command.Sweep, error) {
	s := &viewState{v: v}
	rules := retention(s)
	if len(rules) == 0 || s.err != nil {
		return nil, s.err
	}
	row, _ := read(s, keySweep, decodeSweepRow)
	due := slices.ContainsFunc(row.cursors, func(c sweepCursor) bool {
		e, some := s.entry(c.next)
		return some && e.CreatedAt <= now-c.period
	})
	next := new(command.Sweep)
	lower, upper := spaceBounds(spaceKept)
	err := scanSpace(v.snap, lower, upper, func(key, _ []byte) error {
		e, _ := s.entry(seqOfKey(key))
		if end, over := endOf(s, &e); over && end <= now-rules.Of(e.Channel) {
			next.Over = append(next.Over, e.Seq)
		}
		if len(next.Over) == command.MaxSwept {
			return errEnough
		}
		return s.err
	})
	if err == nil {
		err = s.err
	}
	if err != nil || !due && len(next.Over) == 0 {
		return nil, err
	}
	return next, nil
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

// firstAt returns the first entry that is newer than an instant, or the seq of the next
// one that there will be.
func (v *View) firstAt(since int64) (uint64, error) {
	seq, some, err := v.firstAfter(max(since, -1))
	if !some {
		seq = v.head.lastSeq + 1
	}
	return seq, err
}

// Older returns how many of the entries that are shown are older at an instant than a
// retention, counted up to most.
func (v *View) Older(rules command.Retention, now int64, most uint64) (n uint64, err error) {
	lower, upper := spaceBounds(spaceChannel)
	err = scanSpace(v.snap, lower, upper, func(key, row []byte) error {
		channel := string(key[1:])
		period := rules.Of(channel)
		if period == 0 {
			return nil
		}
		c, _, err := decodeChannelRow(row)
		if err != nil {
			return err
		}
		older := c.entries
		if c.lastAt > now-period {
			if older, err = v.countUpTo(channel, now-period, most-n); err != nil {
				return err
			}
		}
		if n += older; n >= most {
			return errEnough
		}
		return nil
	})
	return min(n, most), err
}

// countUpTo counts the entries of a channel that are shown and not newer than an
// instant, up to most.
func (v *View) countUpTo(channel string, instant int64, most uint64) (n uint64, err error) {
	before, err := v.firstAt(instant)
	search := index.Query{All: []string{termChannel + channel}, Min: 1, Before: before, Limit: maxSelected}
	for search.Before > 1 && n < most && err == nil {
		var seqs []uint64
		seqs, search.Before, err = v.search(search)
		n += uint64(len(seqs))
	}
	return n, err
}

// EraseSwept takes what was swept since the last time out of the files of the state, but
// for what Pebble has not deleted yet: its words out of the index, and the tables that
// hold its rows and the index are written anew. It is called again after an error. One
// goroutine calls it and Erase.
func (m *Machine) EraseSwept(ctx context.Context) error {
	v := m.View()
	s := v.store
	row, _, err := load(v.snap, keySweep, decodeSweepRow)
	done, _, errDone := load(v.snap, keySweptOut, decodeSweepRow)
	if err = errors.Join(err, errDone); err != nil || done.swept == row.swept {
		v.Release()
		return err
	}
	s.ref() // or a snapshot that is installed closes it
	v.Release()
	defer s.unref()
	err = s.index.Erase(ctx)
	if err == nil {
		s.m.renewView(s) // Pebble keeps what a snapshot can see
		err = s.compact(ctx, sweptRanges(&done, &row))
	}
	if err != nil {
		return fmt.Errorf("erase what was swept: %w", err)
	}
	if err := s.db.Set(keySweptOut, row.append(nil), pebble.NoSync); err != nil {
		return fmt.Errorf("erase what was swept: %w", err)
	}
	if err := s.Flush(); err != nil {
		return err
	}
	m.republish(s)
	return nil
}

// sweptRanges are where entries were swept between two times, and the index.
func sweptRanges(before, after *sweepRow) []keyRange {
	lower, upper := spaceBounds(spaceIndex)
	ranges := []keyRange{{lower, upper}}
	for _, c := range after.cursors {
		from := uint64(1)
		for _, old := range before.cursors {
			if old.period == c.period && old.next <= c.next {
				from = old.next
			}
		}
		if from < c.next {
			ranges = append(ranges, keyRange{seqKey(spaceEntry, from), seqKey(spaceEntry, c.next)})
		}
	}
	return ranges
}
