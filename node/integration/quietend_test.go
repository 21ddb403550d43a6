package integration

import (
	"testing"

	"github.com/commons-cluster/commons/node/nodetest"
)

// TestOrderlyEndIsNoError ends nodes in good order and looks at what they log.
func TestOrderlyEndIsNoError(t *testing.T) {
	t.Parallel()
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
}
