package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/api"
)

// overview asks a node for the cluster as strangers are shown it.
func (c *testCluster) overview(i int) (shown api.Cluster, missing string) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, c.Nodes[i].URL()+"/cluster.json", http.NoBody)
	if err != nil {
		return shown, err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return shown, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return shown, err.Error()
	}
	for _, n := range c.Nodes {
		if n.Run == nil {
			continue
		}
		if id := n.Run.ServerID(); strings.Contains(string(body), id) {
			return shown, fmt.Sprintf("strangers are shown the id %s", id)
		}
	}
	if err := json.Unmarshal(body, &shown); err != nil {
		return shown, err.Error()
	}
	return shown, ""
}

// TestOverview holds that every node shows how all are, also while one is away.
func TestOverview(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.WaitVoters()
	health := func(i int, want map[string]string) {
		t.Helper()
		c.Eventually("the overview", func() string {
			shown, missing := c.overview(i)
			if missing != "" {
				return missing
			}
			leaders := 0
			for _, n := range shown.Nodes {
				if n.Health != want[n.Name] {
					return fmt.Sprintf("%s is %s, want %s", n.Name, n.Health, want[n.Name])
				}
				if n.Role == "leader" {
					leaders++
				}
			}
			if len(shown.Nodes) != 3 || leaders != 1 || len(shown.Elections) == 0 {
				return fmt.Sprintf("%+v", shown)
			}
			return ""
		})
	}
	name := func(i int) string { return c.Nodes[i].Config.NodeID }
	all := map[string]string{name(0): api.NodeWell, name(1): api.NodeWell, name(2): api.NodeWell}
	for i := range 3 {
		health(i, all)
	}
	gone := c.WaitLeader()
	asked := (gone + 1) % 3
	c.Kill(gone)
	all[name(gone)] = api.NodeAway
	health(asked, all)
	c.Start(gone)
	all[name(gone)] = api.NodeWell
	health(asked, all)
}
