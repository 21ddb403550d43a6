package view

import (
	"errors"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
)

// NextSweep returns the next sweep at an instant, or nil if no entry that it reads is due.
// It reads a bounded number of kept entries from seq from on. to is the start of the next
// call, or 0 after the last entry.
func (v *View) NextSweep(now int64, from uint64) (next *command.Sweep, to uint64, err error) {
	s := &viewState{v: v}
	rules := state.RetentionOf(s)
	if len(rules) == 0 || s.err != nil {
		return nil, 0, s.err
	}
	row, _ := state.Read(s, state.KeySweep, state.DecodeSweepRow)
	due := slices.ContainsFunc(row.Cursors, func(c state.SweepCursor) bool {
		e, some := s.Entry(c.Next)
		return some && e.CreatedAt <= now-c.Period
	})
	next = new(command.Sweep)
	looked := 0
	_, upper := state.SpaceBounds(state.SpaceKept)
	err = state.ScanSpace(v.snap, state.KeptKey(from), upper, func(key, _ []byte) error {
		seq := state.SeqOfKey(key)
		if looked == MaxKeptLook || len(next.Over) == command.MaxSwept {
			to = seq
			return state.ErrEnough
		}
		looked++
		e, _ := s.Entry(seq)
		if end, over := state.EndOf(s, &e); over && end <= now-rules.Of(e.Channel) {
			next.Over = append(next.Over, seq)
		}
		return s.err
	})
	if err = errors.Join(err, s.err); err != nil || !due && len(next.Over) == 0 {
		next = nil
	}
	return next, to, err
}

// Sweeps returns how many entries were swept, and how many old ones were not looked at yet.
func (v *View) Sweeps(now int64) (swept, waiting uint64, err error) {
	row, _, err := state.Load(v.snap, state.KeySweep, state.DecodeSweepRow)
	for _, c := range row.Cursors {
		before, errBefore := v.firstAt(now - c.Period)
		if err == nil {
			err = errBefore
		}
		waiting += max(before, c.Next) - c.Next
	}
	return row.Swept, waiting, err
}

// firstAt returns the first entry that is newer than an instant, or the next seq.
func (v *View) firstAt(since int64) (uint64, error) {
	seq, some, err := v.FirstAfter(max(since, -1))
	if !some {
		seq = v.at.Head.LastSeq + 1
	}
	return seq, err
}

// Older returns how many entries with texts are older than a retention, up to most.
func (v *View) Older(rules command.Retention, now int64, most uint64) (n uint64, err error) {
	lower, upper := state.SpaceBounds(state.SpaceChannel)
	err = state.ScanSpace(v.snap, lower, upper, func(key, _ []byte) error {
		channel := string(key[1:])
		period := rules.Of(channel)
		if period == 0 {
			return nil
		}
		older, err := v.countUpTo(channel, now-period, most-n)
		if n += older; n >= most && err == nil {
			err = state.ErrEnough
		}
		return err
	})
	return min(n, most), err
}

// countUpTo counts the entries of a channel with texts up to an instant, up to most.
func (v *View) countUpTo(channel string, instant int64, most uint64) (n uint64, err error) {
	before, err := v.firstAt(instant)
	search := index.Query{All: []string{state.TermChannel + channel}, Min: 1, Before: before, Limit: maxSelected}
	search.Without = func(block uint64) (index.Bitmap, error) { return state.GoneIn(v.snap, block) }
	for search.Before > 1 && n < most && err == nil {
		var seqs []uint64
		seqs, search.Before, err = v.searchAll(search)
		n += uint64(len(seqs))
	}
	return n, err
}

// MaxKeptLook bounds the kept entries that one call of NextSweep reads.
const MaxKeptLook = 1000
