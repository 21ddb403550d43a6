package logstore

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	fileMode       = 0o600
	lockTimeout    = time.Second // bounds the wait for another process's lock on the file
	journalIDBytes = 16
	initialMap     = 256 << 20 // mapped at once: growing the file to its usual size never waits for readers
)

var bucketLogs = []byte("logs") // where raft-boltdb keeps log entries, by big-endian index

// newSuffix names a file that is being made.
const newSuffix = ".new"

// ErrMissing is the error of a log that must exist and does not.
var ErrMissing = errors.New("the file is missing or empty")

// Open opens the log, or makes an empty one. It walks the whole file's structure
// first, so that damage shows as an error here and not as a crash later.
// Errors: ErrMissing, a *CorruptError, or what kept the file from being opened.
func Open(opts Options) (*Store, error) {
	s := newStore(opts)
	// After a crash, an unfinished new file holds entries that are, or were, in the log.
	if err := removeFile(s.path + newSuffix); err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	if err := s.find(opts.Existing); err != nil {
		return nil, err
	}
	if err := s.scan(); err != nil {
		return nil, err
	}
	if err := s.openBolt(); err != nil {
		return nil, err
	}
	if err := s.openJournal(); err != nil {
		return nil, errors.Join(err, s.bolt.Close())
	}
	return s, nil
}

// find makes a file, unless there is one with content or one must exist already.
func (s *Store) find(existing bool) error {
	info, err := os.Stat(s.path)
	switch {
	case err == nil && info.Size() > 0:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("opening the log: %w", err)
	case existing:
		return fmt.Errorf("opening the log %s: %w", s.path, ErrMissing)
	}
	if err := s.create(); err != nil {
		return fmt.Errorf("making the log %s: %w", s.path, err)
	}
	return nil
}

// create makes an empty log under another name first, so that a file with the log's
// name is always complete.
func (s *Store) create() error {
	made := newStore(Options{Path: s.path + newSuffix})
	if err := made.openBolt(); err != nil {
		return err
	}
	if err := made.bolt.Close(); err != nil {
		return err
	}
	if err := os.Rename(made.path, s.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.path))
}

// openBolt opens the file for writing.
func (s *Store) openBolt() error {
	err := guard(func() (err error) {
		s.bolt, err = raftboltdb.New(raftboltdb.Options{
			Path:                    s.path,
			MsgpackUseNewTimeFormat: true,
			BoltOptions: &bbolt.Options{
				Timeout:         lockTimeout,
				NoFreelistSync:  true,
				FreelistType:    bbolt.FreelistMapType,
				InitialMmapSize: initialMap,
				OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
					var err error
					s.file, err = os.OpenFile(name, flag, mode) //nolint:gosec // the operator's own data directory
					return s.file, err
				},
			},
		})
		return err
	})
	if err == nil {
		return nil
	}
	if s.file != nil {
		// A panic in bbolt leaves the file open, mapped and locked.
		_ = syscall.Flock(int(s.file.Fd()), syscall.LOCK_UN)
		_ = s.file.Close()
	}
	if errors.Is(err, errDamaged) {
		return &CorruptError{Path: s.path, Err: err}
	}
	return fmt.Errorf("opening the log %s: %w", s.path, err)
}

// scan reads which entries the file holds, and that they follow each other.
func (s *Store) scan() error {
	info, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	db, err := bbolt.Open(s.path, fileMode, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err == nil {
		s.pageSize = int64(db.Info().PageSize)
		err = guard(func() error {
			return db.View(func(tx *bbolt.Tx) error {
				if tx.Size() > info.Size() {
					return fmt.Errorf("the file has %d bytes of %d", info.Size(), tx.Size())
				}
				return s.scanBucket(tx.Bucket(bucketLogs))
			})
		})
		err = errors.Join(err, db.Close())
	}
	if errors.Is(err, bolterrors.ErrTimeout) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("opening the log %s: %w", s.path, err)
	}
	if err != nil {
		return &CorruptError{Path: s.path, Err: err}
	}
	return nil
}

func (s *Store) scanBucket(b *bbolt.Bucket) error {
	if b == nil {
		return nil // made, but not yet used
	}
	var before uint64 // the term of the entry before
	decoder := codec.NewDecoderBytes(nil, &codec.MsgpackHandle{})
	return b.ForEach(func(k, v []byte) error {
		if len(k) != 8 {
			return fmt.Errorf("a key of %d bytes", len(k))
		}
		index := binary.BigEndian.Uint64(k)
		var entry struct{ Term uint64 } // of a raft.Log as raft-boltdb encodes it
		decoder.ResetBytes(v)
		err := decoder.Decode(&entry)
		switch {
		case index == 0:
			return errors.New("an entry 0")
		case err != nil:
			return fmt.Errorf("entry %d: %w", index, err)
		case !s.win.empty() && index != s.win.last()+1:
			return fmt.Errorf("entry %d stands after %d", index, s.win.last())
		case entry.Term < before:
			return fmt.Errorf("entry %d is of term %d, the one before it of term %d", index, entry.Term, before)
		}
		before = entry.Term
		s.win.push(index, int64(len(v)))
		return nil
	})
}

