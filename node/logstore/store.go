// Package logstore keeps the Raft log and Raft's few stable values in one bbolt
// file, with a journal before it. To raft-boltdb it adds what a long-running node
// needs: a journal, in which entries are stored by one small write, and from which they
// are filed in bbolt in large transactions; a leader's own entries are queued for it, and
// written while followers get them; a checksum on every entry, verified whenever one is
// read from disk or received; a cache of the newest entries, bounded in bytes;
// truncation in small transactions; knowledge of how many bytes the log holds; and
// a stop of all writing as soon as Raft may be wrong about what the log holds.
package logstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"sync"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Limits of the store.
const (
	// DefaultCacheBytes bounds the entries kept in memory. Followers that keep
	// up, and apply itself, are served from there.
	DefaultCacheBytes = 32 << 20
	entryOverhead     = 96 // the size of an entry on disk beside its data and extension
)

// Options configure a Store.
type Options struct {
	Path       string // of the file, which is made when it is missing or empty
	Existing   bool   // the log was made before: a missing one is ErrMissing
	CacheBytes int64  // bounds the entries in memory; 0 is DefaultCacheBytes
	// JournalBytes is the size of a new file of the journal; a smaller file is damaged. 0 is
	// DefaultJournalBytes.
	JournalBytes int64
	// Snapshot returns the last index that the newest snapshot covers, 0 without a
	// snapshot. Nil means always 0.
	Snapshot func() uint64
	// Around runs each write with its sync; what is Storing, Deleting, Filing, Clearing or
	// Rewriting. Nil just runs it.
	Around func(what string, do func() error) error
	// Free returns the free bytes of the file's disk. Nil asks the system.
	Free func() uint64
	// Fatal is called once, with an error after which the log cannot continue: damage,
	// or a file that does not hold what Raft believes it holds. The store does not write
	// after it; Raft itself would try again for ever. May be nil.
	Fatal func(error)
}

// Store is a raft.LogStore and raft.StableStore. Its methods are safe for
// concurrent use.
type Store struct {
	path     string
	snapshot func() uint64
	around   func(what string, do func() error) error
	fatal    func(error)

	journalBytes int64 // see Options
	fileBytes    int64 // of entries in the journal that are filed in one transaction

	failpoint func(step string) // called at the steps of Rewrite
	free      func() uint64     // bytes of the disk

	swap     sync.RWMutex // held for reading while bolt is read, and wholly while it is exchanged
	bolt     *raftboltdb.BoltStore
	file     *os.File // bolt's
	pageSize int64    // of the file

	// writing has a value while a transaction writes, until win shows its effect. It is not a
	// sync.Mutex: in a bubble of testing/synctest, time stands still for a mutex's waiters.
	writing chan struct{}

	// appending has a value while entries are appended, and filer while they are moved to bbolt. They
	// are taken in the order appending, filer, writing.
	appending, filer chan struct{}
	journal          *journal // with appending; its active file changes under mu, too
	// With filer: the newest frame of the journal that bbolt has all of, and the one under keyFiled.
	filed, marked uint64

	mu    sync.Mutex
	win   window // the entries that are stored
	cut   bool   // the tail was deleted: Raft believes it is there until entries are stored
	ended error  // the error that Fatal was called with

	pending  pending   // entries that are not in bbolt yet: the newest of the log, and those that follow
	draining bool      // a goroutine writes what is queued
	filing   bool      // a goroutine runs fileAll
	fileAt   int64     // bytes in the journal at which entries are filed
	unfiled  error     // of fileAll, when it last ran
	clear    bool      // the journal's file that is not active is clear
	changed  sync.Cond // of mu: one of these has changed, or the store has ended
}

// ErrNotFound is the error of a stable value that was never set.
var ErrNotFound = raftboltdb.ErrKeyNotFound

// Keys among the stable values.
var (
	keyID      = []byte("CommonsLogID")   // of the log's id
	keyJournal = []byte("CommonsJournal") // of the journal's id, once the journal is made
	keyFiled   = []byte("CommonsFiled")   // of the newest frame of the journal that bbolt has all of
)

// newStore returns a store that is not open yet.
func newStore(opts Options) *Store {
	s := &Store{
		path: opts.Path, snapshot: opts.Snapshot, around: opts.Around, free: opts.Free, fatal: opts.Fatal,
		failpoint: func(string) {}, writing: make(chan struct{}, 1), appending: make(chan struct{}, 1), filer: make(chan struct{}, 1),
		clear: true, journalBytes: cmp.Or(opts.JournalBytes, DefaultJournalBytes),
	}
	s.fileBytes = min(s.journalBytes*fileShare, fileBytes)
	s.fileAt = s.fileBytes
	if s.free == nil {
		s.free = func() uint64 { return freeSpace(s.path) }
	}
	if s.snapshot == nil {
		s.snapshot = func() uint64 { return 0 }
	}
	if s.around == nil {
		s.around = func(_ string, do func() error) error { return do() }
	}
	if s.fatal == nil {
		s.fatal = func(error) {}
	}
	s.changed.L = &s.mu
	s.win.cacheLimit = cmp.Or(opts.CacheBytes, DefaultCacheBytes)
	return s
}

// ID returns the id that SetID stored, "" before that.
func (s *Store) ID() (string, error) {
	id, err := s.Get(keyID)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return string(id), err
}

// SetID stores the log's id durably, so that another log is not taken for it.
func (s *Store) SetID(id string) error { return s.Set(keyID, []byte(id)) }

