package integration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/nodetest"
)

// reports returns what every node says of itself, as asked at node i.
func (c *testCluster) reports(i int) []*admin.NodeReport {
	c.t.Helper()
	var report admin.ClusterReport
	c.Eventually("a report", func() error {
		var err error
		report, err = operate[admin.ClusterReport](c, i, admin.PathCluster, nil)
		return err
	})
	var list []*admin.NodeReport
	for _, nd := range c.Nodes {
		at := slices.IndexFunc(report.Servers, func(s admin.Server) bool { return nd.Run != nil && s.ID == nd.ServerID() })
		if at < 0 {
			list = append(list, nil)
			continue
		}
		list = append(list, report.Servers[at].Report)
	}
	return list
}

func contains(list []string, text string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, text) })
}

// TestConditionsAreTrue puts faults into a cluster one after the other: any node says
// which of them has what.
func TestConditionsAreTrue(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		const (
			plenty, little = 5 << 30, 1 << 20
			off            = 10 * time.Minute
			slow           = time.Second // a write of the log
			clockIsOff     = "ahead of the median of 3 clocks"
		)
		d := &disks{free: map[string]uint64{"n1": plenty, "n2": plenty, "n3": plenty}}
		var w writes
		c := newCluster(t, 3, nodetest.Impatient, d.option, w.option, func(cfg *config.Config) {
			if cfg.NodeID == "n2" {
				cfg.ClockOffset = off
			}
		})
		c.WaitVoters()
		c.Eventually("the clocks are known", func() error {
			for i, r := range c.reports(0) {
				want := 0.0
				if i == 1 {
					want = float64(off.Milliseconds())
				}
				if r == nil || r.Clocks != 3 || math.Abs(r.ClockAheadMillis-want) > 1000 || contains(r.Warnings, clockIsOff) != (i == 1) {
					return fmt.Errorf("node %d says %+v", i, r)
				}
			}
			return nil
		})

		leader := c.WaitLeader()
		w.spoil(c.Nodes[leader].Config.NodeID, logstore.Storing, func(_ string, write func() error) error { <-time.After(slow); return write() })
		c.Eventually("the slow disk is known", func() error {
			c.MustPublish(leader, nodetest.Post{Body: "slow"})
			list := c.reports(c.Follower())
			r := list[leader]
			if r == nil || r.Sync.MostMillis < float64(slow.Milliseconds()) || r.Write.Count == 0 || r.Write.MostMillis < float64(slow.Milliseconds()) {
				return fmt.Errorf("it says %+v", r)
			}
			if !contains(r.Warnings, "its disk is slow") {
				return fmt.Errorf("it warns of %q", r.Warnings)
			}
			for i, other := range list {
				if i != leader && (other == nil || other.Sync.Count == 0 || other.Sync.MeanMillis >= r.Sync.MeanMillis) {
					return fmt.Errorf("node %d says %+v", i, other)
				}
			}
			return nil
		})
		w.spoil("", "", nil)

		d.set("n1", little)
		d.set("n3", little)
		c.Eventually("rejected writes are known", func() error {
			a, err := c.Nodes[1].Publish(context.Background(), nodetest.Post{Body: "too much"})
			if err != nil || a.Status != http.StatusServiceUnavailable {
				return errors.Join(err, fmt.Errorf("%+v", a))
			}
			for i, r := range c.reports(2) {
				if r == nil || !r.Ready || !strings.HasPrefix(r.Rejects, string(command.CodeDiskFull)) || !contains(r.Problems, "writes are rejected: disk_full") ||
					contains(r.Warnings, "its disk is nearly full") != (i != 1) {
					return fmt.Errorf("node %d says %+v", i, r)
				}
			}
			return nil
		})
		if r := c.reports(0)[1]; r == nil || len(r.Rejected) != 1 || r.Rejected[0].Code != string(command.CodeDiskFull) || !contains(r.Warnings, "writes were rejected here in the last minute, disk_full") {
			t.Errorf("the node that rejected a write says %+v", r)
		}
		d.set("n1", plenty)
		d.set("n3", plenty)
		c.Eventually("writes are taken again", func() error {
			for i, r := range c.reports(1) {
				if r == nil || r.Rejects != "" || contains(r.Problems, "rejected") {
					return fmt.Errorf("node %d says %+v", i, r)
				}
			}
			return nil
		})

		// Without a quorum no write is taken, and the node that is left says so.
		left := c.Follower()
		for i := range c.Nodes {
			if i != left {
				c.Kill(i)
			}
		}
		c.Eventually("the rejected write is counted", func() error {
			if a, err := c.Nodes[left].Publish(context.Background(), nodetest.Post{Body: "to nobody"}); err != nil || a.Status != http.StatusServiceUnavailable {
				t.Fatalf("%+v, %v", a, err)
			}
			r := c.reports(left)[left]
			return nodetest.ErrorIf(r == nil || !contains(r.Problems, "no leader is known") || !contains(r.Warnings, "writes were rejected here in the last minute, not_enqueued"), "it says %+v", r)
		})
	})
}

// TestDeadVoterIsRemoved: of four voters the one that stays dead is removed, and
// the health that the leader sees shows each step.
func TestDeadVoterIsRemoved(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, func(cfg *config.Config) { cfg.DeadServerThreshold = 3 * time.Second })
		c.Join()
		c.WaitReady()
		c.WaitVoters()
		leader := c.WaitLeader()
		c.Eventually("all are healthy", func() error {
			leader = c.WaitLeader()
			h, leading := c.Nodes[leader].Run.Members().Health()
			if !leading || len(h) != 4 {
				return fmt.Errorf("leading %v: %+v", leading, h)
			}
			for _, s := range h {
				if !s.Healthy || !s.Voter || !s.Alive || s.LastIndex == 0 || s.LastTerm == 0 || s.LastContactMs < 0 {
					return fmt.Errorf("%+v", s)
				}
			}
			return nil
		})
		if _, leading := c.Nodes[c.Follower()].Run.Members().Health(); leading {
			t.Error("a follower rates the health")
		}
		victim := c.Follower()
		id := c.Nodes[victim].ServerID()
		c.Kill(victim)
		c.Eventually("its death is seen", func() error {
			h, _ := c.Nodes[c.WaitLeader()].Run.Members().Health()
			for _, s := range h {
				if s.ID == id && !s.Healthy && !s.Alive && s.LastContactMs == -1 {
					return nil
				}
			}
			return fmt.Errorf("%+v", h)
		})
		c.WaitVoters()
		c.Eventually("the reason is logged", func() error {
			return nodetest.ErrorIf(!slices.ContainsFunc(c.Running(), func(i int) bool { return c.Nodes[i].Logged("it has been dead for 3s") }), "no node has")
		})
		c.MustPublish(leader, nodetest.Post{Body: "three are left"})
	})
}
