package fsm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
)

// The steps at which a crash leaves something half done. Tests stop at each.
const (
	stepUnpacked  = "the state is unpacked"
	stepPlaced    = "the state has its name"
	stepReceived  = "the metadata of the received state is written"
	stepOpened    = "the received state is open"
	stepSwapped   = "CURRENT names the received state"
	stepKept      = "the state that is kept instead of a received one is flushed"
	stepForgotten = "the metadata do not name the received state any more"
	stepCovered   = "the covered position is flushed"
	stepPersisted = "the metadata of a snapshot taken here is written"
)

// snapshots keeps the snapshots' metadata, and moves states in and out.
type snapshots struct {
	m   *Machine
	dir string // Options.Dir

	mu      sync.Mutex
	next    uint64         // number of the next directory or snapshot
	metas   []snapshotMeta // newest first, without the pending one
	pending *snapshotMeta  // received and not yet restored
	streams int            // states that are being sent
	exports int            // states that are being exported
}

func (s *snapshots) init(m *Machine) { s.m, s.dir, s.next = m, m.opts.Dir, 1 }

func (s *snapshots) path(name string) string { return filepath.Join(s.dir, name) }

func (s *snapshots) metaPath(id string) string {
	return filepath.Join(s.dir, snapshotDir, id+snapshotSuffix)
}

// number returns a number that was not used before. The caller holds mu.
func (s *snapshots) number() uint64 {
	s.next++
	return s.next - 1
}

// boot opens the live state, finishing an installation that a crash interrupted
// and removing what else it left.
func (s *snapshots) boot() (loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(s.path(snapshotDir), 0o755); err != nil {
		return loaded{}, fmt.Errorf("make state directory: %w", err)
	}
	metas, err := loadSnapshotMetas(s.path(snapshotDir))
	if err != nil {
		return loaded{}, err
	}
	s.metas = metas
	current, err := s.readCurrent()
	if err != nil {
		return loaded{}, err
	}
	live, err := openStore(&s.m.opts, s.m.cache, s.path(current), current)
	if err != nil {
		return loaded{}, err
	}
	next, err := s.chooseState(live)
	if err != nil {
		return loaded{}, errors.Join(err, live.close())
	}
	if err := s.sweep(next.store.dir); err != nil {
		return loaded{}, errors.Join(err, next.store.close())
	}
	return next, nil
}

// chooseState returns the live state, or a received one whose installation a
// crash interrupted. It refuses a state that is older than the newest snapshot:
// Raft's log need not hold what lies between.
func (s *snapshots) chooseState(live *store) (loaded, error) {
	covered, err := covers(live.db)
	if err != nil {
		return loaded{}, err
	}
	if len(s.metas) == 0 || s.metas[0].Index <= covered.index {
		return s.m.load(live)
	}
	if newest := s.metas[0]; newest.Received != "" && newest.Received != live.dir && s.has(newest.Received) {
		next, err := s.m.prepare(&newest)
		if err == nil {
			if err := s.setCurrent(newest.Received); err != nil {
				return loaded{}, errors.Join(err, next.store.close())
			}
			s.m.opts.Logger.Info("finished an interrupted snapshot installation", "index", newest.Index)
			if err := live.close(); err != nil {
				s.m.opts.Logger.Warn("closing the replaced state failed", "error", err)
			}
			return next, nil
		}
		// Raft has not relied on it yet.
		s.m.opts.Logger.Warn("dropped a received snapshot that does not open", "index", newest.Index, "error", err)
		if err := removeFile(s.metaPath(newest.ID)); err != nil {
			return loaded{}, err
		}
		s.metas = s.metas[1:]
		return s.chooseState(live)
	}
	return loaded{}, fmt.Errorf("%w: the state holds everything up to %d, the snapshot is of %d; wipe this node's data, the others bring it up to date",
		ErrBehind, covered.index, s.metas[0].Index)
}

// has reports whether there is a directory of the name. One that is named by
// metadata is only missing when somebody removed it: Raft may rely on it.
func (s *snapshots) has(name string) bool {
	_, err := os.Stat(s.path(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// readCurrent returns the name of the live state's directory. In a new directory
// it names one that Pebble will make.
func (s *snapshots) readCurrent() (string, error) {
	names, err := os.ReadDir(s.dir)
	if err != nil {
		return "", fmt.Errorf("read state directory: %w", err)
	}
	states := false
	for _, n := range names {
		s.next = max(s.next, numberOf(n.Name())+1)
		states = states || strings.HasPrefix(n.Name(), dbPrefix)
	}
	for _, meta := range s.metas {
		s.next = max(s.next, numberOf(meta.ID)+1)
	}
	data, err := os.ReadFile(s.path(currentFile))
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
	name := fmt.Sprintf("%s%010d", dbPrefix, s.number())
	return name, s.setCurrent(name)
}

// setCurrent makes a directory the live state's. Whoever opens the state from
// now on finds it there.
func (s *snapshots) setCurrent(name string) error {
	return writeFileAtomic(s.path(currentFile), []byte(name+"\n"))
}

// openReceived opens a received state and checks that it is the announced one.
func (s *snapshots) openReceived(meta *snapshotMeta) (*store, error) {
	if _, err := os.Stat(s.path(meta.Received)); err != nil {
		return nil, fmt.Errorf("open received state: %w", err)
	}
	st, err := openStore(&s.m.opts, s.m.cache, s.path(meta.Received), meta.Received)
	if err != nil {
		return nil, err
	}
	got, err := covers(st.db)
	if err == nil && got != (position{meta.Index, meta.Term}) {
		err = fmt.Errorf("%w: received state is at %v, announced was %d of term %d", ErrCorrupt, got, meta.Index, meta.Term)
	}
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

// sweep removes what a crash left behind.
func (s *snapshots) sweep(current string) error {
	names, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("read state directory: %w", err)
	}
	for _, n := range names {
		name := n.Name()
		leftover := strings.HasPrefix(name, dbPrefix) && name != current ||
			strings.HasPrefix(name, incomingPrefix) || strings.HasPrefix(name, outgoingPrefix) ||
			strings.HasSuffix(name, tempSuffix)
		if !leftover {
			continue
		}
		if err := os.RemoveAll(s.path(name)); err != nil {
			return fmt.Errorf("remove leftover %s: %w", name, err)
		}
	}
	return s.sweepMetas()
}

// sweepMetas keeps the newest metadata only.
func (s *snapshots) sweepMetas() error {
	s.metas = s.metas[:min(len(s.metas), keptSnapshots)]
	kept := make(map[string]bool, len(s.metas)+1)
	for _, meta := range s.metas {
		kept[meta.ID+snapshotSuffix] = true
	}
	if s.pending != nil {
		kept[s.pending.ID+snapshotSuffix] = true
	}
	names, err := os.ReadDir(s.path(snapshotDir))
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	for _, n := range names {
		if kept[n.Name()] {
			continue
		}
		if err := removeFile(filepath.Join(s.path(snapshotDir), n.Name())); err != nil {
			return err
		}
	}
	return nil
}

// discard removes a directory whose state was replaced.
func (s *snapshots) discard(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := os.ReadFile(s.path(currentFile))
	if err != nil || strings.TrimSuffix(string(data), "\n") == name {
		return
	}
	if err := os.RemoveAll(s.path(name)); err != nil {
		s.m.opts.Logger.Warn("removing a replaced state failed", "state", name, "error", err)
	}
}
