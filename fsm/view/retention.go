package view

import (
	"errors"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
)

// NextSweep returns the next sweep at an instant, or nil if no entry that it reads is due.
// It reads a bounded number of kept entries from seq from on. to is the start of the next
// call, or 0 after the last entry.
func (v *View) NextSweep(now int64, from uint64) (next *command.Sweep, to uint64, err error) {
	s := &viewState{v: v}
	period := state.RetentionOf(s)
	if period == 0 || s.err != nil {
		return nil, 0, s.err
	}
	row, _ := state.Read(s, state.KeySweep, state.Decode[state.SweepRow])
	oldest, some := s.Entry(row.Last + 1)
	due := some && oldest.CreatedAt <= now-period
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
		if start, over := state.RetentionStart(s, &e); over && start <= now-period {
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
	s := &viewState{v: v}
	row, _ := state.Read(s, state.KeySweep, state.Decode[state.SweepRow])
	period := state.RetentionOf(s)
	if period == 0 || s.err != nil {
		return row.Swept, 0, s.err
	}
	before, err := v.firstAt(now - period)
	return row.Swept, max(before, row.Last+1) - (row.Last + 1), err
}

// firstAt returns the first entry that is newer than an instant, or the next seq.
func (v *View) firstAt(since int64) (uint64, error) {
	seq, some, err := v.FirstAfter(max(since, -1))
	if !some {
		seq = v.at.Head.LastSeq + 1
	}
	return seq, err
}

// Older returns how many entries with texts are older than a number of days.
func (v *View) Older(days uint64, now int64) (n uint64, err error) {
	before, err := v.firstAt(now - int64(days)*command.DayMillis) //nolint:gosec // bounded by the check of settings
	if err != nil {
		return 0, err
	}
	var gone index.Bitmap
	for seq := uint64(1); seq < before; seq++ {
		if seq == 1 || seq%state.HiddenEntries == 0 {
			if gone, err = state.GoneIn(v.snap, seq/state.HiddenEntries); err != nil {
				return 0, err
			}
		}
		if !gone.Has(seq) {
			n++
		}
	}
	return n, nil
}

// MaxKeptLook bounds the kept entries that one call of NextSweep reads.
const MaxKeptLook = 1000

// SendersToForget reports whether some senders are old enough to be forgotten at an instant.
func (v *View) SendersToForget(now int64) (some bool, err error) {
	s := &viewState{v: v}
	young := state.ForgetsBefore(s, now) + 1
	found := func(_, _ []byte) error {
		some = true
		return state.ErrEnough
	}
	s.Must(state.ScanSpace(v.snap, state.SendersKey(0), state.SendersKey(young), found))
	s.Must(state.ScanSpace(v.snap, state.ForgetKey(0, nil), state.ForgetKey(young, nil), found))
	return some, s.err
}
