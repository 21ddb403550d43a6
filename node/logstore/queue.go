package logstore

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

const (
	queueBytes = 4 << 20  // of entries that wait to be written; the two batches of the write path do not reach it
	queueFree  = 64 << 20 // space of the disk for entries to be queued: a write that fails afterwards ends the store
)

// Queue takes consecutive entries that this node appends as the leader, to write them in
// the background, in order, while the followers get them. Until an entry is written, the
// caller must not count it as stored: not apply it, nor let others commit it (Unwritten,
// WaitWritten). Then written is called with the duration of the write, if it is not nil.
//
// It reports whether it took them. It leaves entries that do not follow the newest one, or
// that an almost full disk may not have room for, to StoreLogs, whose errors Raft can
// continue after. An entry that was taken and cannot be written ends the store:
// Raft counts on it. Errors: as for StoreLogs.
func (s *Store) Queue(logs []*raft.Log, written func(took time.Duration)) (bool, error) {
	if len(logs) == 0 || s.free() < queueFree {
		return false, nil
	}
	sealed, err := s.seal(logs)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.takes(sealed) {
		return false, nil
	}
	s.queue = append(s.queue, sealed...)
	if !s.draining {
		s.draining = true
		go s.drain(written)
	}
	return true, nil
}

// takes reports whether entries can be queued. The lock is held.
func (s *Store) takes(logs []*raft.Log) bool {
	last := uint64(0)
	bytes := int64(0)
	for _, l := range s.queue {
		last, bytes = l.Index, bytes+entryBytes(l)
	}
	if last == 0 && !s.win.empty() {
		last = s.win.last()
	}
	return s.ended == nil && !s.cut && last != 0 && logs[0].Index == last+1 && bytes < queueBytes
}

// freeSpace returns the free bytes of a file's disk; 0 when they are not known.
func freeSpace(path string) uint64 {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize)
}

// drain writes until the queue is empty: all waiting entries go into one transaction.
func (s *Store) drain(written func(took time.Duration)) {
	for {
		s.mu.Lock()
		batch := slices.Clone(s.queue)
		if len(batch) == 0 || s.ended != nil {
			s.draining = false
			s.written.Broadcast()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		begun := time.Now()
		err := s.write(Storing, func() error { return s.bolt.StoreLogs(batch) }, func() {
			s.note(batch)
			s.queue = slices.Delete(s.queue, 0, len(batch))
			s.written.Broadcast()
		})
		if err != nil {
			_ = s.end(&DivergedError{Path: s.path, Err: fmt.Errorf("entries from %d on are with the followers, and cannot be written here: %w", batch[0].Index, err)})
		} else if written != nil {
			written(time.Since(begun))
		}
	}
}

// Unwritten returns the index of the oldest queued entry, 0 if the queue is empty.
func (s *Store) Unwritten() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return 0
	}
	return s.queue[0].Index
}

// WaitWritten waits until no entry up to an index is queued. The error says why that
// will never be.
func (s *Store) WaitWritten(index uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 && s.queue[0].Index <= index {
		if s.ended != nil {
			return s.ended
		}
		s.written.Wait()
	}
	return nil
}

// waitAll waits until the queue is empty: later writes stand behind its entries.
func (s *Store) waitAll() error { return s.WaitWritten(math.MaxUint64) }
