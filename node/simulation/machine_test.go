package simulation

import (
	"bytes"
	"encoding/gob"
	"errors"
	"hash/fnv"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// position is the state of a machine: the index of the newest entry, and a digest of all.
type position struct {
	Index, Digest uint64
}

// machine is a state machine that keeps a digest of its entries, and reports each
// position.
type machine struct {
	mu     sync.Mutex
	at     position
	report func(position, *raft.Log)
}

func (m *machine) Apply(entry *raft.Log) any { return m.ApplyBatch([]*raft.Log{entry})[0] }

func (m *machine) ApplyBatch(entries []*raft.Log) []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, entry := range entries {
		sum := fnv.New64a()
		_ = gob.NewEncoder(sum).Encode([]any{m.at.Digest, entry.Index, entry.Term, uint8(entry.Type), entry.Data}) // cannot fail
		m.at = position{entry.Index, sum.Sum64()}
		m.report(m.at, entry)
	}
	return make([]any, len(entries))
}

func (m *machine) position() position {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// Snapshot implements raft.FSM.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) { return m.position(), nil }

// Persist implements raft.FSMSnapshot.
func (p position) Persist(to raft.SnapshotSink) error {
	return errors.Join(gob.NewEncoder(to).Encode(p), to.Close())
}

func (position) Release() {}

// Restore implements raft.FSM.
func (m *machine) Restore(from io.ReadCloser) error {
	var at position
	if err := errors.Join(gob.NewDecoder(from).Decode(&at), from.Close()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = at
	m.report(at, nil)
	return nil
}

// snapshots keeps the newest complete snapshot. It outlives crashes.
type snapshots struct {
	mu     sync.Mutex
	newest *sink
}

// sink is one snapshot.
type sink struct {
	bytes.Buffer

	store *snapshots
	disk  *disk
	meta  raft.SnapshotMeta
}

// snapshotsOn are the snapshots as a node with a disk writes them.
type snapshotsOn struct {
	*snapshots

	disk *disk
}

func (s snapshotsOn) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &sink{store: s.snapshots, disk: s.disk, meta: raft.SnapshotMeta{
		Version: version, ID: "newest", Index: index, Term: term, Configuration: configuration, ConfigurationIndex: configurationIndex,
	}}, nil
}

func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		return nil, nil
	}
	meta := s.newest.meta
	return []*raft.SnapshotMeta{&meta}, nil
}

func (s *snapshots) Open(string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		return nil, nil, errors.New("there is no snapshot")
	}
	meta := s.newest.meta
	meta.Size = int64(s.newest.Len())
	return &meta, io.NopCloser(bytes.NewReader(s.newest.Bytes())), nil
}

func (s *sink) ID() string    { return s.meta.ID }
func (s *sink) Cancel() error { return nil }

func (s *sink) Close() error {
	if s.disk.off.Load() {
		return errPowerOff
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.newest = s
	return nil
}
