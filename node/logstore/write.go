package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// StoreLog stores one entry; see StoreLogs.
func (s *Store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores consecutive entries durably. An entry that comes with a
// checksum is verified, an entry without one gets a checksum; the caller's
// entries are not changed. The first entry follows the newest one held. If it
// leaves a gap instead, a snapshot was installed in between, and everything older is
// deleted: it may never have been committed. Errors: a *CorruptError for a received
// entry, or what kept the entries from disk. After a deletion of the tail every
// error is fatal, because Raft continues as if the tail was still there.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	if err := s.waitAll(); err != nil {
		return err
	}
	return s.endIfCut(s.append(logs))
}

func (s *Store) append(logs []*raft.Log) error {
	sealed, err := s.seal(logs)
	if err != nil {
		return err
	}
	if err := s.makeRoom(sealed[0].Index); err != nil {
		return err
	}
	if err := s.journalize(sealed, false); err != nil {
		return fmt.Errorf("appending to the log: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = false
	return nil
}

// note records that entries are stored. The lock is held.
func (s *Store) note(sealed []*raft.Log) {
	for _, l := range sealed {
		s.win.push(l.Index, entryBytes(l))
		s.win.cache(l)
	}
}

// seal returns copies of consecutive entries, each with its checksum.
func (s *Store) seal(logs []*raft.Log) ([]*raft.Log, error) {
	sealed := make([]*raft.Log, len(logs))
	for i, l := range logs {
		if l.Index != logs[0].Index+uint64(i) {
			return nil, fmt.Errorf("appending to the log: entry %d after entry %d", l.Index, logs[i-1].Index)
		}
		c := *l
		if len(c.Extensions) == 0 {
			c.Extensions = extension(&c)
		} else if err := verify(&c); err != nil {
			// The damage is the sender's, or the network's: this log is sound.
			return nil, &CorruptError{Path: "a message from the leader for " + s.path, Index: c.Index, Err: err}
		}
		sealed[i] = &c
	}
	return sealed, nil
}

// makeRoom deletes what a snapshot replaces, when an entry with the index does not
// follow the newest one held. If no snapshot covers everything before the entry,
// Raft is wrong about what the log holds.
func (s *Store) makeRoom(index uint64) error {
	first, last := s.Bounds()
	if last != 0 && index == last+1 {
		return nil
	}
	if covered := s.snapshot(); index <= last || index > covered+1 {
		return s.end(&DivergedError{Path: s.path, Err: fmt.Errorf(
			"entry %d is to follow, the log holds %d to %d, and the newest snapshot covers what is up to %d", index, first, last, covered)})
	}
	if last == 0 {
		return nil
	}
	return s.deleteUpward(first, last)
}

// Bounds of one transaction that deletes entries.
const (
	sliceEntries = 1024
	sliceBytes   = 4 << 20
	// maxYield bounds the rest between two slices. Each rests as long as the
	// slice before took, so that appends have at least half of the disk.
	maxYield = 50 * time.Millisecond
)

// DeleteRange deletes the entries from lo to hi, both included, in transactions of
// bounded size: the old end of the log, as far as a snapshot covers it, or a conflicting
// tail. A stop in the middle leaves a log without a gap: the old end is deleted upward,
// and a tail downward. An error after a part of a tail is gone is fatal. The queue up to
// hi is written first: a leader can learn of a newer term while it queues, and the tail
// that its successor replaces ends with the queue.
func (s *Store) DeleteRange(lo, hi uint64) error {
	if err := s.WaitWritten(hi); err != nil {
		return err
	}
	first, last := s.Bounds()
	if lo, hi = max(lo, first), min(hi, last); last == 0 || lo > hi {
		return nil
	}
	covered := s.snapshot()
	switch {
	case lo == first && hi <= covered:
		return s.deleteUpward(lo, hi)
	case hi == last:
		// Raft believes that the tail is there until other entries are stored.
		err := s.deleteDownward(lo, hi)
		s.mu.Lock()
		s.cut = s.cut || s.win.empty() || s.win.last() != hi
		s.mu.Unlock()
		return s.endIfCut(err)
	case lo == first:
		return fmt.Errorf("deleting log entries %d to %d: the newest snapshot covers only what is up to %d", lo, hi, covered)
	default:
		return fmt.Errorf("deleting log entries %d to %d would leave a gap", lo, hi)
	}
}

// Settle returns the index and the term of the newest entry, 0 if the log is empty. Raft
// continues from there: it does not believe any more that a deleted tail is in the log.
func (s *Store) Settle() (index, term uint64, err error) {
	if err := errors.Join(s.waitAll(), s.over()); err != nil {
		return 0, 0, err
	}
	var newest raft.Log
	if _, last := s.Bounds(); last != 0 {
		if err := s.GetLog(last, &newest); err != nil {
			return 0, 0, s.endIfCut(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = false
	return newest.Index, newest.Term, nil
}

// deleteUpward deletes the old end of the log while others append to the new one.
func (s *Store) deleteUpward(lo, hi uint64) error {
	if err := s.fileUpTo(hi); err != nil {
		return err
	}
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

// deleteDownward deletes the tail. The caller is the only one who appends. What is deleted is
// filed before, and the journal's frames with it: a start would take it out of them again.
func (s *Store) deleteDownward(lo, hi uint64) error {
	if err := s.fileUpTo(hi); err != nil {
		return err
	}
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

// The kinds of writes.
const (
	Storing  = "a write of the log"
	Deleting = "a deletion in the log"
	Filing   = "entries filed in the log"
	Clearing = "clearing the log's journal"
)

// Where bbolt's two meta pages, the first ones of the file, have the number of the
// transaction that wrote them: behind the header of the page and six fields.
const (
	metaPages  = 2
	txidOffset = 16 + 48
)

// DivergedError is the error of a log on disk that is not, or may not be, the one that Raft has in
// memory. Such a node stops; the next start reads the log as it is.
type DivergedError struct {
	Path string // the log's file
	Err  error  // the cause
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("log %s: %v; what it holds and what Raft believes it holds may differ, so this node ends: "+
		"make sure that its disk is sound and has space, and start the node again; it continues from what is on disk", e.Path, e.Err)
}

func (e *DivergedError) Unwrap() error { return e.Err }

// write runs a transaction, and then noted, which updates what is in memory. After an
// error the log stays usable only if the transaction is not in the file.
func (s *Store) write(what string, do func() error, noted func()) error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	if err := s.over(); err != nil {
		return err
	}
	var before uint64
	err := s.around(what, func() (err error) {
		if before, err = s.txid(); err != nil {
			return err
		}
		return guard(do)
	})
	switch {
	case err != nil && before == 0: // not begun
		return err
	case err != nil:
		return s.failed(what, before, err)
	}
	if noted != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		noted()
	}
	return nil
}

// failed handles a transaction that failed after the one with the number before.
// bbolt writes a meta page last, and syncs it. When only that sync fails, the
// transaction is there, for bbolt and after a restart; a power failure could
// still undo it.
func (s *Store) failed(what string, before uint64, err error) error {
	if errors.Is(err, errDamaged) {
		return s.end(&CorruptError{Path: s.path, Err: err})
	}
	after, unread := s.txid()
	if unread == nil {
		// If the file's memory map could not grow, bbolt has lost it and neither
		// reads nor writes any more.
		unread = guard(func() error { _, err := s.bolt.FirstIndex(); return err })
	}
	switch {
	case unread != nil:
		return s.end(&DivergedError{Path: s.path, Err: fmt.Errorf("%s failed: %w; the file cannot be read since: %w", what, err, unread)})
	case after != before:
		return s.end(&DivergedError{Path: s.path, Err: fmt.Errorf("%s failed and is in the file all the same: %w", what, err)})
	}
	return err
}

// txid returns the number of the newest transaction in the file.
func (s *Store) txid() (newest uint64, err error) {
	for page := range int64(metaPages) {
		var id [8]byte
		if _, err := s.file.ReadAt(id[:], page*s.pageSize+txidOffset); err != nil {
			return 0, err
		}
		newest = max(newest, binary.NativeEndian.Uint64(id[:]))
	}
	return newest, nil
}

// endIfCut makes an error fatal when the tail was deleted before.
func (s *Store) endIfCut(err error) error {
	if err == nil {
		return nil
	}
	_, last := s.Bounds()
	s.mu.Lock()
	cut := s.cut
	s.mu.Unlock()
	if !cut {
		return err
	}
	return s.end(&DivergedError{Path: s.path, Err: fmt.Errorf("the entries after %d were deleted for newer ones, which could not be stored: %w", last, err)})
}

// end ends all writing for a reason. The first reason counts; it is returned.
func (s *Store) end(reason error) error {
	s.mu.Lock()
	first := s.ended == nil
	if first {
		s.ended = reason
	}
	reason = s.ended
	s.changed.Broadcast()
	s.mu.Unlock()
	if first {
		s.fatal(reason)
	}
	return reason
}

func (s *Store) over() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}
