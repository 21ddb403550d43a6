package integration

import (
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/simnet"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestLossyLink: with a link to a follower that delays everything by 200 ms +- 100 ms and loses
// a tenth, there is at most one election in an hour, and every write is acknowledged.
func TestLossyLink(t *testing.T) {
	t.Parallel()
	longtest.SkipShort(t, "takes several seconds")
	length := time.Duration(longtest.Rounds(3, 60)) * time.Minute
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.WaitVoters()
		leader, follower := c.WaitLeader(), c.Follower()
		before := c.Nodes[leader].Status().Term
		bad := func(l *simnet.Link) { l.Min, l.Max, l.Loss = 100*time.Millisecond, 300*time.Millisecond, 0.1 }
		c.Net().Change(c.Nodes[leader].Host(), c.Nodes[follower].Host(), bad)
		c.Net().Change(c.Nodes[follower].Host(), c.Nodes[leader].Host(), bad)
		for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Second) {
			c.MustPublish(leader, nodetest.Post{Body: "over a lossy link at " + time.Now().String()})
		}
		if term := c.Nodes[leader].Status().Term; term > before+1 {
			t.Errorf("%d elections in %v", term-before, length)
		}
		c.Net().Heal()
		c.WaitConverged()
	})
}
