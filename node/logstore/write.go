package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// What a transaction does.
const (
	Storing  = "a write of the log"
	Deleting = "a deletion in the log"
)

// Where bbolt's two meta pages, the first ones of the file, have the number of the
// transaction that wrote them: behind the header of the page and six fields.
const (
	metaPages  = 2
	txidOffset = 16 + 48
)

// DivergedError says that the log on disk is not, or may not be, the one that Raft
// goes by in memory. Such a node ends; a start reads the log as it is.
type DivergedError struct {
	Path string // the log's file
	Err  error  // what happened
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("log %s: %v; what it holds and what Raft takes it to hold may differ, so this node ends: "+
		"see to it that its disk is sound and has space, and start the node again; it goes on from what is on disk", e.Path, e.Err)
}

// Unwrap returns what happened.
func (e *DivergedError) Unwrap() error { return e.Err }

// write runs a transaction, and then noted, which brings what is in memory up to
// it. The log goes on after an error only when nothing of the transaction is in
// the file.
func (s *Store) write(what string, do func() error, noted func()) error {
	s.writing.Lock()
	defer s.writing.Unlock()
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

// failed judges a transaction that failed after the one with the number before.
// bbolt writes a meta page last, and syncs it. When only that sync fails, the
// transaction is there, for bbolt and after a restart; a power failure could
// still undo it.
func (s *Store) failed(what string, before uint64, err error) error {
	if errors.Is(err, errDamaged) {
		return s.end(&CorruptError{Path: s.path, Err: err})
	}
	after, unread := s.txid()
	if unread == nil {
		// Without its map of the file, which it lost when that could not grow,
		// bbolt neither reads nor writes any more.
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
	_, last := s.bounds()
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
	s.mu.Unlock()
	if first {
		s.fatal(reason)
	}
	return reason
}

// over returns why nothing is written any more; nil while it is.
func (s *Store) over() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}
