package logstore

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// Limits of the store.
const (
	// DefaultCacheBytes bounds the entries kept in memory. Followers that keep
	// up, and apply itself, are served from there.
	DefaultCacheBytes = 32 << 20
	// entryOverhead is what an entry takes on disk beside its data and extension.
	entryOverhead = 96
)

// Options configure a Store.
type Options struct {
	// Path of the file. It is made when it is missing or empty.
	Path string
	// Existing says that the log was made before: it is not made anew.
	Existing bool
	// CacheBytes bounds the entries in memory; 0 is DefaultCacheBytes.
	CacheBytes int64
	// OnCorrupt is told of the first corruption found after Open. Raft itself
	// treats a failed read as a reason to try again, for ever. May be nil.
	OnCorrupt func(error)
}

// Store is a raft.LogStore and raft.StableStore. Its methods are safe for
// concurrent use.
type Store struct {
	path      string
	bolt      *raftboltdb.BoltStore
	onCorrupt func(error)
	reported  sync.Once

	mu  sync.Mutex
	win window // what the file holds
}

var (
	_ raft.LogStore    = (*Store)(nil)
	_ raft.StableStore = (*Store)(nil)
)

// ErrNotFound is the error of a stable value that was never set.
var ErrNotFound = raftboltdb.ErrKeyNotFound

// keyID is where the log's id stands among the stable values.
var keyID = []byte("CommonsLogID")

// ID returns what SetID was told, "" before that.
func (s *Store) ID() (string, error) {
	id, err := s.Get(keyID)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return string(id), err
}

// SetID names the log durably, so that no other passes for it.
func (s *Store) SetID(id string) error { return s.Set(keyID, []byte(id)) }

// Close closes the file. Nothing is lost without it: every write is on disk when
// the method that made it returns.
func (s *Store) Close() error { return s.bolt.Close() }

// entryBytes is what an entry counts for in limits, close to its size on disk.
func entryBytes(l *raft.Log) int64 {
	return int64(len(l.Data)+len(l.Extensions)) + entryOverhead
}

// FirstIndex returns the index of the oldest entry, 0 when there is none.
func (s *Store) FirstIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.win.first, nil
}

// LastIndex returns the index of the newest entry, 0 when there is none.
func (s *Store) LastIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.win.empty() {
		return 0, nil
	}
	return s.win.last(), nil
}

// BytesSince returns the bytes of the entries after index.
func (s *Store) BytesSince(index uint64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.win.bytesSince(index)
}

// Trailing returns how many of the newest entries make at most limit bytes.
func (s *Store) Trailing(limit int64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.win.trailing(limit)
}

// GetLog reads an entry. Errors: raft.ErrLogNotFound, a *CorruptError.
func (s *Store) GetLog(index uint64, l *raft.Log) error {
	s.mu.Lock()
	cached := s.win.lookup(index)
	s.mu.Unlock()
	if cached != nil {
		*l = *cached
		return nil
	}
	return s.read(index, l)
}

// read reads an entry from disk and verifies it.
func (s *Store) read(index uint64, l *raft.Log) error {
	err := guard(func() error { return s.bolt.GetLog(index, l) })
	switch {
	case err == nil && l.Index != index:
		err = fmt.Errorf("entry %d stands in its place", l.Index)
	case err == nil:
		err = verify(l)
	case errors.Is(err, raft.ErrLogNotFound):
		return err
	}
	if err == nil {
		return nil
	}
	return s.corrupt(index, err)
}

// corrupt reports damage once and returns it as an error.
func (s *Store) corrupt(index uint64, err error) error {
	cerr := &CorruptError{Path: s.path, Index: index, Err: err}
	s.reported.Do(func() {
		if s.onCorrupt != nil {
			s.onCorrupt(cerr)
		}
	})
	return cerr
}

// StoreLog stores one entry; see StoreLogs.
func (s *Store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores consecutive entries durably. An entry that comes with a
// checksum is verified, one that comes without is given its own; the caller's
// entries are left as they are. Entries held from the first new one on are
// replaced. When the first leaves a gap after the newest entry held, a snapshot
// was installed in between, and all that is older goes: it may never have been
// committed. Errors: a *CorruptError for a received entry, or what kept the
// entries from disk.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	sealed := make([]*raft.Log, len(logs))
	for i, l := range logs {
		if l.Index != logs[0].Index+uint64(i) {
			return fmt.Errorf("appending to the log: entry %d after entry %d", l.Index, logs[i-1].Index)
		}
		c := *l
		if len(c.Extensions) == 0 {
			c.Extensions = extension(&c)
		} else if err := verify(&c); err != nil {
			// The damage is the sender's, or the network's: this log is sound.
			return &CorruptError{Path: "a message from the leader for " + s.path, Index: c.Index, Err: err}
		}
		sealed[i] = &c
	}
	if err := s.makeRoom(sealed[0].Index); err != nil {
		return err
	}
	if err := guard(func() error { return s.bolt.StoreLogs(sealed) }); err != nil {
		return fmt.Errorf("appending to the log: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range sealed {
		s.win.push(l.Index, entryBytes(l))
		s.win.cache(l)
	}
	return nil
}

// makeRoom deletes what cannot stand beside an entry with the index.
func (s *Store) makeRoom(index uint64) error {
	s.mu.Lock()
	lo, hi := uint64(1), uint64(0)
	if !s.win.empty() {
		switch first, last := s.win.first, s.win.last(); {
		case index > last+1:
			lo, hi = first, last
		case index <= last:
			lo, hi = max(index, first), last
		}
	}
	s.mu.Unlock()
	if lo > hi {
		return nil
	}
	return s.DeleteRange(lo, hi)
}

// Set stores a stable value durably.
func (s *Store) Set(key, value []byte) error {
	return guard(func() error { return s.bolt.Set(key, value) })
}

// Get returns a stable value. Errors: ErrNotFound, by whose text Raft tells it.
func (s *Store) Get(key []byte) (value []byte, err error) {
	err = guard(func() error {
		value, err = s.bolt.Get(key)
		return err
	})
	return value, err
}

// SetUint64 stores a stable number durably.
func (s *Store) SetUint64(key []byte, value uint64) error {
	return guard(func() error { return s.bolt.SetUint64(key, value) })
}

// GetUint64 returns a stable number. Errors: ErrNotFound, by whose text Raft tells it.
func (s *Store) GetUint64(key []byte) (value uint64, err error) {
	err = guard(func() error {
		value, err = s.bolt.GetUint64(key)
		return err
	})
	return value, err
}
