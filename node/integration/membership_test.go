package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/nodetest"
)

func TestSingleNodeGrows(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	first := c.MustPublish(0, nodetest.Post{Body: "alone"})
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
	c.MustPublish(1, nodetest.Post{Body: "without the first"})
}

// TestSecondClusterIsNotFormed: a node that would form a cluster joins the one
// that is there.
func TestSecondClusterIsNotFormed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.MustPublish(0, nodetest.Post{Body: "alone"})
	for range 2 {
		nd := c.Add(3)
		nd.Config.Join = c.GossipAddrs()
		c.Start(nd.Index())
	}
	c.WaitReady()
	c.WaitVoters()
	if got := len(c.All(2, nil)); got != 1 {
		t.Errorf("the newest node lists %d entries", got)
	}
}

func TestWipedNodeIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.MustPublish(0, nodetest.Post{Body: "before"})
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
	c.MustPublish(c.Running()[0], nodetest.Post{Body: "after"})
}

// TestNonVoter: a read replica serves and keeps up, and never votes, also when it
// is started anew.
func TestNonVoter(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	replica := c.Add(1)
	replica.Config.NonVoter, replica.Config.Join = true, c.GossipAddrs()
	c.Start(1)
	c.WaitReady()
	for range 2 {
		e := c.MustPublish(1, nodetest.Post{Body: "through the replica"})
		if _, status, err := c.Nodes[0].Get(e.Entry.ID); err != nil || status != http.StatusOK {
			t.Errorf("the voter has it not: %d, %v", status, err)
		}
		voter, err := c.Nodes[0].Status()
		if err != nil || voter.Membership != "voter" || len(voter.Voters) != 1 {
			t.Errorf("the voter says %+v, %v", voter, err)
		}
		c.Eventually("the replica is stable", func() string {
			h, _ := c.Nodes[0].Run.Health()
			if len(h.Servers) != 2 || !h.Healthy {
				return fmt.Sprintf("%+v", h)
			}
			return ""
		})
		if s, err := replica.Status(); err != nil || s.Membership != "non-voter" {
			t.Errorf("the replica says %+v, %v", s, err)
		}
		for i, want := range []string{"\ncommons_voter 1\n", "\ncommons_voter 0\n"} {
			if _, served, err := c.Nodes[i].GetText("/metrics"); err != nil || !strings.Contains(served, want) {
				t.Errorf("node %d does not measure %q, %v", i, want, err)
			}
		}
		c.Stop(1)
		c.MustPublish(0, nodetest.Post{Body: "without the replica"})
		c.Start(1)
		c.WaitReady()
	}
}

// TestRemovedNodeSaysSo: a node whose place was taken while it was away says that
// it was removed, and leaves the others alone.
func TestRemovedNodeSaysSo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	victim := c.Follower()
	old := c.Nodes[victim]
	c.Kill(victim)
	heir := c.Add(1)
	heir.Config.NodeID, heir.Config.Join = old.Config.NodeID, c.GossipAddrs()
	c.Start(heir.Index())
	c.WaitReady()
	c.WaitVoters()
	leader := c.WaitLeader()
	c.Start(victim)
	c.Eventually("it says so", func() string {
		s, err := old.Status()
		if err != nil {
			return err.Error()
		}
		status, ready, err := old.GetText("/readyz")
		if s.Membership != "removed" || status != http.StatusServiceUnavailable || !strings.Contains(ready, "was removed from its cluster") {
			return fmt.Sprintf("%+v, %d, %s, %v", s, status, ready, err)
		}
		return ""
	})
	c.WaitLogged(victim, "this server was removed from its cluster")
	c.MustPublish(leader, nodetest.Post{Body: "undisturbed"})
	outside, err := old.Status()
	if err != nil {
		t.Fatal(err)
	}
	if inside, err := c.Nodes[leader].Status(); err != nil || outside.Term > inside.Term {
		t.Errorf("its term is %d, the cluster's %d (%v): it held elections", outside.Term, inside.Term, err)
	}
}

// TestLeavesThatRaceKeepAQuorum: of four voters one is dead, and the three others
// leave at once. Each may, as long as the others stay; only one can.
func TestLeavesThatRaceKeepAQuorum(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4)
	c.WaitVoters()
	c.Kill(c.Follower())
	c.WaitLeader()
	type outcome struct {
		node int
		err  error
	}
	leaving := c.Running()
	outcomes := make(chan outcome, len(leaving))
	for _, i := range leaving {
		go func() {
			_, err := operate[admin.ServerRef](c, i, admin.PathLeave, nil)
			outcomes <- outcome{i, err}
		}()
	}
	left := 0
	for range leaving {
		o := <-outcomes
		if o.err == nil {
			left++
			if err := c.Nodes[o.node].Wait(); err != nil {
				t.Errorf("node %d has left and ended with %v", o.node, err)
			}
			continue
		}
		rejected(t, o.err, http.StatusConflict, "no majority")
	}
	if left > 1 {
		t.Fatalf("%d of 3 have left a cluster of 4 of which one was dead", left)
	}
	c.WaitLeader()
	c.MustPublish(c.Running()[0], nodetest.Post{Body: "a quorum has stayed"})
}

// TestRejectedNodesSayWhatToDo: a node that the cluster it wants to join does not
// take is not ready, and says why, also when it has formed one of its own before.
func TestRejectedNodesSayWhatToDo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	unready := func(nd *nodetest.Node, texts ...string) {
		t.Helper()
		c.Eventually("it says why it is not ready", func() string {
			ready, text := c.problems(nd)
			for _, want := range texts {
				if ready || !strings.Contains(text, want) {
					return fmt.Sprintf("ready %v, without %q: %s", ready, want, text)
				}
			}
			return ""
		})
	}
	twin := c.Add(1)
	twin.Config.NodeID, twin.Config.Join = c.Nodes[0].Config.NodeID, []string{c.Nodes[0].Config.GossipAddr}
	c.Start(twin.Index())
	unready(twin, "rejects this node: "+c.Nodes[0].ServerID(), "give this node another --node-id")
	c.WaitLogged(twin.Index(), `level=WARN msg="not part of a cluster yet"`)

	other := c.Add(1)
	c.Start(other.Index())
	c.WaitReady(other.Index())
	c.Stop(other.Index())
	other.Config.Join = []string{c.Nodes[0].Config.GossipAddr}
	c.Start(other.Index())
	unready(other, "belongs to cluster", "empty this node's data directory", c.Nodes[0].ServerID())
	if status, body, err := c.Nodes[0].GetText("/readyz"); err != nil || status != http.StatusOK {
		t.Errorf("who rejects it is not ready: %d, %v: %s", status, err, body)
	}
}

// TestOtherNumberOfFirstVotersIsSaid: both sides name the other.
func TestOtherNumberOfFirstVotersIsSaid(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	two, three := c.Add(2), c.Add(3)
	for _, nd := range c.Nodes {
		nd.Config.Join = c.GossipAddrs()
	}
	c.Start(0)
	c.Start(1)
	for _, side := range []struct {
		at   *nodetest.Node
		want string
	}{
		{two, "server " + three.ServerID() + " was started with --bootstrap-expect 3, this node with 2"},
		{three, "server " + two.ServerID() + " was started with --bootstrap-expect 2, this node with 3"},
	} {
		c.Eventually("the numbers are said", func() string {
			if ready, text := c.problems(side.at); ready || !strings.Contains(text, side.want) {
				return text
			}
			return ""
		})
		c.WaitLogged(side.at.Index(), side.want)
	}
}
