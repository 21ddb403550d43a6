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
	"github.com/commons-cluster/commons/node/logstore"
)

// layer is a StreamLayer that nobody is reached by.
type layer struct{ net.Listener }

func (l layer) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return nil, context.DeadlineExceeded
}

// aloneRaft starts a Raft of one server in a directory.
func aloneRaft(t *testing.T, dir string) (*Raft, *fsm.Machine, func()) {
	t.Helper()
	machine, err := fsm.Open(fsm.Options{Dir: filepath.Join(dir, "state")})
	if err != nil {
		t.Fatal(err)
	}
	streams := &Snapshots{SnapshotStore: machine.Snapshots()}
	log, err := logstore.Open(logstore.Options{
		Path: filepath.Join(dir, "raft.db"), Snapshot: func() uint64 { return LastSnapshot(streams) }, Fatal: func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Start(Config{
		ServerID: "n1", Heartbeat: time.Second, Election: time.Second, Lease: time.Second, TrailingBytes: 1 << 30, SnapshotBytes: 1 << 30,
		Machine: machine.FSM(), Log: log, Snapshots: streams, Stream: layer{listener}, Logger: slog.New(slog.DiscardHandler),
		Ending: func() bool { return false },
		Hooks: Hooks{
			Around: func(_ string, do func() error) error { return do() }, Stored: func(time.Duration) {}, Failed: func(err error) { t.Error(err) },
			Founded: func(string) bool { return false }, Restored: func() {}, Abandon: func(err error) { t.Error(err) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, machine, func() {
		t.Helper()
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
		if err := machine.Close(); err != nil {
			t.Error(err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCutLogBehindASnapshot: a log that reaches back behind the newest snapshot is cut,
// also while nothing was applied since the start: then Raft takes no snapshot, and so
// truncates nothing by itself.
func TestCutLogBehindASnapshot(t *testing.T) {
	dir := t.TempDir()
	r, machine, stop := aloneRaft(t, dir)
	if err := r.BootstrapCluster(Alone("n1")).Error(); err != nil {
		t.Fatal(err)
	}
	lead := func(r *Raft) {
		t.Helper()
		for deadline := time.Now().Add(testPatience); !r.Leads(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it does not lead")
			}
		}
	}
	lead(r)
	for i := range uint64(10) {
		data, err := command.EncodeBatch(command.Batch{Stamp: int64(1000 + i), Groups: []command.Group{{
			Boot: command.BootID{1}, Commands: []command.Command{{Seq: i + 1, Payload: &command.Lead{ServerID: "n1"}}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Apply(data, testPatience).Error(); err != nil {
			t.Fatal(err)
		}
	}
	const trailing = 1000 // so the log stays, for followers that lag
	if err := r.Reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = trailing }); err != nil {
		t.Fatal(err)
	}
	if err := r.snapshot(); err != nil {
		t.Fatal(err)
	}
	index := machine.Applied()
	stop()

	r, machine, stop = aloneRaft(t, dir)
	defer stop()
	lead(r)
	if first, err := r.cfg.Log.FirstIndex(); err != nil || first == 0 || first > index || machine.Applied() != index {
		t.Fatalf("the log begins at %d, %d is applied of %d, %v: the test shows nothing", first, machine.Applied(), index, err)
	}
	if err := r.CutLog(index); err != nil {
		t.Fatal(err)
	}
	if first, err := r.cfg.Log.FirstIndex(); err != nil || first != 0 && first <= index {
		t.Errorf("the log begins at %d, %v", first, err)
	}
	if erased, err := r.cfg.Log.Erased(); err != nil || erased != index {
		t.Errorf("erased is what stands up to %d, %v; want %d", erased, err, index)
	}
}
