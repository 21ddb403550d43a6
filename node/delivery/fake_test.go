package delivery

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// testbed is a Service over a state of its own, which leads.
type testbed struct {
	*Service
	machine *fsm.Machine

	mu    sync.Mutex
	index uint64
	seq   uint64
}

// newTestbed returns a Service that knows a data key; change changes its configuration.
func newTestbed(t *testing.T, change func(*Config)) *testbed {
	t.Helper()
	h := &testbed{}
	machine := must.Get(fsm.Open(fsm.Options{Dir: t.TempDir(), DeliveriesEnded: func(ended []outbox.DeliveryEnd) { h.Ended(ended) }}))(t)
	h.machine = machine
	work, end := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	closed := make(chan struct{})
	close(closed)
	now := func() int64 { return time.Now().UnixMilli() }
	cfg := Config{
		ServerID: "a-1", Machine: machine, Client: http.DefaultClient, Logger: slog.New(slog.DiscardHandler),
		Members: func() []cluster.Member { return nil }, Work: work, Go: workers.Go,
		Boot: command.BootID{1}, Propose: h.propose, Stamp: now, Now: time.Now,
		Secret: func(salt string) []byte { return []byte("secret of " + salt) }, Known: closed,
		LeaderID: func() string { return "a-1" }, Leading: func() bool { return true },
		UntilAnotherLeads: func(ctx context.Context, _ string) (context.Context, context.CancelFunc) {
			return context.WithCancel(ctx)
		},
	}
	if change != nil {
		change(&cfg)
	}
	h.Service = New(cfg)
	t.Cleanup(func() {
		end()
		workers.Wait()
		check.Err(t, machine.Close(), nil, "close")
	})
	must.Do(t, h.propose(t.Context(), &command.Init{ClusterID: "c0ffee", SealedDataKey: []byte("sealed")}))
	return h
}

// propose applies a command.
func (h *testbed) propose(_ context.Context, c command.Payload) error {
	return h.proposeAt(time.Now().UnixMilli(), c)
}

// proposeAt applies a command with a timestamp.
func (h *testbed) proposeAt(at int64, c command.Payload) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.index++
	h.seq++
	data, err := command.EncodeBatch(command.Batch{Stamp: at, Groups: []command.Group{
		{Boot: command.BootID{1}, Floor: h.seq, Commands: []command.Command{{Seq: h.seq, Payload: c}}},
	}})
	if err != nil {
		return err
	}
	h.machine.FSM().ApplyBatch([]*raft.Log{{Index: h.index, Term: 1, Type: raft.LogCommand, Data: data}})
	return nil
}

// lead has the service lead for as long as the test runs.
func (h *testbed) lead(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Lead(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// silent listens and never says a word.
func silent(t *testing.T) net.Listener {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	return l
}
