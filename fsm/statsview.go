package fsm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// Posting is what outside agents did in a span of time.
type Posting struct {
	Agents  uint64 `json:"agents"`  // different names
	Posts   uint64 `json:"posts"`   // entries, replies among them
	Replies uint64 `json:"replies"` // entries with relation reply
}

func (p *Posting) add(h hourRow) {
	p.Agents += h.agents
	p.Posts += h.posts
	p.Replies += h.replies
}

// Stats are the public counts (interface, 4.8).
type Stats struct {
	Last24h, Last7d  Posting
	RegisteredAgents uint64 // outside names with an edit_key
	APIClients7d     uint64 // about how many senders called, but for those who only read pages
}

// Stats returns the counts up to an instant in milliseconds since the epoch. The
// hour and the day of the instant are the newest that are counted.
func (v *View) Stats(now int64) (Stats, error) {
	var s Stats
	row, _, err := getRow(v.snap, keyRegistered)
	if err != nil {
		return s, err
	}
	if s.RegisteredAgents, err = decodeNumber(row); err != nil {
		return s, err
	}
	hour := uint64(max(0, now) / hourMillis)
	upper := hourKey(hour + 1)
	err = scanSpace(v.snap, hourKey(oldestHour(hour)), upper, func(key, value []byte) error {
		h, err := decodeHourRow(value)
		s.Last7d.add(h)
		if uint64(binary.BigEndian.Uint32(key[1:]))+dayHours > hour {
			s.Last24h.add(h)
		}
		return err
	})
	if err != nil {
		return s, err
	}
	s.APIClients7d, err = v.senders(DayOf(now).minus(weekDays-1), DayOf(now), func(s Surface) bool { return s != SurfaceWeb })
	return s, err
}

// senders estimates how many different senders there were on the days from first
// to last.
func (v *View) senders(first, last Day, counts func(Surface) bool) (uint64, error) {
	registers := make([]byte, SketchRegisters)
	err := scanSpace(v.snap, dayKey(spaceSenders, first), dayKey(spaceSenders, last+1), func(key, chunk []byte) error {
		if counts(Surface(key[usageDayKeyBytes])) {
			return mergeChunk(registers, key, chunk)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return estimate(registers)
}

// Senders returns the registers of the sketch of one day's senders.
func (v *View) Senders(day Day, surface Surface) ([]byte, error) {
	registers := make([]byte, SketchRegisters)
	lower := append(dayKey(spaceSenders, day), byte(surface))
	upper := append(dayKey(spaceSenders, day), byte(surface)+1)
	err := scanSpace(v.snap, lower, upper, func(key, chunk []byte) error { return mergeChunk(registers, key, chunk) })
	return registers, err
}

func mergeChunk(registers, key, chunk []byte) error {
	at := int(key[len(key)-1]) * sketchChunk
	if len(chunk) != sketchChunk || at+sketchChunk > len(registers) {
		return fmt.Errorf("%w: sketch row", ErrCorrupt)
	}
	mergeRegisters(registers[at:], chunk)
	return nil
}

// Usage are the calls of some days (interface, 4.9).
type Usage struct {
	Calls           uint64
	DistinctSenders uint64 // about how many
	// Rows are the calls of the newest days first, at most MaxUsageListed rows.
	Rows []UsageRow
	Cut  bool // there were more
}

// Usage returns the calls from the first day to the last.
func (v *View) Usage(first, last Day) (Usage, error) {
	var u Usage
	err := scanSpace(v.snap, usageDayKey(first), usageDayKey(last+1), func(key, value []byte) error {
		if len(key) == usageDayKeyBytes {
			return nil // the day's count of rows
		}
		r, err := parseUsageKey(key)
		if err != nil {
			return err
		}
		r.Count, err = decodeNumber(value)
		u.Calls += r.Count
		u.Rows = append(u.Rows, r)
		return err
	})
	if err != nil {
		return u, err
	}
	slices.SortStableFunc(u.Rows, func(a, b UsageRow) int { return cmp.Compare(b.Day, a.Day) })
	if len(u.Rows) > MaxUsageListed {
		u.Rows, u.Cut = u.Rows[:MaxUsageListed], true
	}
	u.DistinctSenders, err = v.senders(first, last, func(Surface) bool { return true })
	return u, err
}
