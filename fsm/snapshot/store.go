// Package snapshot manages the directory of a state machine: which state in it is the
// live one, the metadata of snapshots, and the streams that carry states to other nodes
// and into backups. It uses the state machine through a small interface. It never reads
// or writes a row, and only raft.go uses Raft's types.
package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The names below Options.Dir:
//
//	CURRENT             the name of the directory with the live state
//	db-N                a state; those that CURRENT does not name are leftovers, or
//	                    received and about to become the live one
//	incoming-N          a state that is being received
//	outgoing-N          a state that is being sent
//	snapshots/ID.json   metadata of a snapshot
const (
	currentFile    = "CURRENT"
	dbPrefix       = "db-"
	incomingPrefix = "incoming-"
	outgoingPrefix = "outgoing-"
	snapshotDir    = "snapshots"
	snapshotSuffix = ".json"
	tempSuffix     = ".tmp"
)

// The steps at which a crash leaves unfinished work. Tests stop at each.
const (
	StepReceived  = "the metadata of the received state is written"
	StepKept      = "the state that is kept instead of a received one is flushed"
	StepForgotten = "the metadata do not name the received state any more"
	StepCovered   = "the covered position is flushed"
	StepPersisted = "the metadata of a snapshot taken here is written"
)

// The errors that callers distinguish.
var (
	// ErrCorrupt means that stored or received bytes are not what was written.
	ErrCorrupt = errors.New("corrupt data")
	// ErrNoSpace means that the disk has no room for a snapshot.
	ErrNoSpace = errors.New("not enough free space")
	// ErrBehind means that the state on disk is older than the newest snapshot, because
	// files were lost or replaced by older copies: wipe the node's data, and it gets the
	// state again.
	ErrBehind = errors.New("state is older than its own snapshot")
	// ErrExporting is returned by Export while another export is open.
	ErrExporting = errors.New("another export is under way")
)

// Position is an index and term of the Raft log.
type Position struct{ Index, Term uint64 }

// State is an open state.
type State interface {
	// Name is the name of its directory below Options.Dir.
	Name() string
	// Covers returns the position up to which it is complete.
	Covers() (Position, error)
	// Cover records that it is complete up to a position. The next Flush makes it durable.
	Cover(Position) error
	// Flush makes everything written so far durable.
	Flush() error
	// Checkpoint links the state as it is on disk, without unflushed writes.
	Checkpoint(path string) error
	// Size is its approximate size on disk in bytes.
	Size() int64
	// Load reads the parts of the state that are kept in memory, so that Adopt cannot fail.
	Load() error
	// Adopt makes it the live state. The caller holds the lock that serializes apply.
	Adopt()
	// Live reports whether it is the live state.
	Live() bool
	// Close closes it without flushing.
	Close() error
}

// Machine is the state machine, as a Store uses it.
type Machine interface {
	// OpenState opens the state in a directory, or creates an empty one there.
	OpenState(path, name string) (State, error)
	// LiveState returns the live state. It stays open until release is called.
	LiveState() (s State, release func())
	// ReadCheckpoint returns the contents of a checkpoint, which may include later writes.
	ReadCheckpoint(path string) (Contents, error)
}

// Contents is the position of a state, and the newest configuration in it.
type Contents struct {
	Position
	Configuration      []byte // in Raft's encoding
	ConfigurationIndex uint64 // 0 if the state has no configuration yet
}

// Options configure a Store.
type Options struct {
	// Dir is made when missing.
	Dir    string
	FS     vfs.FS // the file system of Dir
	Logger *slog.Logger
	// Fatal is called when the directory is damaged so that the process cannot continue.
	Fatal func(error)
	// Failpoint is called at each step.
	Failpoint func(step string)
}

// Store keeps the snapshots' metadata, and receives and sends states.
type Store struct {
	Options
	machine Machine

	mu      sync.Mutex
	next    uint64 // number of the next directory or snapshot
	metas   []Meta // newest first, without the pending one
	pending *Meta  // received and not yet restored
	streams int    // states that are being sent
	exports int    // states that are being exported
}

// New returns the store of a directory. Open or Import must follow.
func New(m Machine, opts Options) *Store { return &Store{Options: opts, machine: m, next: 1} }

func (s *Store) path(name string) string { return filepath.Join(s.Dir, name) }

func (s *Store) metaPath(id string) string {
	return filepath.Join(s.Dir, snapshotDir, id+snapshotSuffix)
}

// number returns a number that was not used before. The caller holds mu.
func (s *Store) number() uint64 {
	s.next++
	return s.next - 1
}

// numbered is the name of a directory.
func numbered(prefix string, number uint64) string { return fmt.Sprintf("%s%010d", prefix, number) }

// List returns the snapshots' metadata, newest first.
func (s *Store) List() []Meta {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.metas)
}

