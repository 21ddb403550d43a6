package fsm

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// raftNode is a machine under a real Raft, with transport and log in memory. The
// log outlives the node's restarts.
type raftNode struct {
	t       *testing.T
	id      raft.ServerID
	dir     string
	logs    *raft.InmemStore
	trans   *raft.InmemTransport
	machine *Machine
	raft    *raft.Raft
}

func newRaftNode(t *testing.T, id string) *raftNode {
	t.Helper()
	return &raftNode{t: t, id: raft.ServerID(id), dir: t.TempDir(), logs: raft.NewInmemStore()}
}

// start opens the machine as a node does: the machine says whether Raft restores.
func (n *raftNode) start() {
	n.t.Helper()
	var err error
	if n.machine, err = tryOpenAt(n.dir); err != nil {
		n.t.Fatal(err)
	}
	conf := raft.DefaultConfig()
	conf.LocalID = n.id
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = time.Second, time.Second, time.Second // a busy machine keeps its leader
	conf.CommitTimeout = 5 * time.Millisecond
	conf.SnapshotInterval, conf.SnapshotThreshold, conf.TrailingLogs = time.Hour, 1<<40, 0
	conf.NoSnapshotRestoreOnStart = !n.machine.RestoreOnStart()
	conf.BatchApplyCh = true
	conf.LogOutput = io.Discard
	_, n.trans = raft.NewInmemTransport(raft.ServerAddress(n.id))
	n.raft = must.Get(raft.NewRaft(conf, n.machine.FSM(), n.logs, n.logs, n.machine.Snapshots(), n.trans))(n.t)
}

// stop ends Raft, and the machine as a crash would.
func (n *raftNode) stop() {
	n.t.Helper()
	check.Err(n.t, n.raft.Shutdown().Error(), nil, "shutdown")
	check.Err(n.t, n.machine.Abandon(), nil, "abandon")
}

func connect(nodes ...*raftNode) {
	for _, a := range nodes {
		for _, b := range nodes {
			if a != b {
				a.trans.Connect(b.trans.LocalAddr(), b.trans)
			}
		}
	}
}

func leaderOf(t *testing.T, nodes ...*raftNode) *raftNode {
	t.Helper()
	var leader *raftNode
	await.Eventually(t, "a leader", func() bool {
		for _, n := range nodes {
			if n.raft.State() == raft.Leader && n.raft.VerifyLeader().Error() == nil {
				leader = n
				return true
			}
		}
		return false
	})
	return leader
}

// write publishes entries through a leader.
func write(t *testing.T, leader *raftNode, seq *uint64, count int) {
	t.Helper()
	for range count {
		*seq++
		data := must.Get(command.EncodeBatch(command.Batch{Stamp: time.Now().UnixMilli(), Groups: []command.Group{{
			Boot: boot1, Floor: *seq, Commands: []command.Command{{Seq: *seq, Payload: post("ada", func(p *command.Publish) { p.Body = fmt.Sprintf("Entry %d.", *seq) })}},
		}}}))(t)
		must.Do(t, leader.raft.Apply(data, 10*time.Second).Error())
	}
}

// TestUnderRaft runs three machines under a real Raft: one lags behind the
// truncated log and gets a snapshot; all are then killed and started again.
func TestUnderRaft(t *testing.T) {
	t.Parallel()
	nodes := []*raftNode{newRaftNode(t, "n1"), newRaftNode(t, "n2"), newRaftNode(t, "n3")}
	var servers raft.Configuration
	for _, n := range nodes {
		n.start()
		servers.Servers = append(servers.Servers, raft.Server{ID: n.id, Address: raft.ServerAddress(n.id)})
	}
	defer func() {
		for _, n := range nodes {
			n.stop()
		}
	}()
	connect(nodes...)
	must.Do(t, nodes[0].raft.BootstrapCluster(servers).Error())
	var seq uint64
	lead := leaderOf(t, nodes...)
	write(t, lead, &seq, 20)

	lagging := nodes[0]
	if lagging == lead {
		lagging = nodes[1]
	}
	lagging.stop()
	write(t, lead, &seq, 30)
	// The snapshot's position counts the barrier, which no state machine sees.
	must.Do(t, lead.raft.Barrier(10*time.Second).Error())
	for _, n := range nodes {
		if n == lagging {
			continue
		}
		await.Eventually(t, string(n.id)+" to catch up", func() bool { return n.machine.Applied() >= lead.machine.Applied() })
		must.Do(t, n.raft.Snapshot().Error())
		if err := n.logs.GetLog(30, new(raft.Log)); err == nil {
			t.Fatal("the log was not truncated")
		}
	}
	lagging.start()
	connect(nodes...)
	equal := func() {
		t.Helper()
		lead = leaderOf(t, nodes...)
		write(t, lead, &seq, 5)
		for _, n := range nodes {
			await.Eventually(t, string(n.id)+" to catch up", func() bool { return n.machine.Applied() >= lead.machine.Applied() })
		}
		want := stateOf(t, lead.machine)
		check.Equal(t, want.LastSeq, seq, "entries")
		for _, n := range nodes {
			sameState(t, want, stateOf(t, n.machine))
		}
	}
	equal()
	if metas, err := lagging.machine.Snapshots().List(); err != nil || len(metas) != 1 {
		t.Errorf("the lagging node has snapshots %+v, %v: it was not sent one", metas, err)
	}

	for _, n := range nodes {
		n.stop()
	}
	for _, n := range nodes {
		n.start()
	}
	connect(nodes...)
	equal()
}
