package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/commons-cluster/commons/node/logstore"
)

// slowDisk is what a write of a slow log takes.
const slowDisk = 150 * time.Millisecond

// movedBy bounds the wait for another leader: it takes a minute more where a busy machine
// makes another node slow, too.
const movedBy = 3 * time.Minute

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
