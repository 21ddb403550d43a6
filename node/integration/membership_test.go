package integration

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
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
	e, err := c.Nodes[2].Client().Entry(t.Context(), first.Entry.ID)
	if diff := cmp.Diff(first.Entry, e); err != nil || diff != "" {
		t.Errorf("the newest node: %v\n%s", err, diff)
	}
	c.Kill(0)
	c.WaitLeader()
	c.MustPublish(1, nodetest.Post{Body: "without the first"})
}

// TestSecondClusterIsNotFormed: a node that would form a cluster joins the one
// that is there.
func TestSecondClusterIsNotFormed(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *testCluster) {
		c.MustPublish(0, nodetest.Post{Body: "alone"})
		for range 2 {
			nd := c.Add(3)
			nd.Config.Join = c.GossipAddrs()
			c.Start(nd.Index())
		}
		c.WaitReady()
		c.WaitVoters()
		check.Equal(t, len(c.All(2, client.EntryQuery{})), 1, "entries of the newest node")
	})
}

func TestWipedNodeIsReplaced(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
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
		c.Eventually("the wiped node has taken its old place", func() error {
			s := c.Nodes[witness].Status()
			if len(s.Voters) < 3 {
				t.Fatalf("only %v vote", s.Voters)
			}
			return nodetest.ErrorIf(slices.Contains(s.Voters, old) || !slices.Contains(s.Voters, replacement), "voters are %v", s.Voters)
		})
		c.WaitReady()
		c.WaitVoters()
		c.WaitConverged()
		// The new voter counts: the cluster bears the loss of another.
		c.Kill(c.Follower())
		c.WaitLeader()
		c.MustPublish(c.Running()[0], nodetest.Post{Body: "after"})
	})
}

// TestNonVoter: a read replica serves and keeps up, and never votes, also when it
// is started anew.
func TestNonVoter(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *testCluster) {
		replica := c.Add(1)
		replica.Config.NonVoter, replica.Config.Join = true, c.GossipAddrs()
		c.Start(1)
		c.WaitReady()
		for range 2 {
			e := c.MustPublish(1, nodetest.Post{Body: "through the replica"})
			check.Err(t, check.Last(c.Nodes[0].Client().Entry(t.Context(), e.Entry.ID)), nil, "the voter has it")
			if voter := c.Nodes[0].Status(); voter.Membership != "voter" || len(voter.Voters) != 1 {
				t.Errorf("the voter says %+v", voter)
			}
			c.Eventually("the replica is stable", func() error {
				h, _ := c.Nodes[0].Run.Members().Health()
				return nodetest.ErrorIf(len(h) != 2 || !h[0].Healthy || !h[1].Healthy, "%+v", h)
			})
			check.Equal(t, replica.Status().Membership, "non-voter", "the replica")
			for i, want := range []string{"\ncommons_voter 1\n", "\ncommons_voter 0\n"} {
				check.Contains(t, c.Nodes[i].Metrics(), want, "the metrics of node %d", i)
			}
			c.Stop(1)
			c.MustPublish(0, nodetest.Post{Body: "without the replica"})
			c.Start(1)
			c.WaitReady()
		}
	})
}

// TestRemovedNodeSaysSo: a node whose place was taken while it was away says that
// it was removed, answers no reads, and leaves the others alone.
func TestRemovedNodeSaysSo(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *testCluster) {
		victim := c.Follower()
		old := c.Nodes[victim]
		c.Stop(victim)
		heir := c.Add(1)
		heir.Config.NodeID, heir.Config.Join = old.Config.NodeID, c.GossipAddrs()
		c.Start(heir.Index())
		c.WaitReady()
		c.WaitVoters()
		leader := c.WaitLeader()
		old.Config.AnswerBehind = true // until it knows
		c.Start(victim)
		c.Eventually("it says so", func() error {
			s := old.Status()
			status, ready, err := old.GetText("/readyz")
			return nodetest.ErrorIf(s.Membership != "removed" || status != http.StatusServiceUnavailable || !strings.Contains(ready, "was removed from its cluster"), "%+v, %d, %s, %v", s, status, ready, err)
		})
		c.WaitLogged(victim, "this server was removed from its cluster")
		c.MustPublish(leader, nodetest.Post{Body: "undisturbed"})
		check.Equal(t, old.Status().Term > c.Nodes[leader].Status().Term, false, "it held elections: its term is above the cluster's")
		status, answer, err := old.GetText("/api/entries")
		check.Contains(t, answer, `"behind"`, "its answer to readers, %d %v", status, err)
	})
}

// TestLeavesThatRaceKeepAQuorum: of four voters one is dead, and the three others
// leave at once. Each may, as long as the others stay; only one can.
func TestLeavesThatRaceKeepAQuorum(t *testing.T) {
	virtual(t, 4, func(t *testing.T, c *testCluster) {
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
				var err error
				_ = await.Until(t.Context(), nodetest.Patience, await.Every, func() error {
					_, err = operate[admin.ServerRef](c, i, admin.PathLeave, nil)
					if err != nil && strings.Contains(err.Error(), "repeat") {
						return err
					}
					return nil
				})
				outcomes <- outcome{i, err}
			}()
		}
		left := 0
		for range leaving {
			o := <-outcomes
			if o.err == nil {
				left++
				check.Err(t, c.Nodes[o.node].Wait(), nil, "node %d has left and ended", o.node)
				continue
			}
			rejected(t, o.err, http.StatusConflict, "no majority")
		}
		if left > 1 {
			t.Fatalf("%d of 3 have left a cluster of 4 of which one was dead", left)
		}
		c.WaitLeader()
		c.MustPublish(c.Running()[0], nodetest.Post{Body: "a quorum has stayed"})
	})
}
