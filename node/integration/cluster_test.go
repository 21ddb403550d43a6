package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/nodetest"
)

func TestThreeNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.WaitVoters()
	for i := range c.Nodes {
		a := c.MustPublish(i, nodetest.Post{Agent: "ada", Body: fmt.Sprintf("from node %d", i)})
		for j := range c.Nodes {
			reader := c.Nodes[j].Client()
			reader.SetMinIndex(a.Index)
			page, err := reader.EntryPage(t.Context(), client.EntryQuery{})
			if err != nil {
				t.Fatalf("list on node %d: %v", j, err)
			}
			if len(page.Items) != i+1 || page.Items[0].ID != a.Entry.ID {
				t.Errorf("node %d lists %v after %s was written on node %d", j, page.Items, a.Entry.ID, i)
			}
			e, err := reader.Entry(t.Context(), a.Entry.ID)
			if diff := cmp.Diff(a.Entry, e); err != nil || diff != "" {
				t.Errorf("node %d: %v\n%s", j, err, diff)
			}
		}
	}
	c.WaitConverged()
	leader := c.WaitLeader()
	for i := range c.Nodes {
		s := c.Nodes[i].Status()
		if want := i == leader; (s.Role == "leader") != want || s.Node != c.Nodes[i].ServerID() {
			t.Errorf("status of node %d: %+v; leader is %d", i, s, leader)
		}
		metrics := c.Nodes[i].Metrics()
		for _, name := range []string{"commons_applied_index ", "commons_voters 3", "raft_state_leader ", "go_goroutines "} {
			check.Contains(t, metrics, name, "metrics of node %d", i)
		}
	}
}

func TestKillLeaderUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for range longtest.Rounds(1, 4) {
		leader := c.WaitLeader()
		others := c.Others(leader)
		load := c.StartLoad(8, others...)
		load.WaitMore(50)
		c.Kill(leader)
		load.WaitMore(50)
		c.StartReady(leader)
		load.WaitMore(20)
		load.Stop()
		load.Check()
	}
	c.WaitVoters()
}

// TestKillFollowerUnderLoad: the others see no error, and the follower comes back.
func TestKillFollowerUnderLoad(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		follower := c.Follower()
		others := c.Others(follower)
		load := c.StartLoad(8, others...)
		load.WaitMore(50)
		c.Kill(follower)
		load.WaitMore(100)
		c.StartReady(follower)
		load.Stop()
		load.Check()
	})
}

// TestRollingRestart stops each node in good order under load.
func TestRollingRestart(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for i := range c.Nodes {
			others := c.Others(i)
			load := c.StartLoad(4, others...)
			load.WaitMore(20)
			c.Stop(i)
			load.WaitMore(50)
			c.StartReady(i)
			load.Stop()
			load.Check()
		}
		c.WaitVoters()
	})
}

// TestStopLeaderHandsOver: the next leader is there without an election timeout.
func TestStopLeaderHandsOver(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		leader := c.WaitLeader()
		c.Stop(leader)
		if !c.Nodes[leader].Logged("handed leadership over") {
			t.Error("leadership was not handed over")
		}
		c.WaitLeader()
		c.Start(leader)
		c.WaitReady()
		c.WaitVoters()
	})
}

func TestKillAll(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		load := c.StartLoad(8, 0, 1, 2)
		load.WaitMore(100)
		c.Kill(0, 1, 2)
		load.Abandon()
		for i := range c.Nodes {
			c.Start(i)
		}
		c.WaitReady()
		load.Check()
		c.WaitVoters()
		c.MustPublish(1, nodetest.Post{Body: "after the restart"})
	})
}

// smallLog makes nodes take snapshots after little log.
func smallLog(cfg *config.Config) {
	cfg.Tuning.SnapshotBytes, cfg.Tuning.TrailingBytes = 64<<10, 16<<10
}

// fill publishes n entries of 1 KB on a node.
func (c *testCluster) fill(i, n int) {
	c.t.Helper()
	text := strings.Repeat("lorem ipsum ", 80)
	for k := range n {
		c.MustPublish(i, nodetest.Post{Agent: "filler", Channel: "fill", Body: fmt.Sprintf("%d %s", k, text)})
	}
}

func TestLaggingFollowerGetsSnapshot(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, smallLog)
		follower := c.Follower()
		c.fill(follower, 20)
		c.Kill(follower)
		leader := c.WaitLeader()
		c.fill(leader, 300)
		c.StartReady(follower)
		c.WaitConverged()
		// The test is about the snapshot.
		c.WaitLogged(follower, "Installed remote snapshot")
		c.wantEqualRows()
		a := c.MustPublish(follower, nodetest.Post{Body: "after the snapshot"})
		check.Equal(t, len(c.All(follower, client.EntryQuery{Channel: "fill"})), 320, "entries of the follower")
		check.Err(t, check.Last(c.Nodes[leader].Client().Entry(t.Context(), a.Entry.ID)), nil, "the leader")
		// The installed state survives a crash.
		c.Kill(follower)
		c.StartReady(follower)
		c.WaitConverged()
		c.wantEqualRows()
	})
}

