package logstore

import (
	"fmt"
	"time"
)

// Bounds of one transaction that deletes entries.
const (
	sliceEntries = 1024
	sliceBytes   = 4 << 20
	// maxYield bounds the rest between two slices. Each rests as long as the
	// slice before took, so that appends have at least half of the disk.
	maxYield = 50 * time.Millisecond
)

// DeleteRange deletes the entries from lo to hi, both included, in transactions
// of bounded size: the old end of the log, as far as a snapshot covers it, or a
// conflicting tail. A stop in the middle leaves a log without a gap: the old end
// is deleted upward, and a tail downward. An error after a part of a tail is gone
// is fatal.
func (s *Store) DeleteRange(lo, hi uint64) error {
	first, last := s.bounds()
	if lo, hi = max(lo, first), min(hi, last); last == 0 || lo > hi {
		return nil
	}
	covered := s.snapshot()
	switch {
	case lo == first && hi <= covered:
		return s.deleteUpward(lo, hi)
	case hi == last:
		return s.cutTail(lo, hi)
	case lo == first:
		return fmt.Errorf("deleting log entries %d to %d: the newest snapshot covers only what is up to %d", lo, hi, covered)
	default:
		return fmt.Errorf("deleting log entries %d to %d would leave a gap", lo, hi)
	}
}

// cutTail deletes a tail that Raft takes to be there until other entries are stored.
func (s *Store) cutTail(lo, hi uint64) error {
	err := s.deleteDownward(lo, hi)
	s.mu.Lock()
	s.cut = s.cut || s.win.empty() || s.win.last() != hi
	s.mu.Unlock()
	if err == nil {
		return nil
	}
	return s.endIfCut(err)
}

// deleteUpward deletes the old end of the log while others append to the new one.
func (s *Store) deleteUpward(lo, hi uint64) error {
	for lo <= hi {
		s.mu.Lock()
		end := s.win.sliceEnd(lo, hi)
		s.mu.Unlock()
		start := time.Now()
		if err := s.deleteSlice(lo, end, func() { s.win.dropHead(end) }); err != nil {
			return err
		}
		lo = end + 1
		if lo <= hi {
			time.Sleep(min(time.Since(start), maxYield))
		}
	}
	return nil
}

// deleteDownward deletes the tail. The caller is the only one who appends.
func (s *Store) deleteDownward(lo, hi uint64) error {
	for hi >= lo {
		s.mu.Lock()
		start := s.win.sliceStart(lo, hi)
		s.mu.Unlock()
		if err := s.deleteSlice(start, hi, func() { s.win.dropTail(start) }); err != nil {
			return err
		}
		hi = start - 1
	}
	return nil
}

func (s *Store) deleteSlice(lo, hi uint64, noted func()) error {
	if err := s.write(Deleting, func() error { return s.bolt.DeleteRange(lo, hi) }, noted); err != nil {
		return fmt.Errorf("deleting log entries %d to %d: %w", lo, hi, err)
	}
	return nil
}

// sliceEnd returns the last entry of the slice that begins at lo.
func (w *window) sliceEnd(lo, hi uint64) uint64 {
	end, before := lo, w.bytesUpTo(lo-1)
	for end < hi && end-lo+1 < sliceEntries && w.bytesUpTo(end+1)-before <= sliceBytes {
		end++
	}
	return end
}

// sliceStart returns the first entry of the slice that ends at hi.
func (w *window) sliceStart(lo, hi uint64) uint64 {
	start, end := hi, w.bytesUpTo(hi)
	for start > lo && hi-start+1 < sliceEntries && end-w.bytesUpTo(start-2) <= sliceBytes {
		start--
	}
	return start
}
