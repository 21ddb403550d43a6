package fsm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// tester has the methods that testing and rapid share.
type tester interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

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
func checkHotRows(t tester, m *Machine) {
	t.Helper()
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	for i := range m.store.Hot.Slots {
		r := m.store.Hot.Slots[i].Load()
		if m.closed || r == nil {
			continue
		}
		row, ok, err := state.GetRow(m.store.DB, []byte(r.Key))
		if err != nil || ok != (r.Row != nil) || !bytes.Equal(row, r.Row) {
			t.Errorf("row %x is kept as %x, and is %x %v %v", r.Key, r.Row, row, ok, err)
		}
	}
}

// stampStep is the time between two log entries, in milliseconds.
const stampStep = 1000

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

var boot1 = command.BootID{1}

// publish adds a log entry with these commands of one boot, at the next second.
func (l *raftLog) commands(bodies ...command.Payload) uint64 {
	l.t.Helper()
	l.stamp += stampStep
	g := command.Group{Boot: boot1}
	for _, b := range bodies {
		l.nextSeq[boot1]++
		g.Commands = append(g.Commands, command.Command{Seq: l.nextSeq[boot1], Payload: b})
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
	if got := m.FSM().ApplyBatch(logs); len(got) != len(logs) {
		l.t.Fatalf("%d responses to %d log entries", len(got), len(logs))
	}
}

func (l *raftLog) last() uint64 { return uint64(len(l.entries)) }

// rig is a machine with a log and short ways to use both.
type rig struct {
	t testing.TB
	*Machine
	log *raftLog
	obs *recorder
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, log: newLog(t), obs: &recorder{}}
	r.Machine = openAt(t, t.TempDir(), func(o *Options) { o.Observer, o.DeliveriesEnded = r.obs, r.obs.ends })
	r.log.feed(r.Machine, 1, 1)
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

// run applies the bodies in one log entry and returns their results.
func (r *rig) run(bodies ...command.Payload) []command.Result {
	r.t.Helper()
	before := len(r.obs.got)
	index := r.log.commands(bodies...)
	r.log.feed(r.Machine, index, index)
	var out []command.Result
	for _, a := range r.obs.got[before:] {
		out = append(out, a.Res)
	}
	if len(out) != len(bodies) {
		r.t.Fatalf("%d results of %d commands", len(out), len(bodies))
	}
	return out
}

// expect ends the test if a result has another outcome than want. The format describes the
// command.
func expect(t tester, got command.Result, want command.Outcome, format string, args ...any) {
	t.Helper()
	if got.Outcome != want {
		t.Fatalf("%s: %+v, want outcome %d", fmt.Sprintf(format, args...), got, want)
	}
}

// expectProblem ends the test if a result has other problems than want alone.
func expectProblem(t tester, got command.Result, want command.Problem, format string, args ...any) {
	t.Helper()
	if !slices.Equal(got.Problems, []command.Problem{want}) {
		t.Fatalf("%s: %+v, want problem %d", fmt.Sprintf(format, args...), got, want)
	}
}

// publish applies one entry and returns its seq.
func (r *rig) publish(change func(*command.Publish)) uint64 {
	r.t.Helper()
	res := r.run(post("ada", change))[0]
	must.Equal(r.t, res.Outcome, command.OutcomeDone, "publish: %+v", res)
	return res.Entry
}

// post is a plain entry by an agent.
func post(agent string, change func(*command.Publish)) *command.Publish {
	p := &command.Publish{Agent: agent, AgentKey: agent, Kind: command.KindMessage, Title: "A title", Body: "Some body text."}
	if change != nil {
		change(p)
	}
	return p
}

// relate makes an entry relate to another one.
func relate(r command.Relation, target uint64) func(*command.Publish) {
	return func(p *command.Publish) { p.Relation, p.Target = r, state.EntryID(target) }
}

// entryDoc is an entry's JSON as a client reads it.
type entryDoc struct {
	ID           string `json:"id"`
	Kind         string `json:"kind"`
	Channel      string `json:"channel"`
	Agent        string `json:"agent"`
	Title        string `json:"title"`
	Body         string `json:"body"`
	Tags         []string
	CreatedAt    int64   `json:"createdAt"`
	Supersedes   *string `json:"supersedes"`
	Relation     *string `json:"relation"`
	NameVerified bool    `json:"nameVerified"`
	House        bool    `json:"house"`
	SupersededBy []struct {
		ID, Agent, Relation string
		CreatedAt           int64
		NameVerified        bool
	} `json:"supersededBy"`
	SupersededByCount int    `json:"supersededByCount"`
	Status            string `json:"status"`
	LooksLike         string `json:"looksLike"`
	Hidden            *struct {
		At              int64
		Reason          string
		Purged, Expired bool
	} `json:"hidden"`
}

func readEntry(t tester, v *view.View, seq uint64) (entryDoc, string) {
	t.Helper()
	raw, err := v.AppendEntry(nil, seq)
	if err != nil {
		t.Fatalf("entry %d: %v", seq, err)
	}
	var doc entryDoc
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("entry %d: %v: %s", seq, err, raw)
	}
	return doc, string(raw)
}

func (r *rig) read(seq uint64) (entryDoc, string) {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	return readEntry(r.t, v, seq)
}

func (r *rig) list(q view.Query) []uint64 {
	r.t.Helper()
	v := r.View()
	defer v.Release()
	seqs, _, err := v.List(q)
	if err != nil {
		r.t.Fatal(err)
	}
	return seqs
}

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

// helpStatus returns the state of the request for human help with the given seq; false when
// the entry is not one.
func helpStatus(v *view.View, seq uint64) (state.HelpStatus, bool, error) {
	h, ok, err := state.Load(v.Reader(), state.SeqKey(state.SpaceHelp, seq), state.Decode[state.HelpRow])
	return h.Status, ok, err
}

// senders returns the registers of the sketch of one day's senders.
func senders(v *view.View, day command.Day, surface command.Surface) ([]byte, error) {
	registers := make([]byte, command.SketchRegisters)
	lower := append(state.DayKey(state.SpaceSenders, day), byte(surface))
	upper := append(state.DayKey(state.SpaceSenders, day), byte(surface)+1)
	err := state.ScanSpace(v.Reader(), lower, upper, func(key, chunk []byte) error { return view.MergeChunk(registers, key, chunk) })
	return registers, err
}