// openJournal opens the journal, or makes it, and takes in what bbolt lacks.
func (s *Store) openJournal() error {
	id, err := s.Get(keyJournal)
	made := errors.Is(err, ErrNotFound)
	if made {
		id = make([]byte, journalIDBytes)
		_, _ = rand.Read(id) // never fails
	} else if err != nil {
		return err
	}
	j, err := openJournal(s.path, id, made)
	if errors.Is(err, fs.ErrNotExist) {
		return &CorruptError{Path: s.path, Err: fmt.Errorf("a file of its journal is missing: %w", err)}
	}
	if err != nil {
		return fmt.Errorf("opening the journal of the log: %w", err)
	}
	s.journal = j
	err = s.replay()
	for i := range j.files {
		if err == nil && !made && j.size[i] < s.journalBytes {
			err = &CorruptError{Path: s.path, Err: fmt.Errorf("%s has only %d bytes", journalPath(s.path, i), j.size[i])}
		} else if err == nil {
			err = j.grow(i, s.journalBytes, s.clearing)
		}
	}
	if err == nil && made {
		err = errors.Join(syncDir(filepath.Dir(s.path)), s.Set(keyJournal, id))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("opening the journal of the log: %w", err), j.close())
	}
	return nil
}

// replay takes in the entries that are in the journal and not in bbolt. bbolt has the first ones
// already when the node stopped after they were filed, and before their frame was noted.
func (s *Store) replay() error {
	filed, err := s.GetUint64(keyFiled)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	s.filed, s.marked = filed, filed
	frames, err := s.journal.read(filed)
	if errors.Is(err, errDamaged) {
		return &CorruptError{Path: s.path, Err: err}
	}
	if err != nil {
		return err
	}
	for _, f := range frames {
		entries, err := decodeEntries(f.whole[frameHead:])
		if err != nil {
			return &CorruptError{Path: s.path, Err: fmt.Errorf("frame %d of its journal: %w", f.sequence, err)}
		}
		if _, last := s.Bounds(); last != 0 {
			if entries[0].Index > last+1 {
				return &CorruptError{Path: s.path, Err: fmt.Errorf("entry %d of its journal stands after %d", entries[0].Index, last)}
			}
			known := min(last+1-entries[0].Index, uint64(len(entries)))
			if err := s.sameTerm(entries[:known]); err != nil {
				return err
			}
			entries = entries[known:]
		}
		if len(entries) == 0 {
			s.filed = f.sequence
		}
		s.note(entries)
		s.pending.entries = append(s.pending.entries, entries...)
		s.pending.synced(entries, f.sequence)
	}
	s.clear = s.journal.dirty[1-s.journal.active] == 0
	var newest frame
	if len(frames) > 0 {
		newest = frames[len(frames)-1]
	}
	return s.around(Storing, func() error { return s.journal.secure(newest) })
}

// sameTerm returns an error if the newest of some entries, which bbolt has, too, is another one there.
func (s *Store) sameTerm(entries []*raft.Log) error {
	var filed raft.Log
	if len(entries) == 0 {
		return nil
	}
	newest := entries[len(entries)-1]
	if err := s.GetLog(newest.Index, &filed); errors.Is(err, raft.ErrLogNotFound) {
		return nil // deleted since, with all that is older
	} else if err != nil {
		return err
	}
	if filed.Term != newest.Term {
		return &CorruptError{Path: s.path, Index: newest.Index, Err: fmt.Errorf("it is of term %d, and of term %d in its journal", filed.Term, newest.Term)}
	}
	return nil
}

// Align makes the log fit the newest snapshot, after a stop at any moment: when
// the snapshot came from another node, the log before it may hold entries that
// were never committed, and is deleted. Errors: entries between the snapshot and
// the log are missing; a *CorruptError.
func (s *Store) Align(snapshotIndex, snapshotTerm uint64) error {
	first, last := s.Bounds()
	switch {
	case last == 0:
		return nil
	case first > snapshotIndex+1:
		return &CorruptError{Path: s.path, Err: fmt.Errorf("it begins at entry %d, the newest snapshot ends at %d", first, snapshotIndex)}
	case snapshotIndex < first:
		return nil
	case last < snapshotIndex:
		return s.deleteUpward(first, last)
	}
	var l raft.Log
	if err := s.GetLog(snapshotIndex, &l); err != nil {
		return err
	}
	if l.Term == snapshotTerm {
		return nil
	}
	return s.deleteDownward(first, last)
}

var errDamaged = errors.New("damaged file") // the error of guard for a panic

// guard runs f and turns a panic into an error. bbolt panics on a damaged page,
// and reads of a mapped file fault when the file is shorter than it should be.
func guard(f func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errDamaged, r)
		}
	}()
	return f()
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the operator's own data directory
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
