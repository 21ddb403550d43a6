package fsm

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// smallTables keep the tests' memory low; Pebble begins below that anyway.
const smallTables = 1 << 20

// openAt opens a machine and closes it with the test.
func openAt(t testing.TB, dir string, change ...func(*Options)) *Machine {
	t.Helper()
	m := must.Get(tryOpenAt(dir, change...))(t)
	t.Cleanup(func() { closeMachine(t, m) })
	return m
}

func tryOpenAt(dir string, change ...func(*Options)) (*Machine, error) {
	opts := Options{Dir: dir, CacheBytes: 1 << 20, MemTableBytes: smallTables}
	for _, f := range change {
		f(&opts)
	}
	return Open(opts)
}

func closeMachine(t testing.TB, m *Machine) {
	t.Helper()
	checkHotRows(t, m)
	check.Err(t, m.Close(), nil, "close")
}

// checkHotRows holds that the rows that are kept in memory are those on disk.
func checkHotRows(t fsmtest.Tester, m *Machine) {
	t.Helper()
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	if !m.closed {
		fsmtest.CheckHotRows(t, &m.store.Rows)
	}
}

// raftLog is a log as Raft keeps it, with indexes from 1 and no gaps.
type raftLog struct {
	t       testing.TB
	entries []raft.Log
	nextSeq map[command.BootID]uint64
	stamp   int64
}

func newLog(t testing.TB) *raftLog {
	l := &raftLog{t: t, nextSeq: make(map[command.BootID]uint64), stamp: 1_700_000_000_000}
	l.add(raft.LogConfiguration, raft.EncodeConfiguration(raft.Configuration{
		Servers: []raft.Server{{Suffrage: raft.Voter, ID: "n1", Address: "n1"}},
	}))
	return l
}

func (l *raftLog) add(kind raft.LogType, data []byte) uint64 {
	index := uint64(len(l.entries)) + 1
	l.entries = append(l.entries, raft.Log{Index: index, Term: 1 + index/100, Type: kind, Data: data})
	return index
}

// batch adds one log entry.
func (l *raftLog) batch(b command.Batch) uint64 {
	l.t.Helper()
	data := must.Get(command.EncodeBatch(b))(l.t)
	return l.add(raft.LogCommand, data)
}

// publish adds a log entry with these commands of one boot, at the next second.
func (l *raftLog) commands(bodies ...command.Payload) uint64 {
	l.t.Helper()
	l.stamp += fsmtest.StampStep
	g := command.Group{Boot: fsmtest.Boot1}
	for _, b := range bodies {
		l.nextSeq[fsmtest.Boot1]++
		g.Commands = append(g.Commands, command.Command{Seq: l.nextSeq[fsmtest.Boot1], Payload: b})
	}
	return l.batch(command.Batch{Stamp: l.stamp, Groups: []command.Group{g}})
}

// feed applies the log entries from index first up to last, like Raft: through
// ApplyBatch, without the entries that are Raft's own.
func (l *raftLog) feed(m *Machine, first, last uint64) {
	l.t.Helper()
	var logs []*raft.Log
	for i := first; i <= last; i++ {
		if e := &l.entries[i-1]; e.Type == raft.LogCommand || e.Type == raft.LogConfiguration {
			logs = append(logs, e)
		}
	}
	if len(logs) == 0 {
		return
	}
	must.Equal(l.t, len(m.FSM().ApplyBatch(logs)), len(logs), "responses")
}

func (l *raftLog) last() uint64 { return uint64(len(l.entries)) }

// rig is a machine with a log and short ways to use both.
type rig struct {
	fsmtest.Hand
	*Machine
	log *raftLog
	obs *recorder
}

func newRig(t testing.TB) *rig {
	obs := &recorder{}
	m := openAt(t, t.TempDir(), func(o *Options) { o.Observer, o.DeliveriesEnded = obs, obs.ends })
	r := rigOf(t, newLog(t), obs, m)
	r.log.feed(m, 1, 1)
	return r
}

func rigOf(t testing.TB, log *raftLog, obs *recorder, m *Machine) *rig {
	r := &rig{Machine: m, log: log, obs: obs}
	r.Hand = fsmtest.Hand{T: t, State: r}
	return r
}