// wantEqualRows compares the rows of all nodes at one index.
func (c *testCluster) wantEqualRows() {
	c.t.Helper()
	compared := mustOperate[admin.Comparison](c, c.WaitLeader(), admin.PathCompare, admin.CompareRequest{PatienceMillis: nodetest.Patience.Milliseconds()})
	if !compared.Equal || !compared.Complete() {
		c.t.Errorf("compared: %+v", compared)
	}
}

// TestFirstStartIsCutShort starts nodes of which one was killed while it formed the
// cluster, between Raft's first term and its first entry.
func TestFirstStartIsCutShort(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, size, func(cfg *config.Config) {
				if cfg.NodeID != "n1" {
					return
				}
				must.Do(t, os.MkdirAll(cfg.DataDir, 0o700))
				log := must.Get(logstore.Open(logstore.Options{Path: filepath.Join(cfg.DataDir, "raft.db")}))(t)
				must.Do(t, errors.Join(log.SetUint64([]byte("CurrentTerm"), 1), log.Close()))
			})
			c.MustPublish(0, nodetest.Post{Body: "after all"})
		})
	}
}

// TestOrderlyEndIsNoError ends nodes in good order and looks at their logs.
func TestOrderlyEndIsNoError(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.WaitVoters()
		c.MustPublish(0, nodetest.Post{Body: "something to replicate"})
		c.WaitConverged()
		for _, i := range []int{c.Follower(), c.WaitLeader()} {
			c.Stop(i)
			if c.Nodes[i].Logged("failed to decode incoming command") {
				t.Errorf("node %d ended in good order and says that it failed", i)
			}
		}
	})
}

// TestOneRequestOneEntry sends one request_id to all nodes at once.
func TestOneRequestOneEntry(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *testCluster) {
		const rounds = 50
		for round := range rounds {
			ids := make(chan string, len(c.Nodes))
			for i := range c.Nodes {
				go func() {
					a, err := c.Nodes[i].Publish(context.Background(), nodetest.Post{
						Agent: "ada", Body: fmt.Sprintf("round %d at node %d", round, i), RequestID: fmt.Sprintf("round-%03d", round),
					})
					check.Err(t, err, nil, "publish at node %d", i)
					ids <- a.Entry.ID
				}()
			}
			first := <-ids
			for range c.Nodes[1:] {
				if id := <-ids; id != first || id == "" {
					t.Errorf("round %d: answers name %q and %q", round, first, id)
				}
			}
		}
		c.WaitConverged()
		check.Equal(t, len(c.All(0, client.EntryQuery{})), rounds, "entries from request_ids")
	})
}

// TestRequestIDAfterRestart replays a request_id after everything was restarted.
func TestRequestIDAfterRestart(t *testing.T) {
	t.Parallel()
	longtest.SkipShort(t, "writes much")
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, smallLog)
		p := nodetest.Post{Agent: "ada", Body: "written once", RequestID: "written-once"}
		first := c.MustPublish(0, p)
		c.fill(1, 200)
		for i := range c.Nodes { // the write is in a snapshot, and in no log any more
			c.WaitLogged(i, "compacting logs")
		}
		c.Kill(0, 1, 2)
		for i := range c.Nodes {
			c.Start(i)
		}
		c.WaitReady()
		for i := range c.Nodes {
			a, err := c.Nodes[i].Publish(context.Background(), p)
			if err != nil || a.Status != http.StatusOK || !a.Duplicate || a.Entry.ID != first.Entry.ID {
				t.Errorf("replay on node %d: %+v, %v; want %s again", i, a, err, first.Entry.ID)
			}
		}
	})
}

func TestStrongReadAfterElection(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		leader := c.WaitLeader()
		var last nodetest.Answer
		for i := range 10 {
			last = c.MustPublish(leader, nodetest.Post{Body: fmt.Sprintf("entry %d", i)})
		}
		c.Kill(leader)
		c.WaitLeader(c.Running()...)
		for _, i := range c.Running() {
			asked := time.Now()
			page, err := c.Nodes[i].Client().Strong().EntryPage(t.Context(), client.EntryQuery{})
			if took := time.Since(asked); took > time.Second { // of virtual time
				t.Errorf("strong read on node %d took %v with a leader", i, took)
			}
			if err != nil {
				t.Errorf("strong read on node %d: %v", i, err)
			} else if len(page.Items) != 10 || page.Items[0].ID != last.Entry.ID {
				t.Errorf("strong read on node %d misses acknowledged entries: %v", i, page.Items)
			}
		}
	})
}
