package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/commons-cluster/commons/node"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestDeadVoterIsRemoved: of four voters the one that stays dead is removed, and
// the leader's judgement shows each step.
func TestDeadVoterIsRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(cfg *node.Config) { cfg.DeadServerThreshold = 3 * time.Second })
	c.Join()
	c.WaitReady()
	c.WaitVoters()
	leader := c.WaitLeader()
	c.Eventually("all are healthy", func() string {
		leader = c.WaitLeader()
		h, leading := c.Nodes[leader].Run.Health()
		if !leading || !h.Healthy || len(h.Servers) != 4 || h.FailureTolerance != 1 {
			return fmt.Sprintf("leading %v: %+v", leading, h)
		}
		for _, s := range h.Servers {
			if !s.Voter || !s.Alive || s.LastIndex == 0 || s.LastTerm == 0 || s.LastContactMs < 0 || s.Leader != (s.ID == c.Nodes[leader].ServerID()) {
				return fmt.Sprintf("%+v", s)
			}
		}
		return ""
	})
	if _, leading := c.Nodes[c.Follower()].Run.Health(); leading {
		t.Error("a follower judges")
	}
	victim := c.Follower()
	id := c.Nodes[victim].ServerID()
	c.Kill(victim)
	c.Eventually("its death is seen", func() string {
		h, _ := c.Nodes[leader].Run.Health()
		for _, s := range h.Servers {
			if s.ID == id && !s.Healthy && !s.Alive && s.LastContactMs == -1 && !h.Healthy {
				return ""
			}
		}
		return fmt.Sprintf("%+v", h)
	})
	c.WaitVoters()
	if !c.Nodes[leader].Logged("it has been dead for 3s") {
		t.Error("the reason is not logged")
	}
	c.MustPublish(leader, nodetest.Post{Body: "three are left"})
}
