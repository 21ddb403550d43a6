package propose

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/await"
)

// realNode is a Pipeline over the real Raft and the real state machine.
type realNode struct {
	*Pipeline
	id      string
	raft    *raft.Raft
	machine *fsm.Machine
	trans   *raft.InmemTransport
	stop    chan struct{}
	leads   sync.WaitGroup
}

func newRealCluster(t *testing.T, n int) []*realNode {
	t.Helper()
	net := &fakeNet{nodes: make(map[string]*fakeNode)}
	var nodes []*realNode
	var servers []raft.Server
	for i := range n {
		node := &realNode{id: fmt.Sprintf("node-%d", i), stop: make(chan struct{})}
		node.Pipeline = New(Config{
			ServerID: node.id, Client: &http.Client{Transport: &fakeTransport{net: net, from: node.id}}, Patience: await.Patience,
		})
		node.machine = must.Get(fsm.Open(fsm.Options{Dir: t.TempDir(), Observer: node.Pipeline}))(t)
		_, node.trans = raft.NewInmemTransport(raft.ServerAddress(node.id))
		net.nodes[node.id] = &fakeNode{id: node.id, handler: node.Handler()}
		servers = append(servers, raft.Server{ID: raft.ServerID(node.id), Address: raft.ServerAddress(node.id)})
		nodes = append(nodes, node)
	}
	for _, node := range nodes {
		for _, other := range nodes {
			node.trans.Connect(other.trans.LocalAddr(), other.trans)
		}
		cfg := raft.DefaultConfig()
		cfg.LocalID, cfg.LogOutput, cfg.LogLevel = raft.ServerID(node.id), io.Discard, "ERROR"
		cfg.HeartbeatTimeout, cfg.ElectionTimeout = 150*time.Millisecond, 150*time.Millisecond
		cfg.LeaderLeaseTimeout, cfg.CommitTimeout = 75*time.Millisecond, 5*time.Millisecond
		cfg.BatchApplyCh = true
		store := raft.NewInmemStore()
		must.Do(t, raft.BootstrapCluster(cfg, store, store, node.machine.Snapshots(), node.trans, raft.Configuration{Servers: servers}))
		node.raft = must.Get(raft.NewRaft(cfg, node.machine.FSM(), store, store, node.machine.Snapshots(), node.trans))(t)
		node.Start(node.raft, store, FromMachine(node.machine))
		node.leads.Go(node.leadWhenElected)
		t.Cleanup(func() { node.end(t) })
	}
	t.Cleanup(net.late.Wait)
	return nodes
}

func (n *realNode) leadWhenElected() {
	for {
		select {
		case <-n.stop:
			return
		case gained := <-n.raft.LeaderCh():
			n.StopLeading()
			if !gained {
				continue
			}
			term := n.raft.CurrentTerm()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			if _, _, err := n.ProposeAsLeader(ctx, &command.Lead{ServerID: n.id}); err == nil {
				n.StartLeading(ctx, term)
			}
			cancel()
		}
	}
}

func (n *realNode) end(t *testing.T) {
	t.Helper()
	select {
	case <-n.stop:
		return
	default:
	}
	close(n.stop)
	n.Close()
	n.trans.DisconnectAll()
	check.Err(t, n.raft.Shutdown().Error(), nil, "shutdown")
	n.leads.Wait()
	check.Err(t, n.machine.Close(), nil, "close")
}

func leaderOf(nodes []*realNode) *realNode {
	for _, n := range nodes {
		if n.Stats().Leading && n.raft.State() == raft.Leader {
			return n
		}
	}
	return nil
}

// Under load, leadership moves repeatedly and one leader dies. No client of a live node gets
// an error, every text is there once on every live node, and a strong read covers all
// acknowledged writes.
func TestRealRaftAndMachine(t *testing.T) {
	t.Parallel()
	nodes := newRealCluster(t, 3)
	await.Eventually(t, "a leader is elected", func() bool { return leaderOf(nodes) != nil })
	doomed := leaderOf(nodes)
	var live []*realNode
	for _, n := range nodes {
		if n != doomed {
			live = append(live, n)
		}
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex
	texts := map[string]uint64{}
	for i := range 8 {
		clients.Go(func() {
			n := live[i%len(live)]
			for j := 0; ; j++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprintf("text %d of client %d", j, i)
				r, index, err := n.Propose(context.Background(), command.Sender{}, entryOf(text))
				if err != nil || r.Outcome != command.OutcomeDone {
					t.Errorf("%s: %q: %+v, %v", n.id, text, r, err)
					return
				}
				if n.machine.Applied() < index {
					t.Errorf("%s answered at %d, has applied %d", n.id, index, n.machine.Applied())
				}
				if got, err := live[(i+1)%2].ReadIndex(context.Background()); err != nil || got < index {
					t.Errorf("strong read %d (%v) after %d was acknowledged", got, err, index)
				}
				mu.Lock()
				texts[text] = r.Entry
				mu.Unlock()
			}
		})
	}
	for range 3 {
		time.Sleep(50 * time.Millisecond) // some load between the moves
		if n := leaderOf(nodes); n != nil {
			_ = n.raft.LeadershipTransfer().Error() // may fail under load; the next one follows
		}
		await.Eventually(t, "somebody leads", func() bool { return leaderOf(nodes) != nil })
	}
	doomed.end(t)
	await.Eventually(t, "another one leads", func() bool { return leaderOf(live) != nil })
	time.Sleep(100 * time.Millisecond)
	close(stop)
	clients.Wait()
	if len(texts) == 0 {
		t.Fatal("nothing was written")
	}
	last := must.Get(live[0].ReadIndex(context.Background()))(t)
	for _, n := range live {
		must.Do(t, n.machine.Wait(context.Background(), last))
		v := n.machine.View()
		entries := 0
		for q := (view.Query{Since: -1, Limit: command.MaxList}); ; {
			seqs, next, err := v.List(q)
			if err != nil {
				t.Fatal(err)
			}
			entries += len(seqs)
			if next == 0 {
				break
			}
			q.Before = next
		}
		v.Release()
		seen := map[uint64]bool{}
		for text, seq := range texts {
			if seen[seq] {
				t.Errorf("%q shares entry %d with another text", text, seq)
			}
			seen[seq] = true
		}
		if entries != len(texts) {
			t.Errorf("%s has %d entries for %d acknowledged texts", n.id, entries, len(texts))
		}
	}
	t.Logf("%d texts", len(texts))
}
