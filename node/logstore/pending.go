package logstore

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

const (
	queueBytes = 4 << 20  // of entries that wait for the journal; the two batches of the write path do not reach it
	queueFree  = 64 << 20 // space of the disk for entries to be queued: a write that fails afterwards ends the store
	// At most fileBytes of entries in the journal, and at most fileShare times a small file of it, are
	// filed in one transaction.
	fileBytes, fileShare = 4 << 20, 4
	// pendingShare times as many bytes are at most in memory and not in bbolt: when bbolt does not
	// keep up, appends wait.
	pendingShare = 16
)

// pending holds the newest entries of the log, those that bbolt does not have yet. The first
// of them are in the journal, and count as stored. The others are queued: the leader sends
// them while they are written.
type pending struct {
	entries []*raft.Log
	frames  []uint64 // the journal's frame of each entry that is in it
	bytes   int64    // of those entries
}

// synced notes that entries, which were the oldest queued ones, are in a frame of the journal.
func (p *pending) synced(entries []*raft.Log, frame uint64) {
	for _, l := range entries {
		p.frames = append(p.frames, frame)
		p.bytes += entryBytes(l)
	}
}

// queued returns the entries that are not in the journal.
func (p *pending) queued() []*raft.Log { return p.entries[len(p.frames):] }

// oldest returns the entries to file in the next transaction, their bytes (at most limit, unless one
// entry is larger), and the newest frame of the journal of which bbolt has all then.
func (p *pending) oldest(limit int64) (batch []*raft.Log, bytes int64, filed uint64) {
	n := 0
	for n < len(p.frames) && (n == 0 || bytes+entryBytes(p.entries[n]) <= limit) {
		bytes += entryBytes(p.entries[n])
		n++
	}
	if n == len(p.frames) {
		return slices.Clone(p.entries[:n]), bytes, p.frames[n-1]
	}
	return slices.Clone(p.entries[:n]), bytes, p.frames[n] - 1
}

// drop removes the oldest entries.
func (p *pending) drop(n int, bytes int64) {
	p.entries, p.frames, p.bytes = slices.Delete(p.entries, 0, n), slices.Delete(p.frames, 0, n), p.bytes-bytes
}

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
	s.pending.entries = append(s.pending.entries, sealed...)
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
	for _, l := range s.pending.queued() {
		last, bytes = l.Index, bytes+entryBytes(l)
	}
	if last == 0 && !s.win.empty() {
		last = s.win.last()
	}
	return s.ended == nil && s.unfiled == nil && !s.cut && last != 0 && logs[0].Index == last+1 && bytes < queueBytes
}

// freeSpace returns the free bytes of a file's disk; 0 when they are not known.
func freeSpace(path string) uint64 {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize)
}

