package integration

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/offline"
)

// longAgo is longer than senders are remembered.
const longAgo = 40 * 24 * time.Hour

// startAt starts nodes whose clocks are so much behind.
func (c *testCluster) startAt(behind time.Duration, nodes ...int) {
	c.t.Helper()
	for _, i := range nodes {
		c.Nodes[i].Config.ClockOffset = -behind
	}
	for _, i := range nodes {
		c.Start(i)
	}
	c.WaitLeader(nodes...)
}

// waitEpoch waits until an epoch has begun on one of the nodes, since they were started.
func (c *testCluster) waitEpoch(number int, nodes ...int) {
	c.t.Helper()
	c.Eventually(fmt.Sprint("epoch ", number), func() error {
		if slices.ContainsFunc(nodes, func(i int) bool { return c.Nodes[i].Logged(fmt.Sprintf("epoch=%d", number)) }) {
			return nil
		}
		return errors.New("it has not begun")
	})
}

// epochIn returns the epoch of a state that no node uses.
func epochIn(t *testing.T, dataDir string) state.SenderEpoch {
	t.Helper()
	machine := must.Get(fsm.Open(fsm.Options{Dir: filepath.Join(dataDir, offline.StateDir)}))(t)
	defer func() {
		check.Err(t, machine.Close(), nil, "close")
	}()
	v := machine.View()
	defer v.Release()
	e, err := v.SenderEpoch()
	if err != nil || e.Number == 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	return e
}

// TestOldEpochsLeaveNoKey: the key of an epoch is in tables and logs while it is needed,
// and in no byte of any node's directory after the second change: not of one that was
// killed meanwhile, of one that was away, or of a new one. An address still proves its names.
func TestOldEpochsLeaveNoKey(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, soon, func(cfg *config.Config) { cfg.ClockOffset = -2 * longAgo })
		c.WaitVoters()
		all := []int{0, 1, 2}
		stop := func() {
			for i := range c.Nodes {
				c.Stop(i)
			}
		}
		if _, status := c.register(0, map[string]any{"id": "bob", "description": "Writes in every epoch."}); status != 201 {
			t.Fatalf("register: %d", status)
		}
		verified := func(i int) {
			t.Helper()
			id := c.MustPublish(i, nodetest.Post{Agent: "bob", Body: "Here I am again."}).Entry.ID
			if _, text, err := c.Nodes[i].GetText("/api/entries/" + id); err != nil || !strings.Contains(text, `"nameVerified":true`) {
				t.Errorf("the address does not prove the name any more: %s, %v", text, err)
			}
		}
		verified(1)
		c.WaitConverged()
		stop()
		key := string(epochIn(t, c.Nodes[0].DataDir()).Key)
		with := func(i int) []string {
			found, err := fsmtest.FindText(c.Nodes[i].DataDir(), key)
			if err != nil {
				return []string{err.Error()} // a table that is being written
			}
			return found
		}
		for _, i := range all {
			found := with(i)
			table := slices.ContainsFunc(found, func(name string) bool { return strings.HasSuffix(name, ".sst") })
			if !table || !slices.Contains(found, "raft.db") {
				t.Fatalf("node %d: the key is in %s while it is used: the test finds too little", i, found)
			}
		}
		c.startAt(longAgo, all...)
		c.waitEpoch(2, all...)
		verified(0)
		c.WaitConverged()
		if found := with(0); len(found) == 0 {
			t.Error("the key of the last epoch is gone already")
		}
		away := c.Follower()
		stop()
		here := c.Others(away)
		c.startAt(0, here...)
		c.waitEpoch(3, here...)
		c.Kill(here[1]) // in the middle of it, or before
		c.Start(here[1])
		gone := func(i int) {
			t.Helper()
			c.Eventually(fmt.Sprintf("node %d has no key of the first epoch", i), func() error { return noneOf(with(i)) })
		}
		gone(here[0])
		gone(here[1])
		verified(here[0])
		if found := with(away); len(found) == 0 {
			t.Error("the one that is away has lost the key already: the test shows nothing")
		}
		c.Nodes[away].Config.ClockOffset = 0
		c.Start(away)
		gone(away)
		joined := c.Join().Index()
		c.WaitConverged()
		gone(joined)
		verified(joined)
	})
}
