package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// home asks a node for an agent's home after since.
func home(nd *nodetest.Node, agent string, since int64, wait time.Duration) (client.Home, error) {
	return nd.Client().Home(context.Background(), client.HomeQuery{For: agent, Since: since, Wait: wait})
}

// waitCorrected waits until a node whose clock is off has compared it.
func (c *testCluster) waitCorrected(i int) {
	c.t.Helper()
	c.Eventually("the clock is compared", func() error {
		return nodetest.ErrorIf(correction(c.Nodes[i]) == 0, "no correction")
	})
}

// TestHomeWithASkewedClock asks a node whose clock is five minutes behind: by the
// voters' clocks a since of another node is not in the future. It waits as long as
// it is asked to, and cut off from the others it hands out no earlier instant, with
// which an item would come twice.
func TestHomeWithASkewedClock(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		const skewed, other = 2, 0
		started := 0
		c := newCluster(t, 3, func(cfg *config.Config) {
			if started == skewed {
				cfg.ClockOffset = -5 * time.Minute
			}
			started++
		})
		c.WaitVoters()
		c.waitCorrected(skewed)
		since := c.MustPublish(other, nodetest.Post{Body: "Before anybody waits."}).Entry.CreatedAt
		c.WaitConverged()
		answer := c.waitAt(skewed, "ada", since)
		a := c.MustPublish(other, nodetest.Post{Body: "This is for @ada."})
		check.Equal(t, <-answer, a.Entry.ID, "waiting at the node")

		c.WaitLeader()
		c.Isolate(skewed)
		c.WaitLeader(other, 1)
		c.MustPublish(other, nodetest.Post{Body: "This is for @ada, too."})
		h, err := home(c.Nodes[other], "ada", since, 0)
		if err != nil || len(h.ForYou) != 2 {
			t.Fatalf("%+v %v", h, err)
		}
		behind := must.Get(home(c.Nodes[skewed], "ada", h.Now, 0))(t)
		check.Equal(t, behind.Now, h.Now, "cut off, after: now")
		check.Empty(t, behind.ForYou, "cut off, after: for you")
		c.Heal()
		c.WaitReady()
	})
}

// waitAt has an agent wait at a node for what comes after an instant, also any job. It returns
// once the call is held; the answer comes on the channel.
func (c *testCluster) waitAt(i int, agent string, since int64) <-chan string {
	c.t.Helper()
	answer := make(chan string, 1)
	go func() {
		// The client gives up before the server would answer by itself.
		var h struct {
			ForYou, OpenJobs []struct {
				ID  string
				Why string
				New bool
			}
		}
		if _, err := c.Nodes[i].GetJSON(fmt.Sprintf("/api/home?for=%s&since=%d&wait=60&jobs=any", agent, since), &h); err != nil {
			answer <- err.Error()
			return
		}
		var ids []string
		for _, item := range append(h.ForYou, h.OpenJobs...) {
			if item.Why != "" || item.New {
				ids = append(ids, item.ID)
			}
		}
		answer <- strings.Join(ids, " ")
	}()
	c.Eventually(fmt.Sprintf("%s waits at node %d", agent, i), func() error {
		requests := c.Nodes[i].Metric("commons_http_requests_in_flight") // it, and this question
		return nodetest.ErrorIf(requests != 2, "%v requests", requests)
	})
	return answer
}

// TestHomeWaitsOnEveryNode holds that a call that waits on any node is woken by
// what was written on another one, also while the leader changes.
func TestHomeWaitsOnEveryNode(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *testCluster) {
		since := c.MustPublish(0, nodetest.Post{Body: "Before anybody waits."}).Entry.CreatedAt
		c.WaitConverged()
		for i := range c.Nodes {
			agent := fmt.Sprintf("waiter-%d", i)
			answer := c.waitAt(i, agent, since)
			c.MustPublish((i+1)%len(c.Nodes), nodetest.Post{Body: "This is for somebody else."})
			a := c.MustPublish((i+2)%len(c.Nodes), nodetest.Post{Body: "This is for @" + agent})
			check.Equal(t, <-answer, a.Entry.ID, "waiting at node %d", i)
			answer = c.waitAt((i+1)%len(c.Nodes), agent, a.Entry.CreatedAt)
			var posted struct{ Job struct{ ID string } }
			must.Get(c.Nodes[i].PostJSON("/api/jobs", map[string]any{"agent": "poster", "title": "Count the boats", "body": "At noon."}, &posted))(t)
			check.Equal(t, <-answer, posted.Job.ID, "waiting for a job posted at node %d", i)
			var claimed struct{ Claim struct{ CreatedAt int64 } }
			act := map[string]any{"agent": "eve", "action": "claim", "job_id": posted.Job.ID}
			must.Get(c.Nodes[i].PostJSON("/api/jobs", act, &claimed))(t)
			answer = c.waitAt((i+2)%len(c.Nodes), agent, claimed.Claim.CreatedAt)
			act["action"] = "release"
			must.Get(c.Nodes[i].PostJSON("/api/jobs", act, &posted))(t)
			check.Equal(t, <-answer, posted.Job.ID, "waiting for a job given back at node %d", i)
			act["agent"], act["action"] = "poster", "close" // nobody waits for it any more
			must.Get(c.Nodes[i].PostJSON("/api/jobs", act, &posted))(t)
			c.WaitConverged() // a node that has not closed it yet would answer the next call with it
		}
		leader := c.WaitLeader()
		at, from := (leader+1)%len(c.Nodes), (leader+2)%len(c.Nodes)
		answer := c.waitAt(at, "patient", since)
		c.Kill(leader)
		a := c.MustPublish(from, nodetest.Post{Body: "Are you still there, @patient?"})
		check.Equal(t, <-answer, a.Entry.ID, "waiting through a change of leader")
	})
}
