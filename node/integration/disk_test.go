package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// disks are the free bytes that nodes believe to have, by name.
type disks struct {
	mu   sync.Mutex
	free map[string]uint64
}

func (d *disks) set(name string, free uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free[name] = free
}

func (d *disks) option(cfg *config.Config) {
	name := cfg.NodeID
	cfg.DiskReserve = "10%"
	cfg.Tuning.DiskSpace = func() (uint64, uint64, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.free[name], 10 << 30, nil
	}
}

// TestFullDisks: a leader whose disk fills gives way, and writes go on; they stop
// with a reason when a majority has no space, reads go on, and all is well again
// when there is space.
func TestFullDisks(t *testing.T) {
	t.Parallel()
	const plenty, little = 5 << 30, 1 << 20
	d := &disks{free: map[string]uint64{"n1": plenty, "n2": plenty, "n3": plenty}}
	c := newCluster(t, 3, d.option)
	first := c.WaitLeader()
	written := c.MustPublish(first, nodetest.Post{Body: "before"})

	d.set(c.Nodes[first].Config.NodeID, little)
	c.Eventually("another leads", func() error {
		leader := c.WaitLeader()
		return nodetest.ErrorIf(leader == first, "the one without space still leads")
	})
	second := c.WaitLeader()
	c.MustPublish(first, nodetest.Post{Body: "through the one without space"})
	report := mustOperate[admin.NodeReport](c, first, admin.PathNode, nil)
	check.Contains(t, strings.Join(report.Warnings, "\n"), fmt.Sprintf("its disk is nearly full: %s are free, %s are reserved", admin.BytesText(little), admin.BytesText((10<<30)/100*10)), "its warnings")

	d.set(c.Nodes[second].Config.NodeID, little)
	for _, nd := range c.Nodes {
		c.Eventually(fmt.Sprintf("node %d rejects writes", nd.Index()), func() error {
			a, err := nd.Publish(context.Background(), nodetest.Post{Body: "too much"})
			return nodetest.ErrorIf(err != nil || a.Status != http.StatusServiceUnavailable || a.Code != string(command.CodeDiskFull), "%+v, %v", a, err)
		})
		check.Err(t, check.Last(nd.Client().Entry(t.Context(), written.Entry.ID)), nil, "read at node %d", nd.Index())
	}
	c.WaitReady()

	d.set(c.Nodes[first].Config.NodeID, plenty)
	for _, nd := range c.Nodes {
		c.Eventually(fmt.Sprintf("node %d takes writes again", nd.Index()), func() error {
			a, err := nd.Publish(context.Background(), nodetest.Post{Body: "again"})
			return nodetest.ErrorIf(err != nil || a.Status != http.StatusCreated, "%+v, %v", a, err)
		})
	}
}