// recorder is an Observer that records its calls.
type recorder struct {
	got   []apply.Answered
	ended []outbox.DeliveryEnd
}

func (o *recorder) ends(ended []outbox.DeliveryEnd) { o.ended = append(o.ended, ended...) }

func (o *recorder) Applied(boot command.BootID, seq uint64, r command.Result, index uint64) {
	o.got = append(o.got, apply.Answered{Boot: boot, Seq: seq, Index: index, Res: r})
}

// Run applies the bodies in one log entry and returns their results.
func (r *rig) Run(bodies ...command.Payload) []command.Result {
	r.T.Helper()
	before := len(r.obs.got)
	index := r.log.commands(bodies...)
	r.log.feed(r.Machine, index, index)
	var out []command.Result
	for _, a := range r.obs.got[before:] {
		out = append(out, a.Res)
	}
	must.Equal(r.T, len(out), len(bodies), "results")
	return out
}

func (r *rig) Clock() *int64 { return &r.log.stamp }

// takeSnapshot does what Raft does when it takes a snapshot at an index.
func takeSnapshot(m *Machine, index, term uint64) error {
	snap, err := m.FSM().Snapshot()
	if err != nil {
		return err
	}
	defer snap.Release()
	sink, err := m.Snapshots().Create(raft.SnapshotVersionMax, index, term, testConfiguration, 1, nil)
	if err != nil {
		return err
	}
	if err := snap.Persist(sink); err != nil {
		return fmt.Errorf("%w (cancel: %w)", err, sink.Cancel())
	}
	return sink.Close()
}

var testConfiguration = raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: "n1", Address: "n1"}}}

// send does what Raft does on a leader: the newest snapshot's metadata and bytes.
func send(m *Machine) (*raft.SnapshotMeta, []byte, error) {
	metas, err := m.Snapshots().List()
	if err != nil || len(metas) == 0 {
		return nil, nil, fmt.Errorf("no snapshot to send: %w", err)
	}
	meta, stream, err := m.Snapshots().Open(metas[0].ID)
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(stream)
	if err != nil {
		return nil, nil, err
	}
	return meta, data, stream.Close()
}

// receive does what Raft does on a follower that is sent a snapshot.
func receive(m *Machine, meta *raft.SnapshotMeta, data []byte) error {
	id, err := take(m, meta, data)
	if err != nil {
		return err
	}
	_, source, err := m.Snapshots().Open(id)
	if err != nil {
		return err
	}
	defer source.Close()
	return m.FSM().Restore(source)
}

// take receives a snapshot and does not install it.
func take(m *Machine, meta *raft.SnapshotMeta, data []byte) (id string, err error) {
	sink, err := m.Snapshots().Create(meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex, nil)
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(sink, bytes.NewReader(data)); err != nil {
		return "", fmt.Errorf("%w (cancel: %w)", err, sink.Cancel())
	}
	return sink.ID(), sink.Close()
}

// copyDir copies a state's directory.
func copyDir(t testing.TB, to, from string) {
	t.Helper()
	must.Do(t, os.CopyFS(to, os.DirFS(from)))
}

// receivedDir returns the name of the state that CURRENT does not name.
func receivedDir(t testing.TB, dir string) string {
	t.Helper()
	current := must.Get(os.ReadFile(filepath.Join(dir, currentFile)))(t)
	for _, name := range fileNames(t, dir) {
		if strings.HasPrefix(name, dbPrefix) && name+"\n" != string(current) {
			return name
		}
	}
	t.Fatal("there is no received state")
	return ""
}

// damageTables changes every table of a state.
func damageTables(t testing.TB, dir, name string, damage func([]byte) []byte) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, name, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables to damage: %v", err)
	}
	for _, path := range tables {
		data := must.Get(os.ReadFile(path))(t)
		must.Do(t, os.WriteFile(path, damage(data), 0o600))
	}
}

// The names below a state's directory.
const (
	currentFile    = "CURRENT"
	dbPrefix       = "db-"
	outgoingPrefix = "outgoing-"
	snapshotDir    = "snapshots"
)

// fileNames lists a directory.
func fileNames(t testing.TB, dir string) []string {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
