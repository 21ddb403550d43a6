package integration

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/logstore"
)

// slowDisk is what a write of a slow log takes.
const slowDisk = 150 * time.Millisecond

// movedBy bounds the wait for another leader: it takes a minute more where a busy machine
// makes another node slow, too.
const movedBy = 3 * time.Minute

// watched is longer than a leader waits that alone is slow.
const watched = 5 * time.Second

// TestSlowLeaderGivesWay: the leader's disk becomes slow, and another leads soon, without
// an error for clients. The slow node says so, and does not lead again.
func TestSlowLeaderGivesWay(t *testing.T) {
	t.Parallel()
	var w writes
	c := newCluster(t, 3, w.option)
	c.WaitVoters()
	leader := c.WaitLeader()
	load := c.StartLoad(2, 0, 1, 2)
	load.WaitMore(10)
	w.spoil(c.Nodes[leader].Config.NodeID, logstore.Storing, func(_ string, write func() error) error { <-time.After(slowDisk); return write() })
	c.Within(movedBy, "another leads", func() string {
		if now := c.WaitLeader(); now == leader {
			return fmt.Sprintf("node %d leads", now)
		}
		return ""
	})
	next := c.WaitLeader()
	load.WaitMore(10)
	c.Eventually("it says that it is slow", func() string {
		if r := c.reports(next)[leader]; r == nil || !r.Slow || !contains(r.Warnings, "too slow to lead") {
			return fmt.Sprintf("it says %+v", r)
		}
		return ""
	})
	load.Stop()
	load.Check()
}

// TestAllAreSlow: nobody gives way to a node that is slow, too.
func TestAllAreSlow(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	c := newCluster(t, 3, func(cfg *config.Config) {
		cfg.Tuning.AroundWrite = func(what string, write func() error) error {
			if slow.Load() && what == logstore.Storing {
				<-time.After(slowDisk)
			}
			return write()
		}
	})
	c.WaitVoters()
	load := c.StartLoad(2, 0, 1, 2)
	load.WaitMore(10)
	slow.Store(true)
	c.Eventually("all are slow", func() string {
		for i, r := range c.reports(0) {
			if r == nil || !r.Slow {
				return fmt.Sprintf("node %d says %+v", i, r)
			}
		}
		return ""
	})
	const gaveWay = "this node is slow, and that one is not"
	before := map[int]bool{} // while not all of them had noticed
	for i, nd := range c.Nodes {
		before[i] = nd.Logged(gaveWay)
	}
	until := time.Now().Add(watched)
	c.Eventually("time to give way has passed", func() string {
		if left := time.Until(until); left > 0 {
			return fmt.Sprint(left, " left")
		}
		return ""
	})
	for i, nd := range c.Nodes {
		if !before[i] && nd.Logged(gaveWay) {
			t.Errorf("node %d gave way to one that is slow:\n%s", i, nd.Log())
		}
	}
	load.Stop()
}