// drain writes until no entry is queued: all that wait go into one frame.
func (s *Store) drain(written func(took time.Duration)) {
	for {
		s.mu.Lock()
		batch := slices.Clone(s.pending.queued())
		if len(batch) == 0 || s.ended != nil {
			s.draining = false
			s.changed.Broadcast()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		begun := time.Now()
		if err := s.journalize(batch, true); err != nil {
			_ = s.end(&DivergedError{Path: s.path, Err: fmt.Errorf("entries from %d on are with the followers, and cannot be written here: %w", batch[0].Index, err)})
		} else if written != nil {
			written(time.Since(begun))
		}
	}
}

// journalize appends entries to the journal; queued says that they are the oldest queued
// ones. An error leaves the log as it was, unless the store ends with it.
func (s *Store) journalize(batch []*raft.Log, queued bool) error {
	s.appending <- struct{}{}
	defer func() { <-s.appending }()
	if err := s.over(); err != nil {
		return err
	}
	j := s.journal
	j.encode(func(b []byte) []byte { return appendEntries(b, batch) })
	if fits, err := s.awaitRoom(); err != nil {
		return err
	} else if !fits {
		return s.storeLarge(batch, queued)
	}
	before := j.last
	err := s.around(Storing, j.append)
	switch {
	case errors.Is(err, errUnsynced):
		return s.end(&DivergedError{Path: s.path, Err: err})
	case err != nil && j.last != before:
		return s.end(&DivergedError{Path: s.path, Err: fmt.Errorf("%s failed and is in the file all the same: %w", Storing, err)})
	case err != nil:
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(batch)
	if !queued {
		s.pending.entries = append(s.pending.entries, batch...)
	}
	s.pending.synced(batch, j.last)
	if s.pending.bytes >= s.fileAt {
		s.startFiling()
	}
	s.changed.Broadcast()
	return nil
}

// awaitRoom waits until the encoded frame fits into the journal, and few enough entries wait to be
// filed. It turns to the other file when the active one is full and the other is clear. It returns
// false if both files are too small. The caller holds appending.
func (s *Store) awaitRoom() (fits bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tried := false; ; tried = true {
		switch {
		case s.ended != nil:
			return false, s.ended
		case tried && s.unfiled != nil && !s.filing:
			return false, fmt.Errorf("the journal is full: %w", s.unfiled)
		case s.pending.bytes >= pendingShare*s.fileBytes: // wait
		case s.journal.fits():
			return true, nil
		case s.clear && s.journal.fitsOther():
			s.journal.turn()
			s.clear = false
			s.startFiling()
			return true, nil
		case s.clear:
			return false, nil
		}
		s.startFiling()
		s.changed.Wait()
	}
}

// startFiling has the entries in the journal filed in the background. The lock is held.
func (s *Store) startFiling() {
	if !s.filing && s.ended == nil {
		s.filing = true
		go s.fileAll()
	}
}

// fileAll files the entries that are in the journal by now, and clears the journal's file that
// is full. After an error the next append that needs it tries again.
func (s *Store) fileAll() {
	for {
		s.mu.Lock()
		full, other := !s.clear, 1-s.journal.active
		s.mu.Unlock()
		err := s.fileUpTo(math.MaxUint64)
		if err == nil && full {
			err = s.journal.clear(other, 0, s.clearing)
			if err == nil {
				_ = s.journal.grow(other, min(2*s.journal.size[other], journalGrowth*s.journalBytes), s.clearing) // without space it stays as it is
			}
		}
		s.mu.Lock()
		if err == nil && full {
			s.clear = true
		}
		s.unfiled = err
		s.fileAt = s.fileBytes
		if err != nil {
			s.fileAt += s.pending.bytes
		}
		s.filing = err == nil && !s.clear // the journal has turned meanwhile
		again := s.filing
		s.changed.Broadcast()
		s.mu.Unlock()
		if !again {
			return
		}
	}
}

// clearing runs a step of clearing a file of the journal.
func (s *Store) clearing(step func() error) error {
	if err := s.over(); err != nil {
		return err
	}
	return s.around(Clearing, step)
}

// fileUpTo moves entries from the journal to bbolt, in transactions of bounded size: up to an index,
// those that are in the journal when it begins.
func (s *Store) fileUpTo(upTo uint64) error {
	s.filer <- struct{}{}
	defer func() { <-s.filer }()
	s.mu.Lock()
	if n := len(s.pending.frames); n > 0 {
		upTo = min(upTo, s.pending.entries[n-1].Index)
	}
	s.mu.Unlock()
	for {
		if s.marked < s.filed {
			if err := s.write(Filing, func() error { return s.bolt.SetUint64(keyFiled, s.filed) }, nil); err != nil {
				return fmt.Errorf("filing entries of the journal: %w", err)
			}
			s.marked = s.filed
		}
		s.mu.Lock()
		if len(s.pending.frames) == 0 || s.pending.entries[0].Index > upTo {
			s.mu.Unlock()
			return nil
		}
		batch, bytes, filed := s.pending.oldest(s.fileBytes)
		s.mu.Unlock()
		err := s.write(Filing, func() error { return s.bolt.StoreLogs(batch) }, func() { s.pending.drop(len(batch), bytes) })
		if err != nil {
			return fmt.Errorf("filing entries of the journal: %w", err)
		}
		s.filed = filed
	}
}

// fileForGood files what is in the journal, and clears both of its files. The caller holds appending.
func (s *Store) fileForGood() error {
	if err := s.fileUpTo(math.MaxUint64); err != nil {
		return err
	}
	s.awaitFiler()
	for i, size := range s.journal.size {
		// All of it: a clearing before a kill, or whose sync failed, may not have reached the disk.
		if err := s.journal.clear(i, size, s.clearing); err != nil {
			return fmt.Errorf("clearing the journal: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.end, s.clear = 0, true
	return nil
}

// awaitFiler waits until nothing is filed in the background.
func (s *Store) awaitFiler() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.filing {
		s.changed.Wait()
	}
}

// storeLarge stores entries that no file of the journal can take, in bbolt. The caller holds appending.
func (s *Store) storeLarge(batch []*raft.Log, queued bool) error {
	if err := s.fileUpTo(math.MaxUint64); err != nil {
		return err
	}
	return s.write(Storing, func() error { return s.bolt.StoreLogs(batch) }, func() {
		s.note(batch)
		if queued {
			s.pending.entries = slices.Delete(s.pending.entries, 0, len(batch))
		}
		s.changed.Broadcast()
	})
}

// Unwritten returns the index of the oldest queued entry, 0 if there is none.
func (s *Store) Unwritten() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if queued := s.pending.queued(); len(queued) > 0 {
		return queued[0].Index
	}
	return 0
}

// WaitWritten waits until no entry up to an index is queued. The error says why that
// will never be.
func (s *Store) WaitWritten(index uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for queued := s.pending.queued(); len(queued) > 0 && queued[0].Index <= index; queued = s.pending.queued() {
		if s.ended != nil {
			return s.ended
		}
		s.changed.Wait()
	}
	return nil
}

// waitAll waits until nothing is queued: later writes stand behind the queued entries.
func (s *Store) waitAll() error { return s.WaitWritten(math.MaxUint64) }
