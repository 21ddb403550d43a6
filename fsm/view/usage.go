package view

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/stats"
)

// Stats are the public counts (interface, 4.8).
type Stats struct {
	Last24h, Last7d  stats.HourRow
	RegisteredAgents uint64 // outside names with an edit_key
	APIClients7d     uint64 // about how many senders called, but for those who only read pages
}

// Stats returns the counts up to the hour and the day of an instant.
func (v *View) Stats(now int64) (Stats, error) {
	var s Stats
	var err error
	if s.RegisteredAgents, _, err = state.Load(v.snap, state.KeyRegistered, state.DecodeNumber); err != nil {
		return s, err
	}
	hour := uint64(max(0, now) / command.HourMillis)
	upper := stats.HourKey(hour + 1)
	err = state.ScanSpace(v.snap, stats.HourKey(stats.OldestHour(hour)), upper, func(key, value []byte) error {
		h, err := state.Decode[stats.HourRow](value)
		s.Last7d.Add(h)
		if uint64(binary.BigEndian.Uint32(key[1:]))+stats.DayHours > hour {
			s.Last24h.Add(h)
		}
		return err
	})
	if err != nil {
		return s, err
	}
	s.APIClients7d, err = v.senders(command.DayOf(now).Minus(stats.WeekDays-1), command.DayOf(now), func(s command.Surface) bool { return s != command.SurfaceWeb })
	return s, err
}

// senders estimates the number of different senders on the days from first to last.
func (v *View) senders(first, last command.Day, counts func(command.Surface) bool) (uint64, error) {
	registers := make([]byte, command.SketchRegisters)
	err := state.ScanSpace(v.snap, state.DayKey(state.SpaceSenders, first), state.DayKey(state.SpaceSenders, last+1), func(key, chunk []byte) error {
		if counts(command.Surface(key[stats.UsageDayKeyBytes])) {
			return MergeChunk(registers, key, chunk)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return stats.Estimate(registers)
}

// MergeChunk merges a row of a sketch into its registers.
func MergeChunk(registers, key, chunk []byte) error {
	at := int(key[len(key)-1]) * stats.SketchChunk
	if len(chunk) != stats.SketchChunk || at+stats.SketchChunk > len(registers) {
		return fmt.Errorf("%w: sketch row", state.ErrCorrupt)
	}
	for i, rank := range chunk {
		registers[at+i] = max(registers[at+i], rank)
	}
	return nil
}

// Usage are the calls of some days (interface, 4.9).
type Usage struct {
	Calls           uint64
	DistinctSenders uint64 // about how many
	// Rows are the calls of the newest days first, at most MaxUsageListed rows.
	Rows []command.UsageRow
	Cut  bool // there were more
}

// Usage returns the calls from the first day to the last.
func (v *View) Usage(first, last command.Day) (Usage, error) {
	var u Usage
	err := state.ScanSpace(v.snap, stats.UsageDayKey(first), stats.UsageDayKey(last+1), func(key, value []byte) error {
		if len(key) == stats.UsageDayKeyBytes {
			return nil // the day's count of rows
		}
		r, err := stats.ParseUsageKey(key)
		if err != nil {
			return err
		}
		r.Count, err = state.DecodeNumber(value)
		u.Calls += r.Count
		u.Rows = append(u.Rows, r)
		return err
	})
	if err != nil {
		return u, err
	}
	slices.SortStableFunc(u.Rows, func(a, b command.UsageRow) int { return cmp.Compare(b.Day, a.Day) })
	if len(u.Rows) > command.MaxUsageListed {
		u.Rows, u.Cut = u.Rows[:command.MaxUsageListed], true
	}
	u.DistinctSenders, err = v.senders(first, last, func(command.Surface) bool { return true })
	return u, err
}
