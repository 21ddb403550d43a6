package offline

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/logstore"
)

// servers is a configuration.
func servers(ids ...raft.ServerID) (c raft.Configuration) {
	for _, id := range ids {
		c.Servers = append(c.Servers, raft.Server{ID: id, Address: raft.ServerAddress(id)})
	}
	return c
}

// change is a log entry with a configuration.
func change(index uint64, ids ...raft.ServerID) *raft.Log {
	return &raft.Log{Index: index, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(servers(ids...))}
}

// TestCheckLog: a node does not start with terms behind its vote, or with a configuration
// that its state does not have, because no log had it.
func TestCheckLog(t *testing.T) {
	one, two, three := change(1, "a"), change(2, "a", "b"), change(3, "a", "b", "c")
	for _, tt := range []struct {
		name           string
		current, voted uint64
		log, applied   []*raft.Log
		snapshot       *raft.SnapshotMeta // may be nil
		problems       []string
	}{
		{name: "a new node"},
		{name: "voted in the current term", current: 7, voted: 7},
		{name: "voted in an older term", current: 7, voted: 5},
		{name: "voted in a newer term", current: 6, voted: 7, problems: []string{"newest term in its log is 6", "vote is of term 7"}},
		{name: "all applied", log: []*raft.Log{one, two}, applied: []*raft.Log{one, two}},
		{name: "not all applied", log: []*raft.Log{one, two, three}, applied: []*raft.Log{one, two}},
		{name: "nothing applied", log: []*raft.Log{one, two}},
		{
			name: "a snapshot without a log", applied: []*raft.Log{one, two},
			snapshot: &raft.SnapshotMeta{Index: 2, ConfigurationIndex: 2, Configuration: servers("a", "b")},
		},
		{
			name: "a change after the snapshot", log: []*raft.Log{one, two, three}, applied: []*raft.Log{one, two, three},
			snapshot: &raft.SnapshotMeta{Index: 2, ConfigurationIndex: 2, Configuration: servers("a", "b")},
		},
		{
			name: "a snapshot with a change that no log had", applied: []*raft.Log{one},
			snapshot: &raft.SnapshotMeta{Index: 2, ConfigurationIndex: 2, Configuration: servers("a", "ghost")},
			problems: []string{"[a ghost] as of entry 2", "[a] as of entry 1"},
		},
		{
			name: "other servers as of the same entry", log: []*raft.Log{one, change(2, "a", "x")}, applied: []*raft.Log{one, two},
			problems: []string{"[a x] as of entry 2", "[a b] as of entry 2"},
		},
		{
			name: "both", current: 1, voted: 2, log: []*raft.Log{change(1, "x")}, applied: []*raft.Log{one},
			problems: []string{"vote is of term 2", "[x] as of entry 1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			machine := must.Get(fsm.Open(fsm.Options{Dir: filepath.Join(dir, StateDir)}))(t)
			log, err := logstore.Open(logstore.Options{Path: filepath.Join(dir, LogFile)})
			must.Do(t, err)
			defer func() {
				check.Err(t, errors.Join(machine.Close(), log.Close()), nil, "error")
			}()
			if err := errors.Join(log.SetUint64(consensus.KeyCurrentTerm, tt.current), log.SetUint64(consensus.KeyLastVoteTerm, tt.voted), log.StoreLogs(tt.log)); err != nil {
				t.Fatal(err)
			}
			if len(tt.applied) > 0 {
				machine.FSM().ApplyBatch(tt.applied)
			}
			if tt.snapshot != nil {
				takeSnapshot(t, machine, tt.snapshot)
			}
			must.Do(t, machine.Close())
			machine = must.Get(fsm.Open(fsm.Options{Dir: filepath.Join(dir, StateDir)}))(t)
			err = CheckLog(dir, machine, log)
			if len(tt.problems) == 0 {
				check.Err(t, err, nil, "start the node")
				return
			}
			if err == nil {
				t.Fatal("the node starts")
			}
			for _, want := range append(tt.problems, dir, "empty the whole directory", "commons recover") {
				check.Contains(t, err.Error(), want, "the error")
			}
		})
	}
}

// takeSnapshot takes a snapshot as Raft does.
func takeSnapshot(t *testing.T, machine *fsm.Machine, meta *raft.SnapshotMeta) {
	t.Helper()
	snapshot := must.Get(machine.FSM().Snapshot())(t)
	defer snapshot.Release()
	sink := must.Get(machine.Snapshots().Create(raft.SnapshotVersionMax, meta.Index, 1, meta.Configuration, meta.ConfigurationIndex, nil))(t)
	must.Do(t, errors.Join(snapshot.Persist(sink), sink.Close()))
}
