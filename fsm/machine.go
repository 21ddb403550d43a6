// Package fsm is the replicated state of Commons: a deterministic state machine over a
// Pebble database, with its search index and its views. It has the Machine, the adapter to
// Raft, the life of a store, waiting, snapshots and erasing.
//
// Package fsm/command defines the commands and their results, and what is replicated. The
// contents of the state are in fsm/state, the queue of deliveries in fsm/outbox, the effects
// of commands in fsm/apply and the state for readers in fsm/view.
//
// The state depends on the Raft log only: not on a clock, randomness, map iteration
// order, the environment or I/O results.
package fsm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// Options configure a Machine.
type Options struct {
	// Dir is the directory of the state. It is created if missing.
	Dir string
	// Logger receives what an operator should know. Nil discards.
	Logger *slog.Logger
	// Observer is notified of every applied command. Nil is allowed.
	Observer Observer
	// DeliveriesEnded is called with the deliveries that left their queues, or were never
	// queued, on the apply goroutine, after a view with this change is published. After a
	// crash it may be called again. Nil is allowed.
	DeliveriesEnded func([]outbox.DeliveryEnd)
	// CacheBytes is the minimum size of Pebble's block cache; zero is DefaultCacheBytes.
	// The cache also uses memory that the memtables leave free.
	CacheBytes int64
	// MemTableBytes is the size of one of Pebble's memtables; zero is
	// DefaultMemTableBytes.
	MemTableBytes int64
	// MaxOpenFiles bounds the open files of one state; zero is DefaultMaxOpenFiles. While a
	// snapshot is received there are two states.
	MaxOpenFiles int
	// MaxFormat is the newest format that is known; zero is MaxFormat. Tests of
	// upgrades set it.
	MaxFormat int
	// Fatal is called, on any goroutine, when stored data is corrupt, the storage fails
	// permanently, or a log entry or snapshot has a newer format. The state must not be
	// used afterwards. Nil panics.
	Fatal func(error)
	// FS is the file system that Dir is on; nil is the system's. Tests use it to simulate
	// full disks and crashes.
	FS FS
	// Pace begins erasures, exports and digests. They call step between small parts of the
	// work, and it lets them yield to writes. Nil means that they do not yield.
	Pace func() (step func())

	// failpoint is called at named steps. Tests panic in it to simulate a crash.
	failpoint func(step string)
}

// FS is a file system.
type FS = vfs.FS

// Observer is notified of every command that was applied.
type Observer interface {
	// Applied is called on the apply goroutine, after the view that holds the
	// log entry with this index is published, once per command and in order.
	Applied(boot command.BootID, seq uint64, r command.Result, index uint64)
}

// closeGrace is how long Close waits for views that are still in use.
const closeGrace = 5 * time.Second

// Machine is the replicated state machine over a Pebble database. One goroutine of
// Raft's applies and restores; all exported methods may be called from any goroutine.
type Machine struct {
	opts    Options
	cache   *pebble.Cache
	waiters waiters
	// watchers wait for changes that concern an agent.
	watchers watchers
	// jobWaiters wait for a job to take.
	jobWaiters jobWaiters
	view       atomic.Pointer[published]
	inUse      sync.WaitGroup // stores that a view or the machine refers to
	stores     sync.WaitGroup // stores that are not closed yet
	snaps      *snapshot.Store
	captures   captures

	// applyMu serialises changes of the state: apply, restore, seals of the index, close.
	applyMu sync.Mutex
	store   *store
	apply.Loaded
	terms  state.TermBuilder
	newest *store // that was loaded, for tests that crash
	closed bool
}

func (o *Options) setDefaults() {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.CacheBytes = cmp.Or(o.CacheBytes, DefaultCacheBytes)
	o.MaxOpenFiles = cmp.Or(o.MaxOpenFiles, DefaultMaxOpenFiles)
	o.MemTableBytes = cmp.Or(o.MemTableBytes, DefaultMemTableBytes)
	o.MaxFormat = cmp.Or(o.MaxFormat, command.MaxFormat)
	o.FS = cmp.Or(o.FS, vfs.Default)
	if o.Fatal == nil {
		o.Fatal = func(err error) { panic(err) }
	}
	if o.Pace == nil {
		o.Pace = func() func() { return func() {} }
	}
	if o.failpoint == nil {
		o.failpoint = func(string) {}
	}
}

// adopt makes a loaded store the live one and publishes its view. The caller holds
// applyMu.
func (m *Machine) adopt(s *store) {
	old := m.store
	s.closed = m.closeStore
	s.live.Store(true)
	s.ref()
	m.inUse.Add(1)
	m.stores.Add(1)
	m.store, m.Loaded = s, s.loaded
	m.publish()
	m.watchers.notifyAll()
	m.jobWaiters.wake(math.MaxInt)
	if old != nil {
		old.unref()
	}
}

// closeStore closes a store that is not used any more, and deletes it if another one
// has replaced it.
func (m *Machine) closeStore(s *store) {
	m.inUse.Done()
	go func() {
		defer m.stores.Done()
		if err := s.Close(); err != nil {
			m.opts.Logger.Error("closing the state failed", "state", s.dir, "error", err)
		}
		m.snaps.Discard(s.dir)
	}()
}

// published is a view with its store.
type published struct {
	*view.View
	store *store
}

// View returns the newest view. The caller releases it. It must not be called
// after Close, and panics then.
func (m *Machine) View() *view.View { return m.acquire().View }

