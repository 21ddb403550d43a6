package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestFoundingThatWasCutShort: a node forms a cluster and is gone before any other
// hears of it, the others form one with a fourth in its place, and it comes back.
// Raft takes the beginnings of the two logs for the same, but for the nodes they are
// of two clusters.
func TestFoundingThatWasCutShort(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := emptyCluster(t)
		for range 4 {
			c.Add(3)
		}
		for _, nd := range c.Nodes {
			nd.Config.Join = c.GossipAddrs()
		}
		c.foundAlone(0, 1, 2)
		for i := 1; i < 4; i++ {
			c.Start(i)
		}
		c.WaitReady()
		before := c.MustPublish(1, nodetest.Post{Body: "of the second cluster"})
		nodetest.Impatient(&c.Nodes[0].Config)
		c.Start(0)
		late := c.Nodes[0]
		c.Eventually("the first founder says that it is of another cluster", func() error {
			ready, text := c.problems(late)
			return nodetest.ErrorIf(ready || !strings.Contains(text, "empty this node's data directory"), "%s", text)
		})
		leader := c.WaitLeader(1, 2, 3)
		c.MustPublish(leader, nodetest.Post{Body: "undisturbed"})
		s := c.Nodes[leader].Status()
		if len(s.Voters) != 3 || strings.Contains(strings.Join(s.Voters, " "), late.ServerID()) {
			t.Errorf("the voters are %v", s.Voters)
		}
		check.Fails(late.Client().Entry(t.Context(), before.Entry.ID))(t, "the first founder follows a cluster whose beginning it does not have")
	})
}

// foundAlone leaves on a node's disk the state of a node that was killed after it wrote
// the first configuration, of itself and others.
func (c *testCluster) foundAlone(i int, others ...int) {
	c.t.Helper()
	var first raft.Configuration
	for _, j := range append([]int{i}, others...) {
		nd := c.Nodes[j]
		must.Do(c.t, os.MkdirAll(nd.Config.DataDir, 0o700))
		identity := must.Get(cluster.LoadIdentity(nd.Config.DataDir, nd.Config.NodeID))(c.t)
		id := identity.ServerID
		first.Servers = append(first.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	log := must.Get(logstore.Open(logstore.Options{Path: filepath.Join(c.Nodes[i].Config.DataDir, "raft.db")}))(c.t)
	config := raft.DefaultConfig()
	config.LocalID = first.Servers[0].ID
	_, transport := raft.NewInmemTransport("")
	must.Do(c.t, raft.BootstrapCluster(config, log, log, raft.NewDiscardSnapshotStore(), transport, first))
	must.Do(c.t, log.Close())
}