// Open opens and loads the live state, or an empty one. It finishes or removes the
// unfinished work of a crash. ErrBehind means that the state must be wiped.
func (s *Store) Open() (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.FS.MkdirAll(s.path(snapshotDir), 0o755); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	metas, err := s.loadMetas()
	if err != nil {
		return nil, err
	}
	s.metas = metas
	current, err := s.readCurrent()
	if err != nil {
		return nil, err
	}
	live, err := s.machine.OpenState(s.path(current), current)
	if err != nil {
		return nil, err
	}
	next, err := s.chooseState(live)
	if err != nil {
		return nil, errors.Join(err, live.Close())
	}
	if err := s.sweep(next.Name()); err != nil {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// chooseState returns the live state, or a received one whose installation a
// crash interrupted. It rejects a state that is older than the newest snapshot:
// Raft's log need not hold what is between them.
func (s *Store) chooseState(live State) (State, error) {
	covered, err := live.Covers()
	if err != nil {
		return nil, err
	}
	if len(s.metas) == 0 || s.metas[0].Index <= covered.Index {
		return live, live.Load()
	}
	if newest := s.metas[0]; newest.Received != "" && newest.Received != live.Name() && s.has(newest.Received) {
		next, err := s.openReceived(&newest)
		if err == nil {
			if err := s.setCurrent(newest.Received); err != nil {
				return nil, errors.Join(err, next.Close())
			}
			s.Logger.Info("finished an interrupted snapshot installation", "index", newest.Index)
			if err := live.Close(); err != nil {
				s.Logger.Warn("closing the replaced state failed", "error", err)
			}
			return next, nil
		}
		// Raft has not relied on it yet.
		s.Logger.Warn("dropped a received snapshot that does not open", "index", newest.Index, "error", err)
		if err := s.removeMeta(newest.ID); err != nil {
			return nil, err
		}
		s.metas = s.metas[1:]
		return s.chooseState(live)
	}
	return nil, fmt.Errorf("%w: the state holds everything up to %d, the snapshot is of %d; wipe this node's data, the others bring it up to date",
		ErrBehind, covered.Index, s.metas[0].Index)
}

// has reports whether there is a directory with the name. One that metadata names is
// only missing if somebody removed it; Raft may rely on it.
func (s *Store) has(name string) bool {
	_, err := s.FS.Stat(s.path(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// readCurrent returns the name of the live state's directory, or a new name for Pebble to
// create.
func (s *Store) readCurrent() (string, error) {
	names, err := s.FS.List(s.Dir)
	if err != nil {
		return "", fmt.Errorf("read state directory: %w", err)
	}
	states := false
	for _, n := range names {
		s.next = max(s.next, numberOf(n)+1)
		states = states || strings.HasPrefix(n, dbPrefix)
	}
	for _, meta := range s.metas {
		s.next = max(s.next, numberOf(meta.ID)+1)
	}
	data, err := s.readFile(s.path(currentFile))
	switch {
	case err == nil:
		name := strings.TrimSuffix(string(data), "\n")
		if !strings.HasPrefix(name, dbPrefix) || !validFile.MatchString(name) {
			return "", fmt.Errorf("%w: %s names %q", ErrCorrupt, currentFile, name)
		}
		return name, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read state directory: %w", err)
	case states || len(s.metas) > 0:
		return "", fmt.Errorf("%w: %s is missing beside a state", ErrCorrupt, currentFile)
	}
	name := numbered(dbPrefix, s.number())
	return name, s.setCurrent(name)
}

// setCurrent makes a directory the live state's, also for every later Open.
func (s *Store) setCurrent(name string) error {
	return s.writeFileAtomic(s.path(currentFile), []byte(name+"\n"))
}

// openReceived opens and loads a received state, and checks its announced position.
func (s *Store) openReceived(meta *Meta) (State, error) {
	if _, err := s.FS.Stat(s.path(meta.Received)); err != nil {
		return nil, fmt.Errorf("open received state: %w", err)
	}
	st, err := s.machine.OpenState(s.path(meta.Received), meta.Received)
	if err != nil {
		return nil, err
	}
	got, err := st.Covers()
	if err == nil && got != (Position{meta.Index, meta.Term}) {
		err = fmt.Errorf("%w: received state is at %v, announced was %d of term %d", ErrCorrupt, got, meta.Index, meta.Term)
	}
	if err == nil {
		err = st.Load()
	}
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return st, nil
}

// IsState reports whether a directory of this name holds a state, or a part of one.
func IsState(name string) bool {
	return strings.HasPrefix(name, dbPrefix) || strings.HasPrefix(name, incomingPrefix) || strings.HasPrefix(name, outgoingPrefix)
}

// sweep removes what a crash left behind.
func (s *Store) sweep(current string) error {
	names, err := s.FS.List(s.Dir)
	if err != nil {
		return fmt.Errorf("read state directory: %w", err)
	}
	for _, name := range names {
		if name == current || !IsState(name) && !strings.HasSuffix(name, tempSuffix) {
			continue
		}
		if err := s.FS.RemoveAll(s.path(name)); err != nil {
			return fmt.Errorf("remove leftover %s: %w", name, err)
		}
	}
	return s.sweepMetas()
}

// sweepMetas keeps the newest metadata only.
func (s *Store) sweepMetas() error {
	s.metas = s.metas[:min(len(s.metas), Kept)]
	kept := make(map[string]bool, len(s.metas)+1)
	for _, meta := range s.metas {
		kept[meta.ID+snapshotSuffix] = true
	}
	if s.pending != nil {
		kept[s.pending.ID+snapshotSuffix] = true
	}
	names, err := s.FS.List(s.path(snapshotDir))
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	for _, n := range names {
		if kept[n] {
			continue
		}
		if err := s.removeFile(filepath.Join(s.path(snapshotDir), n)); err != nil {
			return err
		}
	}
	return nil
}

// Discard removes the directory of a closed state if another state has replaced it.
func (s *Store) Discard(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := s.readFile(s.path(currentFile))
	if err != nil || strings.TrimSuffix(string(data), "\n") == name {
		return
	}
	if err := s.FS.RemoveAll(s.path(name)); err != nil {
		s.Logger.Warn("removing a replaced state failed", "state", name, "error", err)
	}
}
