package integration

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// counting makes nodes fold their counts this often, and believe what the tests
// say of where they call from.
func counting(every time.Duration) nodetest.Option {
	return func(cfg *config.Config) {
		cfg.Tuning.UsageInterval = every
		cfg.TrustedProxies = []string{"127.0.0.0/8"}
	}
}

// usageAgent is the User-Agent of the calls that these tests count.
const usageAgent = "curl/8.0"

// callFrom asks a node for the channels, n times, from an address.
func (c *testCluster) callFrom(i int, addr string, n int) {
	c.t.Helper()
	for range n {
		res, err := c.Nodes[i].Raw(http.MethodGet, "/api/channels", "", "User-Agent", usageAgent, "X-Forwarded-For", addr)
		if err != nil || res.Status != http.StatusOK {
			c.t.Fatalf("call at node %d: %+v, %v", i, res, err)
		}
	}
}

// waitUsage waits until every running node shows this many of the calls.
func (c *testCluster) waitUsage(want int64) {
	c.t.Helper()
	for _, i := range c.Running() {
		c.Eventually(fmt.Sprintf("%d calls counted at node %d", want, i), func() error {
			u, err := c.Nodes[i].Client().Usage(c.t.Context(), 0)
			if err != nil {
				return err
			}
			var got int64
			for _, r := range u.Rows {
				if r.Surface == "api" && r.Action == "listChannels" && r.Client == "curl" {
					got = r.Count
				}
			}
			if got > want {
				c.t.Fatalf("node %d shows %d calls, only %d were made", i, got, want)
			}
			return nodetest.ErrorIf(got < want, "%d are", got)
		})
	}
}

// TestUsageAcrossNodes calls every node, kills one of them and the leader, and holds
// that each call is counted once on all nodes, and no address is kept.
func TestUsageAcrossNodes(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, counting(100*time.Millisecond), func(cfg *config.Config) { cfg.WriteRate, cfg.WriteBurst = 1, 1 })
		c.WaitVoters()
		addrs := []string{"203.0.113.71", "203.0.113.72", "203.0.113.73"}
		var made int64
		round := func() {
			t.Helper()
			for _, i := range c.Running() {
				n := 10 + i
				c.callFrom(i, addrs[i], n)
				made += int64(n)
			}
			c.waitUsage(made)
		}
		round()
		leader := c.WaitLeader()
		c.Kill(leader)
		round() // while the others find a leader
		c.StartReady(leader)
		round()
		c.WaitConverged()
		for i, nd := range c.Nodes {
			u, err := nd.Client().Usage(t.Context(), 0)
			s, statsErr := nd.Client().Stats(t.Context())
			must.Do(t, errors.Join(err, statsErr))
			// The three of above, and these calls themselves.
			if u.Totals.DistinctClients != 4 || s.APIClients7d != 4 {
				t.Errorf("node %d shows %d clients in usage, %d in stats, want 4", i, u.Totals.DistinctClients, s.APIClients7d)
			}
			check.Equal(t, holding(t, nd.DataDir(), addrs...), "", "file of node %d with an address", i)
			for _, addr := range addrs {
				check.Equal(t, nd.Logged(addr), false, "node %d logs an address", i)
			}
		}
	})
}
