package fsm

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// store is one Pebble database with its indexes and caches. A snapshot from the leader
// replaces the whole store; views of the old one keep it open until they are released.
type store struct {
	state.Rows
	m        *Machine
	dir      string // name below Options.Dir
	index    *index.Index
	profiles *index.Index  // of their revisions
	caches   *apply.Caches // of the apply goroutine
	loaded   apply.Loaded
	refs     atomic.Int64
	files    *compactionFS
	closed   func(*store) // called once, when the last reference is gone

	views      view.Views
	trouble    trouble
	live       atomic.Bool // the store was made the live one
	indexSwept uint64      // entries that were swept when EraseSwept was done with the index
}

// states is the part of a machine that snapshots use.
type states struct{ m *Machine }

// OpenState opens or creates the database in path and checks that it is ours.
func (x states) OpenState(path, name string) (snapshot.State, error) {
	s := &store{m: x.m, dir: name}
	log := x.m.opts.Logger
	po := pebbleOptions(&x.m.opts, x.m.cache, s.fatal)
	s.files = &compactionFS{FS: po.FS, pace: x.m.opts.Pace}
	po.FS = s.files
	po.EventListener.BackgroundError = func(err error) {
		s.trouble.add(log, err)
		// Pebble tries again by itself, which helps only while a disk is full.
		if pebble.IsCorruptionError(err) || oserror.IsNotExist(err) {
			s.fatal(fmt.Errorf("state on disk: %w", err))
		}
	}
	po.EventListener.FlushEnd = func(info pebble.FlushInfo) {
		if info.Err == nil {
			s.trouble.over(log)
		}
	}
	db, err := pebble.Open(path, po)
	if err != nil {
		return nil, fmt.Errorf("open state %s: %w", name, err)
	}
	s.Open(db)
	if err := s.checkVersion(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// LiveState returns the store of the newest view.
func (x states) LiveState() (s snapshot.State, release func()) {
	v := x.m.acquire()
	return v.store, v.Release
}

// ReadCheckpoint reads what the export or the sending of a state says of it.
func (x states) ReadCheckpoint(path string) (c snapshot.Contents, err error) {
	db, err := x.m.openCheckpoint(path)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	at, err := covers(db)
	if err != nil {
		return c, err
	}
	servers, err := state.LoadConfiguration(db)
	return snapshot.Contents{Position: at, Configuration: servers.Data, ConfigurationIndex: servers.Index}, err
}

// openCheckpoint opens the checkpoint of a state for reading. Its rows are read once: in
// the cache of the live state they would displace those that requests read.
func (m *Machine) openCheckpoint(path string) (*pebble.DB, error) {
	cache := pebble.NewCache(checkpointCacheBytes)
	defer cache.Unref() // the database has its own reference
	po := pebbleOptions(&m.opts, cache, m.opts.Fatal)
	po.ReadOnly = true
	po.FS = readFS{po.FS, m.opts.Pace()}
	db, err := pebble.Open(path, po)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	return db, nil
}

// Load fills the indexes and caches.
func (s *store) Load() (err error) {
	l := &s.loaded
	if *l, s.caches, err = apply.LoadState(s.DB, s.m.opts.MaxFormat); err != nil {
		return err
	}
	if err := s.openIndex(l.Head.LastSeq); err != nil {
		return err
	}
	s.m.newest = s
	return s.openProfileIndex(l.Revision)
}

// Adopt makes it the live state.
func (s *store) Adopt() { s.m.adopt(s) }

// Live reports whether the newest view is of this store.
func (s *store) Live() bool {
	v := s.m.view.Load()
	return v != nil && v.store == s
}

// Name returns the name of the store's directory.
func (s *store) Name() string { return s.dir }

// Size returns the bytes of the store on the disk.
func (s *store) Size() int64 { return int64(s.DB.Metrics().DiskSpaceUsage()) }

// Covers returns the position up to which the store is complete.
func (s *store) Covers() (snapshot.Position, error) { return covers(s.DB) }

// Cover writes that position. Pebble makes writes durable in order: with this row,
// all before it.
func (s *store) Cover(at snapshot.Position) error {
	return s.DB.Set(state.KeyCovered, state.AppendUints(nil, at.Index, at.Term), pebble.NoSync)
}

// Checkpoint links the tables as they are on disk.
func (s *store) Checkpoint(path string) error {
	if err := s.DB.Checkpoint(path); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// checkVersion stamps an empty database and rejects one with another schema.
func (s *store) checkVersion() error {
	row, ok, err := state.GetRow(s.DB, state.KeyVersion)
	switch {
	case err != nil:
		return err
	case ok && len(row) == 1 && row[0] == state.KeyspaceVersion:
		return nil
	case ok:
		return fmt.Errorf("state %s has keyspace version %v, this program knows %d", s.dir, row, state.KeyspaceVersion)
	}
	if _, ok, err := state.GetRow(s.DB, state.KeyHead); err != nil || ok {
		return errors.Join(err, fmt.Errorf("%w: state %s has no keyspace version", state.ErrCorrupt, s.dir))
	}
	if err := s.DB.Set(state.KeyVersion, []byte{state.KeyspaceVersion}, pebble.NoSync); err != nil {
		return fmt.Errorf("stamp state %s: %w", s.dir, err)
	}
	return nil
}

// fatal reports an error after which the state must not be used any more. While the
// store is not the live one, opening it returns the error.
func (s *store) fatal(err error) {
	if s.live.Load() {
		s.m.opts.Fatal(err)
	}
}

func (s *store) ref() { s.refs.Add(1) }

func (s *store) unref() {
	if s.refs.Add(-1) == 0 {
		s.closed(s)
	}
}

// Close closes the database without flushing it.
func (s *store) Close() error {
	if s.index != nil {
		s.index.Close()
	}
	if s.profiles != nil {
		s.profiles.Close()
	}
	if err := s.DB.Close(); err != nil {
		return fmt.Errorf("close state %s: %w", s.dir, err)
	}
	return nil
}

// Flush makes everything written so far durable. It ends with an error when a
// write fails meanwhile, where Pebble's own would wait for as long as that takes.
func (s *store) Flush() error {
	failed := s.trouble.wait()
	flushed, err := s.DB.AsyncFlush()
	if err != nil {
		return fmt.Errorf("flush state %s: %w", s.dir, err)
	}
	select {
	case <-flushed:
		return nil
	case <-failed:
		return fmt.Errorf("flush state %s: %w", s.dir, s.trouble.last())
	}
}

const (
	// fullPause is how long Pebble's writes wait when one has found the disk full.
	// Pebble tries again by itself, without a pause.
	fullPause = time.Second
	// troubleEvery: of this many failures in a row, one is logged. On a full disk that
	// is about one a minute.
	troubleEvery = 60
)

// trouble counts failures of Pebble's flushes and compactions. Pebble reports them under
// its lock, so no method may block.
type trouble struct {
	mu     sync.Mutex
	newest error
	next   chan struct{} // closed at the next failure; nil without a waiting Flush
	row    int           // failures since the last flush that went well
}

// wait returns a channel that the next failure closes.
func (t *trouble) wait() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = make(chan struct{})
	}
	return t.next
}

// last returns the newest failure.
func (t *trouble) last() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newest
}

