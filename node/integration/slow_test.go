package integration

import (
	"testing"
	"time"

	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/nodetest"
)

// slowDisk is the duration of a write of a slow log, and lateWrite the least of a write
// that makes a node slow: even a busy disk is faster.
const (
	slowDisk  = 2 * time.Second
	lateWrite = slowDisk - slowDisk/4
)

// movedBy bounds the wait for another leader: it takes a minute more where a busy machine
// makes another node slow, too.
const movedBy = 3 * time.Minute

// TestSlowLeaderGivesWay: the leader's disk becomes slow, and another leads soon, without
// an error for clients. The slow node says so, and does not lead again.
func TestSlowLeaderGivesWay(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		var w writes
		c := newCluster(t, 3, w.option, func(cfg *config.Config) { cfg.Tuning.SlowWrite = lateWrite })
		c.WaitVoters()
		leader := c.WaitLeader()
		load := c.StartLoad(2, 0, 1, 2)
		load.WaitMore(10)
		w.spoil(c.Nodes[leader].Config.NodeID, logstore.Storing, func(_ string, write func() error) error { <-time.After(slowDisk); return write() })
		c.Within(movedBy, "another leads", func() error {
			now := c.WaitLeader()
			return nodetest.ErrorIf(now == leader, "node %d leads", now)
		})
		next := c.WaitLeader()
		load.WaitMore(10)
		c.Eventually("it says that it is slow", func() error {
			r := c.reports(next)[leader]
			return nodetest.ErrorIf(r == nil || !r.Slow || !contains(r.Warnings, "too slow to lead"), "it says %+v", r)
		})
		load.Stop()
		load.Check()
	})
}
