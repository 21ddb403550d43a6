package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/node/nodetest"
)

// overview asks a node for the cluster as strangers are shown it.
func (c *testCluster) overview(i int) (shown wire.Cluster, err error) {
	_, body, err := c.Nodes[i].GetText("/cluster.json")
	if err != nil {
		return shown, err
	}
	for _, n := range c.Running() {
		if id := c.Nodes[n].ServerID(); strings.Contains(body, id) {
			return shown, fmt.Errorf("strangers are shown the id %s", id)
		}
	}
	err = json.Unmarshal([]byte(body), &shown)
	return shown, err
}

// TestOverview holds that every node shows how all are, also while one is away.
func TestOverview(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.WaitVoters()
		health := func(i int, want map[string]string) {
			t.Helper()
			c.Eventually("the overview", func() error {
				shown, err := c.overview(i)
				if err != nil {
					return err
				}
				leaders := 0
				for _, n := range shown.Nodes {
					if n.Health != want[n.Name] {
						return fmt.Errorf("%s is %s, want %s", n.Name, n.Health, want[n.Name])
					}
					if n.Role == "leader" {
						leaders++
					}
				}
				return nodetest.ErrorIf(len(shown.Nodes) != 3 || leaders != 1 || len(shown.Elections) == 0, "%+v", shown)
			})
		}
		name := func(i int) string { return c.Nodes[i].Config.NodeID }
		all := map[string]string{name(0): wire.NodeWell, name(1): wire.NodeWell, name(2): wire.NodeWell}
		for i := range 3 {
			health(i, all)
		}
		gone := c.WaitLeader()
		asked := (gone + 1) % 3
		c.Kill(gone)
		all[name(gone)] = wire.NodeAway
		health(asked, all)
		c.Start(gone)
		all[name(gone)] = wire.NodeWell
		health(asked, all)
	})
}