// add notes a failure, and logs the first of a row and some of the others.
func (t *trouble) add(log *slog.Logger, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.newest = err
	if t.next != nil {
		close(t.next)
		t.next = nil
	}
	if t.row%troubleEvery == 0 {
		log.Warn("writing the state failed, trying again", "error", err, "failures", t.row+1)
	}
	t.row++
}

// over notes a flush that went well.
func (t *trouble) over(log *slog.Logger) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.row > 0 {
		log.Info("the state is written again", "failures", t.row)
	}
	t.row = 0
}

// The settings of Pebble. Its defaults stall writes that come in batches of 128 KiB.
const (
	// DefaultMaxOpenFiles is how many files of a state are open at once.
	DefaultMaxOpenFiles = 1000
	// DefaultCacheBytes is the size of the block cache when all memtables are full.
	DefaultCacheBytes = 64 << 20
	// checkpointCacheBytes is the size of the block cache of a checkpoint.
	checkpointCacheBytes = 8 << 20
	// DefaultMemTableBytes is the size of one memtable. After a crash, rows in memtables
	// are read again from the Raft log.
	DefaultMemTableBytes = 32 << 20

	// formatMajorVersion is Pebble's format on disk. A newer one must wait until
	// every node can read it, because snapshots carry these files.
	formatMajorVersion = pebble.FormatTableFormatV6

	// manifestBytes is from where on Pebble may begin a new manifest: it does when the
	// old one has more changes than the new one would have tables. See erase.go.
	manifestBytes = 1

	memTablesBeforeStop   = 4
	l0CompactionThreshold = 4
	l0StopWrites          = 24
	bloomBitsPerKey       = 10
	// Small blocks and the fastest compression: reading one old entry costs 20 µs,
	// with twice the block and zstd 70 µs, for a quarter less of disk.
	dataBlockBytes  = 4 << 10
	indexBlockBytes = 32 << 10
	baseLevelBytes  = 128 << 20
	// plainLevels are the upper levels, which are not compressed: what is in them is
	// soon written again, and they are small.
	plainLevels     = 5
	tableBytes      = 8 << 20
	flushSplitBytes = 2 << 20
)

