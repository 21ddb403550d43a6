package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/node"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestRollingUpgrade: while one node runs an old program the format stays, and
// it is raised by itself when the last one is upgraded. The old program does not
// start on the newer state.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	const before, after = 1, 2
	c := newCluster(t, 3, func(cfg *node.Config) { cfg.Tuning.Format = before })
	for i := range c.Nodes {
		for _, nd := range c.Nodes {
			if s, err := nd.Status(); err != nil || s.Format != before {
				t.Errorf("before node %d is upgraded node %d says format %d, %v", i, nd.Index(), s.Format, err)
			}
		}
		c.Stop(i)
		c.Nodes[i].Config.Tuning.Format = after
		c.Start(i)
		c.WaitReady()
		c.MustPublish(i, nodetest.Post{Body: fmt.Sprintf("after the upgrade of node %d", i)})
	}
	c.Eventually("the format is raised", func() string {
		for _, nd := range c.Nodes {
			if s, err := nd.Status(); err != nil || s.Format != after {
				return fmt.Sprintf("node %d says format %d, %v", nd.Index(), s.Format, err)
			}
		}
		return ""
	})
	c.WaitConverged()
	c.Stop(0)
	c.Nodes[0].Config.Tuning.Format = before
	if err := c.TryStart(0); err == nil || !strings.Contains(err.Error(), "newer format") {
		t.Errorf("the old program on the newer state: %v", err)
	}
}