// acquire is View with the view's store.
func (m *Machine) acquire() *published {
	for {
		v := m.view.Load()
		if v == nil {
			panic("fsm: View after Close")
		}
		if v.Acquire() {
			return v
		}
	}
}

// Applied returns the index of the newest log entry that the newest view holds.
// It counts commands and configurations, the only entries that reach a state machine.
func (m *Machine) Applied() uint64 { return m.waiters.applied.Load() }

// Covers returns the position in the Raft log up to which the state is complete: that
// of the newest applied log entry, or of a snapshot that ends with entries that Raft
// keeps for itself. It is zero for an empty state.
func (m *Machine) Covers() (index, term uint64, err error) {
	v := m.View()
	defer v.Release()
	p, err := covers(v.Reader())
	return p.Index, p.Term, err
}

// Wait waits until Applied() >= index. It returns ctx's error if ctx ends first, and
// ErrClosed if the machine is closed.
func (m *Machine) Wait(ctx context.Context, index uint64) error { return m.waiters.wait(ctx, index) }

// Digest returns the running hash over everything applied up to index. Equal
// logs give equal digests at equal indexes.
func (m *Machine) Digest() (index uint64, rolling [32]byte) {
	v := m.View()
	defer v.Release()
	return v.Index(), v.Digest()
}

// RestoreOnStart reports whether Raft must restore the newest snapshot when it starts;
// raft.Config.NoSnapshotRestoreOnStart is its opposite. Open ensures that the state
// covers the newest snapshot, so the answer is no unless that could not be verified.
func (m *Machine) RestoreOnStart() bool {
	v := m.View()
	defer v.Release()
	metas := m.snaps.List()
	covered, err := covers(v.Reader())
	return err != nil || len(metas) > 0 && covered.Index < metas[0].Index
}

// DiskSpace returns how many bytes are free for the state, and the size of the
// file system it is on.
func (m *Machine) DiskSpace() (free, size uint64, err error) {
	usage, err := m.opts.FS.GetDiskUsage(m.opts.Dir)
	if err != nil {
		return 0, 0, fmt.Errorf("free space: %w", err)
	}
	return usage.AvailBytes, usage.TotalBytes, nil
}

// publish makes the current state the newest view. The caller holds applyMu.
func (m *Machine) publish() {
	s := m.store
	s.ref()
	v := view.NewView(&s.views, view.Source{
		Rows: &s.Rows, Entries: s.index.Cut(), Profiles: s.profiles.Cut(), At: m.Resident, Fatal: s.fatal, Pace: m.opts.Pace, Released: s.unref,
	})
	old := m.view.Swap(&published{v, s})
	m.waiters.advance(m.Head.Applied)
	if old != nil {
		old.Release()
	}
}

// Close flushes the state to disk and releases it. No entry may be applied meanwhile. It
// waits up to closeGrace for views that are still in use. A full disk is no error:
// unflushed rows are applied again from the log.
func (m *Machine) Close() error {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	if m.closed {
		return nil
	}
	err := m.store.Flush()
	if errors.Is(err, syscall.ENOSPC) {
		m.opts.Logger.Warn("the disk is full: what the state lacks on disk is read from the log at the next start", "error", err)
		err = nil
	}
	return errors.Join(err, m.release())
}

// Abandon releases the state without flushing it, like a crash. No entry may be applied
// meanwhile.
func (m *Machine) Abandon() error {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	if m.closed {
		return nil
	}
	return m.release()
}

// release closes everything without flushing, like a crash, except that files are
// closed. The caller holds applyMu.
func (m *Machine) release() error {
	m.closed = true
	m.waiters.close()
	m.watchers.notifyAll()
	m.jobWaiters.wake(math.MaxInt)
	m.view.Swap(nil).Release()
	m.store.unref()
	released := make(chan struct{})
	go func() {
		m.inUse.Wait()
		close(released)
	}()
	select {
	case <-released:
	case <-time.After(closeGrace):
		return errors.New("close state machine: views are still in use")
	}
	// Pebble finishes the compaction it is at.
	m.stores.Wait()
	m.cache.Unref()
	return nil
}

// ErrClosed means that the machine was closed.
var ErrClosed = errors.New("state machine is closed")

// Open opens the state in opts.Dir, or creates an empty one. It completes or removes
// what a crash left unfinished. snapshot.ErrBehind means that the state must be wiped.
func Open(opts Options) (*Machine, error) {
	m := newMachine(opts)
	st, err := m.snaps.Open()
	if err != nil {
		m.cache.Unref()
		return nil, fmt.Errorf("open state machine: %w", err)
	}
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	st.Adopt()
	return m, nil
}

func newMachine(opts Options) *Machine {
	opts.setDefaults()
	// Pebble takes the memtables' memory out of the cache, so it is made larger by as much.
	cache := pebble.NewCache(opts.CacheBytes + memTablesBeforeStop*opts.MemTableBytes)
	m := &Machine{opts: opts, cache: cache}
	m.snaps = snapshot.New(states{m}, snapshot.Options{
		Dir: opts.Dir, FS: opts.FS, Logger: opts.Logger, Fatal: opts.Fatal, Failpoint: opts.failpoint,
	})
	return m
}

// Format returns the replicated format number.
func (m *Machine) Format() int {
	v := m.View()
	defer v.Release()
	return v.Format()
}