// pebbleOptions returns the options for a state. The cache is shared between a
// state and its successor. fatal is called for bytes that are not what was written.
func pebbleOptions(opts *Options, cache *pebble.Cache, fatal func(error)) *pebble.Options {
	o := &pebble.Options{
		FS:                          vfs.OnDiskFull(opts.FS, func() { time.Sleep(fullPause) }),
		Cache:                       cache,
		DisableWAL:                  true, // the Raft log is the write-ahead log
		FormatMajorVersion:          formatMajorVersion,
		MemTableSize:                uint64(opts.MemTableBytes),
		MemTableStopWritesThreshold: memTablesBeforeStop,
		L0CompactionThreshold:       l0CompactionThreshold,
		L0StopWritesThreshold:       l0StopWrites,
		LBaseMaxBytes:               baseLevelBytes,
		FlushSplitBytes:             flushSplitBytes,
		MaxOpenFiles:                opts.MaxOpenFiles,
		MaxManifestFileSize:         manifestBytes,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      pebbleLogger{log: opts.Logger, fatal: fatal},
		EventListener: &pebble.EventListener{
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				fatal(fmt.Errorf("state on disk: %w: %s", state.ErrCorrupt, info))
			},
		},
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = dataBlockBytes
		o.Levels[i].IndexBlockSize = indexBlockBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
		o.TargetFileSizes[i] = tableBytes << min(i, 3)
	}
	// A table ends with the keyspace that it began with. Rows that are written once and in
	// order, such as entries, then move from level to level as whole tables. A table that they
	// share with rows that change would have to be rewritten.
	o.Experimental.SpanPolicyFunc = func(start []byte) (policy pebble.SpanPolicy, end []byte, err error) {
		_, end = state.SpaceBounds(start[0])
		return policy, end, nil
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
		settings := pebble.DBCompressionFastest
		copy(settings.Levels[:plainLevels], pebble.DBCompressionNone.Levels[:])
		return settings
	})
	return o
}

// pebbleLogger passes on what matters of Pebble's log.
type pebbleLogger struct {
	log   *slog.Logger
	fatal func(error)
}

func (l pebbleLogger) Infof(string, ...any) {}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("pebble reports an error", "error", fmt.Sprintf(format, args...))
}

// Fatalf must not return.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("pebble: "+format, args...)
	l.fatal(err)
	panic(err)
}