// Close writes the queued entries, files what is in the journal if it can, and closes the
// files. Entries that count as stored are safe without it. While the disk hangs, it does not
// return.
func (s *Store) Close() error {
	s.mu.Lock()
	for s.draining {
		s.changed.Wait()
	}
	s.mu.Unlock()
	s.appending <- struct{}{}
	defer func() { <-s.appending }()
	_ = s.fileUpTo(math.MaxUint64) // what stays is filed when the log is opened
	s.awaitFiler()
	s.swap.Lock()
	defer s.swap.Unlock()
	return errors.Join(s.journal.close(), s.bolt.Close())
}

// entryBytes returns the size of an entry for limits, approximately its size on disk.
func entryBytes(l *raft.Log) int64 {
	return int64(len(l.Data)+len(l.Extensions)) + entryOverhead
}

// Bounds returns the indexes of the oldest and the newest entry, 0 if the log is empty.
func (s *Store) Bounds() (first, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.win.empty() {
		return 0, 0
	}
	return s.win.first, s.win.last()
}

// FirstIndex returns the index of the oldest entry, 0 if the log is empty.
func (s *Store) FirstIndex() (uint64, error) {
	first, _ := s.Bounds()
	return first, nil
}

// LastIndex returns the index of the newest entry, 0 if the log is empty.
func (s *Store) LastIndex() (uint64, error) {
	_, last := s.Bounds()
	return last, nil
}

// BytesSince returns the bytes of the entries after index.
func (s *Store) BytesSince(index uint64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.win.total() - s.win.bytesUpTo(index)
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
	cached := entryAt(s.pending.entries, index)
	if cached == nil {
		cached = entryAt(s.win.cached, index)
	}
	s.mu.Unlock()
	if cached != nil {
		*l = *cached
		return nil
	}
	return s.read(index, l)
}

func (s *Store) read(index uint64, l *raft.Log) error {
	err := s.reading(func() error { return s.bolt.GetLog(index, l) })
	switch {
	case err == nil && l.Index != index:
		err = fmt.Errorf("entry %d stands in its place", l.Index)
	case err == nil:
		err = verify(l)
	case errors.Is(err, raft.ErrLogNotFound):
		return err
	case errors.Is(err, bolterrors.ErrInvalidMapping): // the file could not grow; it is sound
		return s.end(&DivergedError{Path: s.path, Err: fmt.Errorf("entry %d cannot be read: %w", index, err)})
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return fmt.Errorf("read log entry %d: %w", index, err)
	}
	if err == nil {
		return nil
	}
	err = &CorruptError{Path: s.path, Index: index, Err: err}
	_ = s.end(err) // the caller gets the error of this entry, whatever was wrong before
	return err
}

// reading runs what reads the file.
func (s *Store) reading(f func() error) error {
	s.swap.RLock()
	defer s.swap.RUnlock()
	return guard(f)
}

// Set stores a stable value durably.
func (s *Store) Set(key, value []byte) error {
	if err := s.waitAll(); err != nil {
		return err
	}
	return s.write(Storing, func() error { return s.bolt.Set(key, value) }, nil)
}

// Get returns a stable value. Errors: ErrNotFound, which Raft knows by its text.
func (s *Store) Get(key []byte) (value []byte, err error) {
	err = s.reading(func() error {
		value, err = s.bolt.Get(key)
		return err
	})
	return value, err
}

// SetUint64 stores a stable number durably.
func (s *Store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value)) // as raft-boltdb reads it
}

// GetUint64 returns a stable number. Errors: as Get.
func (s *Store) GetUint64(key []byte) (value uint64, err error) {
	err = s.reading(func() error {
		value, err = s.bolt.GetUint64(key)
		return err
	})
	return value, err
}

// The extension of a log entry: a version byte and the CRC32C (Castagnoli) over
// index, term, type and data, all integers big-endian.
const (
	extensionVersion = 1
	extensionBytes   = 1 + crc32.Size
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrCorrupt matches every *CorruptError.
var ErrCorrupt = errors.New("log is corrupt")

// CorruptError is the error of a log on disk, or of a received entry, that differs from what was
// written. Such a node must stop: it could vote or answer based on data that was never agreed on.
type CorruptError struct {
	Path  string // the log's file
	Index uint64 // the entry; 0 when the damage is not in one entry
	Err   error  // the damage
}

func (e *CorruptError) Error() string {
	where := "log"
	if e.Index != 0 {
		where = fmt.Sprintf("log entry %d", e.Index)
	}
	return fmt.Sprintf("%s in %s is corrupt: %v; this node must resync: stop it, wipe its data directory and start it again, and the others bring it up to date",
		where, e.Path, e.Err)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

func (e *CorruptError) Unwrap() error { return e.Err }

func checksum(l *raft.Log) uint32 {
	var head [17]byte
	binary.BigEndian.PutUint64(head[0:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	return crc32.Update(crc32.Update(0, castagnoli, head[:]), castagnoli, l.Data)
}

func extension(l *raft.Log) []byte {
	return binary.BigEndian.AppendUint32([]byte{extensionVersion}, checksum(l))
}

func verify(l *raft.Log) error {
	if len(l.Extensions) != extensionBytes || l.Extensions[0] != extensionVersion {
		return fmt.Errorf("it carries no checksum of version %d", extensionVersion)
	}
	want, got := binary.BigEndian.Uint32(l.Extensions[1:]), checksum(l)
	if want != got {
		return fmt.Errorf("its checksum is %08x, its content has %08x", want, got)
	}
	return nil
}
