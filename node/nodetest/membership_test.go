package nodetest

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

func TestSingleNodeGrows(t *testing.T) {
	c := New(t, 1)
	first := c.MustPublish(0, Post{Body: "alone"})
	for range 2 {
		c.Join()
		c.WaitReady()
	}
	c.WaitVoters()
	c.WaitConverged()
	if e, status, err := c.Nodes[2].Get(first.Entry.ID); err != nil || status != http.StatusOK || e != first.Entry {
		t.Errorf("the newest node has %+v (%d, %v), want %+v", e, status, err, first.Entry)
	}
	c.Kill(0)
	c.WaitLeader()
	c.MustPublish(1, Post{Body: "without the first"})
}

// TestSecondClusterIsNotFormed: a node that would form a cluster joins the one
// that is there.
func TestSecondClusterIsNotFormed(t *testing.T) {
	c := New(t, 1)
	c.MustPublish(0, Post{Body: "alone"})
	for range 2 {
		nd := c.add(3)
		nd.cfg.Join = c.gossipAddrs()
		c.Start(nd.index)
	}
	c.WaitReady()
	c.WaitVoters()
	if got := len(c.All(2, nil)); got != 1 {
		t.Errorf("the newest node lists %d entries", got)
	}
}

func TestWipedNodeIsReplaced(t *testing.T) {
	c := New(t, 3)
	c.MustPublish(0, Post{Body: "before"})
	victim := c.Follower()
	old := c.Nodes[victim].ServerID()
	witness := c.WaitLeader()
	c.Kill(victim)
	c.Wipe(victim)
	c.Start(victim)
	replacement := c.Nodes[victim].ServerID()
	if replacement == old {
		t.Fatal("the wiped node kept its server id")
	}
	c.Eventually("the wiped node has taken its old place", func() string {
		s, err := c.Nodes[witness].Status()
		if err != nil {
			return err.Error()
		}
		if len(s.Voters) < 3 {
			t.Fatalf("only %v vote", s.Voters)
		}
		if slices.Contains(s.Voters, old) || !slices.Contains(s.Voters, replacement) {
			return fmt.Sprintf("voters are %v", s.Voters)
		}
		return ""
	})
	c.WaitReady()
	c.WaitVoters()
	c.WaitConverged()
	// The new voter counts: the cluster bears the loss of another.
	c.Kill(c.Follower())
	c.WaitLeader()
	c.MustPublish(c.Running()[0], Post{Body: "after"})
}
