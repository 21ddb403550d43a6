package fsm

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/snapshot"
)

// FSM returns the machine as Raft drives it.
func (m *Machine) FSM() raft.BatchingFSM { return raftFSM{m} }

// Snapshots returns the machine's snapshots as Raft asks for them.
func (m *Machine) Snapshots() raft.SnapshotStore { return m.snaps.ForRaft() }

// raftFSM is the machine in Raft's terms. Raft calls it from one goroutine.
type raftFSM struct{ m *Machine }

// Apply applies one log entry. Commands are answered through the Observer, so
// there is no response.
func (f raftFSM) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch applies log entries in order.
func (f raftFSM) ApplyBatch(logs []*raft.Log) []any {
	entries := make([]apply.LogEntry, 0, len(logs))
	for _, l := range logs {
		switch l.Type {
		case raft.LogCommand, raft.LogConfiguration:
			entries = append(entries, apply.LogEntry{
				Index: l.Index, Term: l.Term, Data: l.Data,
				Configuration: l.Type == raft.LogConfiguration,
			})
		}
	}
	f.m.applyAll(entries)
	return make([]any, len(logs))
}

// Snapshot begins a snapshot of everything that was applied.
func (f raftFSM) Snapshot() (raft.FSMSnapshot, error) { return raftSnapshot{f.m.acquire()}, nil }

// Restore makes a received snapshot the live state. Views of the old state stay valid.
func (f raftFSM) Restore(r io.ReadCloser) error {
	f.m.applyMu.Lock()
	defer f.m.applyMu.Unlock()
	err := f.m.snaps.Restore(r)
	if errors.Is(err, command.ErrNewerFormat) {
		f.m.opts.Fatal(err) // the leader would send it again and again
	}
	return err
}

// raftSnapshot holds the state's database open until the snapshot is taken.
type raftSnapshot struct{ view *published }

// Persist makes the state durable up to the sink's position.
func (s raftSnapshot) Persist(sink raft.SnapshotSink) error {
	k, ok := sink.(*snapshot.Sink)
	if !ok {
		return fmt.Errorf("persist snapshot: a sink of another store: %T", sink)
	}
	return k.Persist(s.view.store)
}

// Release releases the view.
func (s raftSnapshot) Release() { s.view.Release() }
