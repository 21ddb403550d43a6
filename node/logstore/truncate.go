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
// of bounded size. A stop in the middle leaves a log without a gap: the old end
// is deleted upward, and a conflicting tail downward.
func (s *Store) DeleteRange(lo, hi uint64) error {
	s.mu.Lock()
	if s.win.empty() || lo > s.win.last() || hi < s.win.first {
		s.mu.Unlock()
		return nil
	}
	lo, hi = max(lo, s.win.first), min(hi, s.win.last())
	head, tail := lo == s.win.first, hi == s.win.last()
	s.mu.Unlock()
	switch {
	case head:
		return s.deleteUpward(lo, hi)
	case tail:
		return s.deleteDownward(lo, hi)
	default:
		return fmt.Errorf("deleting log entries %d to %d would leave a gap", lo, hi)
	}
}

// deleteUpward deletes the old end of the log while others append to the new one.
func (s *Store) deleteUpward(lo, hi uint64) error {
	for lo <= hi {
		s.mu.Lock()
		end := s.win.sliceEnd(lo, hi)
		s.mu.Unlock()
		start := time.Now()
		if err := s.deleteSlice(lo, end); err != nil {
			return err
		}
		s.mu.Lock()
		s.win.dropHead(end)
		s.mu.Unlock()
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
		if err := s.deleteSlice(start, hi); err != nil {
			return err
		}
		s.mu.Lock()
		s.win.dropTail(start)
		s.mu.Unlock()
		hi = start - 1
	}
	return nil
}

func (s *Store) deleteSlice(lo, hi uint64) error {
	if err := guard(func() error { return s.bolt.DeleteRange(lo, hi) }); err != nil {
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
