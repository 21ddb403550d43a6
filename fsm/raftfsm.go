package fsm

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// FSM returns the machine as Raft drives it.
func (m *Machine) FSM() raft.BatchingFSM { return raftFSM{m} }

// Snapshots returns the machine's snapshots as Raft asks for them.
func (m *Machine) Snapshots() raft.SnapshotStore { return raftSnapshots{&m.snaps} }

// raftFSM is the machine in Raft's terms. Raft calls it from one goroutine.
type raftFSM struct{ m *Machine }

// Apply applies one log entry. Commands are answered through the Observer, so
// there is no response.
func (f raftFSM) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch applies log entries in order.
func (f raftFSM) ApplyBatch(logs []*raft.Log) []any {
	entries := make([]logEntry, 0, len(logs))
	for _, l := range logs {
		switch l.Type {
		case raft.LogCommand, raft.LogConfiguration:
			entries = append(entries, logEntry{
				index: l.Index, term: l.Term, data: l.Data,
				configuration: l.Type == raft.LogConfiguration,
			})
		}
	}
	for len(entries) > 0 {
		n := f.m.captures.next(entries)
		f.m.apply(entries[:n])
		f.m.captures.serve(f.m)
		entries = entries[n:]
	}
	return make([]any, len(logs))
}

// Snapshot begins a snapshot of everything that was applied.
func (f raftFSM) Snapshot() (raft.FSMSnapshot, error) { return raftSnapshot{f.m.View()}, nil }

// Restore makes a received snapshot the live state.
func (f raftFSM) Restore(r io.ReadCloser) error { return f.m.restore(r) }

// raftSnapshot holds the state's database open until the snapshot is taken.
type raftSnapshot struct{ view *View }

// Persist makes the state durable up to the sink's position.
func (s raftSnapshot) Persist(sink raft.SnapshotSink) error {
	k, ok := sink.(*snapshotSink)
	if !ok {
		return fmt.Errorf("persist snapshot: a sink of another store: %T", sink)
	}
	return k.persist(s.view.store)
}

// Release gives the database back.
func (s raftSnapshot) Release() { s.view.Release() }

// raftSnapshots is the snapshot store in Raft's terms.
type raftSnapshots struct{ s *snapshots }

// Create begins a snapshot.
func (r raftSnapshots) Create(version raft.SnapshotVersion, index, term uint64,
	config raft.Configuration, configIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("create snapshot: version %d of the metadata is unknown", version)
	}
	return r.s.create(snapshotMeta{
		Version: int(version), Index: index, Term: term,
		Configuration: raft.EncodeConfiguration(config), ConfigurationIndex: configIndex,
	}), nil
}

// List returns the snapshots, newest first.
func (r raftSnapshots) List() ([]*raft.SnapshotMeta, error) {
	metas := r.s.list()
	out := make([]*raft.SnapshotMeta, len(metas))
	for i := range metas {
		out[i] = raftMeta(&metas[i])
	}
	return out, nil
}

// Open returns the stream of a snapshot. It is of the state as it is now, and so
// is the metadata.
func (r raftSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, stream, err := r.s.open(id)
	if err != nil {
		return nil, nil, err
	}
	return raftMeta(&meta), stream, nil
}

func raftMeta(m *snapshotMeta) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: raft.SnapshotVersion(m.Version), ID: m.ID, Index: m.Index, Term: m.Term, Size: m.Size,
		Configuration: raft.DecodeConfiguration(m.Configuration), ConfigurationIndex: m.ConfigurationIndex,
	}
}
