package consensus

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/logstore"
)

// layer is a StreamLayer without connections.
type layer struct{ net.Listener }

func (l layer) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return nil, context.DeadlineExceeded
}

// aloneRaft starts a Raft of one server in a directory.
func aloneRaft(t *testing.T, dir string) (*Raft, *fsm.Machine, func()) {
	t.Helper()
	return aloneRaftOn(t, dir, nil, Hooks{Failed: func(err error) { t.Error(err) }, Abandon: func(err error) { t.Error(err) }})
}

// aloneRaftOn is aloneRaft with a function that runs the writes of the log, and with hooks
// for those that fail.
func aloneRaftOn(t *testing.T, dir string, around func(string, func() error) error, hooks Hooks) (*Raft, *fsm.Machine, func()) {
	t.Helper()
	machine := must.Get(fsm.Open(fsm.Options{Dir: filepath.Join(dir, "state")}))(t)
	streams := &Snapshots{SnapshotStore: machine.Snapshots()}
	log := must.Get(logstore.Open(logstore.Options{
		Path: filepath.Join(dir, "raft.db"), Snapshot: func() uint64 { return LastSnapshot(streams) }, Fatal: func(err error) { t.Error(err) },
		Around: around,
	}))(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	hooks.Around, hooks.Stored = func(_ string, do func() error) error { return do() }, func(time.Duration) {}
	hooks.Founded, hooks.Restored = func(string) bool { return false }, func() {}
	hooks.Covered = func() uint64 {
		index, _, err := machine.Covers()
		check.Err(t, err, nil, "read what the state covers")
		return index
	}
	r := must.Get(Start(Config{
		ServerID: "n1", Heartbeat: time.Second, Lease: time.Second, TrailingBytes: 1 << 30, SnapshotBytes: 1 << 30,
		Machine: machine.FSM(), Log: log, Snapshots: streams, Stream: layer{listener}, Logger: slog.New(slog.DiscardHandler),
		Ending: func() bool { return false },
		Hooks:  hooks,
	}))(t)
	return r, machine, func() {
		t.Helper()
		check.Err(t, r.Stop(), nil, "stop")
		check.Err(t, machine.Close(), nil, "close")
		check.Err(t, log.Close(), nil, "close")
	}
}

// TestCutLogBehindASnapshot: a log that reaches back behind the newest snapshot is cut,
// also before the first entry was applied since the start: then Raft takes no snapshot, and
// so does not truncate the log itself.
func TestCutLogBehindASnapshot(t *testing.T) {
	dir := t.TempDir()
	r, machine, stop := aloneRaft(t, dir)
	must.Do(t, r.BootstrapCluster(Alone("n1")).Error())
	lead := func(r *Raft) {
		t.Helper()
		await.Eventually(t, "it leads", r.Leads)
	}
	lead(r)
	for i := range uint64(10) {
		data := must.Get(command.EncodeBatch(command.Batch{Stamp: int64(1000 + i), Groups: []command.Group{{
			Boot: command.BootID{1}, Commands: []command.Command{{Seq: i + 1, Payload: &command.Lead{ServerID: "n1"}}},
		}}}))(t)
		must.Do(t, r.Apply(data, testPatience).Error())
	}
	const trailing = 1000 // so the log stays, for followers that lag
	must.Do(t, r.snapshot(trailing))
	index := machine.Applied()
	stop()

	r, machine, stop = aloneRaft(t, dir)
	defer stop()
	lead(r)
	if first, err := r.cfg.Log.FirstIndex(); err != nil || first == 0 || first > index || machine.Applied() != index {
		t.Fatalf("the log begins at %d, %d is applied of %d, %v: the test shows nothing", first, machine.Applied(), index, err)
	}
	must.Do(t, r.CutLog(t.Context(), index))
	if first, err := r.cfg.Log.FirstIndex(); err != nil || first != 0 && first <= index {
		t.Errorf("the log begins at %d, %v", first, err)
	}
	check.Equal(t, must.Get(r.cfg.Log.Erased())(t), index, "what is erased")
}
