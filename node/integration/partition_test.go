package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

func TestMinorityPartition(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for writes to give up")
	}
	c := newCluster(t, 3)
	leader := c.WaitLeader()
	c.MustPublish(leader, nodetest.Post{Body: "before"})
	var majority []int
	for i := range c.Nodes {
		if i != leader {
			majority = append(majority, i)
		}
	}
	c.Isolate(leader)
	type outcome struct {
		nodetest.Answer
		body string
		err  error
		took time.Duration
	}
	const lost = 4
	outcomes := make(chan outcome, lost)
	for k := range lost {
		go func() {
			start, body := time.Now(), fmt.Sprintf("minority %d", k)
			a, err := c.Nodes[leader].Publish(context.Background(), nodetest.Post{Body: body})
			outcomes <- outcome{a, body, err, time.Since(start)}
		}()
	}
	c.WaitLeader(majority...)
	c.MustPublish(majority[0], nodetest.Post{Body: "majority goes on"})
	c.MustPublish(majority[1], nodetest.Post{Body: "majority goes on too"})
	if page, status, err := c.Nodes[leader].List(url.Values{"consistency": {"strong"}}); err != nil || status != http.StatusServiceUnavailable || page.Code != "no_leader" {
		t.Errorf("strong read in the minority: %d, %q, %v; want 503 no_leader", status, page.Code, err)
	}
	if page, status, err := c.Nodes[leader].List(nil); err != nil || status != http.StatusOK || len(page.Entries) != 1 {
		t.Errorf("local read in the minority: %d, %v, %v", status, page.Entries, err)
	}
	never := map[string]bool{}
	for range lost {
		o := <-outcomes
		if o.err != nil || o.Status != http.StatusServiceUnavailable || (o.Code != "not_enqueued" && o.Code != "outcome_unknown") {
			t.Errorf("write in the minority: %+v, %v; want 503", o.Answer, o.err)
		}
		if o.took > 15*time.Second {
			t.Errorf("write in the minority was answered after %v", o.took)
		}
		if o.Code == "not_enqueued" {
			never[o.body] = true
		}
	}
	c.Heal()
	c.WaitReady()
	c.WaitConverged()
	for _, e := range c.All(leader, nil) {
		if never[e.Body] {
			t.Errorf("%q was reported as certainly not written, and is there", e.Body)
		}
	}
	c.MustPublish(leader, nodetest.Post{Body: "healed"})
	c.WaitVoters()
}

// patientRaft keeps a busy machine from causing elections.
func patientRaft(cfg *config.Config) {
	cfg.Heartbeat, cfg.Election, cfg.Lease = time.Second, time.Second, 700*time.Millisecond
}

// TestOneWayCuts cuts single directions between the leader and one follower: the
// other two go on, and the cut-off node does not force elections.
func TestOneWayCuts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		fromLeader   bool
		fromFollower bool
	}{{"leader to follower", true, false}, {"follower to leader", false, true}, {"both", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && tt.name != "both" {
				t.Skip("the other direction is tried in full runs")
			}
			c := newCluster(t, 3, patientRaft)
			leader := c.WaitLeader()
			follower := c.Follower()
			third := 3 - leader - follower
			if tt.fromLeader {
				c.Cut(leader, follower)
			}
			if tt.fromFollower {
				c.Cut(follower, leader)
			}
			load := c.StartLoad(4, leader, third)
			load.WaitMore(100)
			before, err := c.Nodes[third].Status()
			if err != nil {
				t.Fatal(err)
			}
			// A node that forced elections would do so once a second.
			for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
				load.WaitMore(10)
			}
			after, err := c.Nodes[third].Status()
			if err != nil {
				t.Fatal(err)
			}
			if after.Term > before.Term+1 {
				t.Errorf("elections go on: term %d, then %d", before.Term, after.Term)
			}
			load.Stop()
			c.Heal()
			c.WaitReady()
			load.Check()
		})
	}
}

// TestStrongReadOnHeldUpFollower: a follower whose Raft link is gone answers a
// strong read late or not at all, but never from the past.
func TestStrongReadOnHeldUpFollower(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for reads to give up")
	}
	c := newCluster(t, 3)
	leader, follower := c.WaitLeader(), c.Follower()
	c.Cut(leader, follower) // Raft's messages do not arrive; the follower's questions do
	for i := range 5 {
		last := c.MustPublish(leader, nodetest.Post{Body: fmt.Sprintf("entry %d", i)})
		page, status, err := c.Nodes[follower].List(url.Values{"consistency": {"strong"}})
		switch {
		case err != nil:
			t.Fatal(err)
		case status == http.StatusOK && (len(page.Entries) == 0 || page.Entries[0].ID != last.Entry.ID):
			t.Fatalf("a strong read misses %s: %v", last.Entry.ID, page.Entries)
		case status != http.StatusOK && status != http.StatusServiceUnavailable:
			t.Fatalf("a strong read is answered %d", status)
		}
		if i == 1 {
			c.Heal()
			c.WaitReady()
		}
	}
}
