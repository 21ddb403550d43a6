package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

func TestMinorityPartition(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for writes to give up")
	}
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, nodetest.Impatient)
		leader := c.WaitLeader()
		c.MustPublish(leader, nodetest.Post{Body: "before"})
		majority := c.Others(leader)
		c.Isolate(leader)
		type outcome struct {
			nodetest.Answer
			body string
			err  error
		}
		const lost = 4
		outcomes := make(chan outcome, lost)
		for k := range lost {
			go func() {
				body := fmt.Sprintf("minority %d", k)
				a, err := c.Nodes[leader].Publish(context.Background(), nodetest.Post{Body: body})
				outcomes <- outcome{a, body, err}
			}()
		}
		c.WaitLeader(majority...)
		c.MustPublish(majority[0], nodetest.Post{Body: "majority goes on"})
		c.MustPublish(majority[1], nodetest.Post{Body: "majority goes on too"})
		_, err := c.Nodes[leader].Client().Strong().EntryPage(t.Context(), client.EntryQuery{})
		if rejection, is := errors.AsType[*client.Error](err); !is || rejection.Code != "no_leader" {
			t.Errorf("strong read in the minority: %v; want 503 no_leader", err)
		}
		if page, err := c.Nodes[leader].Client().EntryPage(t.Context(), client.EntryQuery{}); err != nil || len(page.Items) != 1 {
			t.Errorf("local read in the minority: %v, %v", page.Items, err)
		}
		never := map[string]bool{}
		for range lost {
			o := <-outcomes
			if o.err != nil || o.Status != http.StatusServiceUnavailable || (o.Code != "not_enqueued" && o.Code != "outcome_unknown") {
				t.Errorf("write in the minority: %+v, %v; want 503", o.Answer, o.err)
			}
			if o.Code == "not_enqueued" {
				never[o.body] = true
			}
		}
		c.Heal()
		c.WaitReady()
		c.WaitConverged()
		for _, e := range c.All(leader, client.EntryQuery{}) {
			if never[e.Body] {
				t.Errorf("%q was reported as certainly not written, and is there", e.Body)
			}
		}
		c.MustPublish(leader, nodetest.Post{Body: "healed"})
		c.WaitVoters()
	})
}

// patientRaft keeps a busy machine from causing elections.
func patientRaft(cfg *config.Config) {
	cfg.Heartbeat = 2 * time.Second
}

// TestOneWayCuts cuts single directions between the leader and one follower: the
// other two go on, and the cut-off node does not force elections.
func TestOneWayCuts(t *testing.T) {
	for _, tt := range []struct {
		name         string
		fromLeader   bool
		fromFollower bool
	}{{"leader to follower", true, false}, {"follower to leader", false, true}, {"both", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			nodetest.Virtual(t, func(t *testing.T) {
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
				before := c.Nodes[third].Status()
				// A node that forced elections would do so once a second.
				for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
					load.WaitMore(10)
				}
				after := c.Nodes[third].Status()
				if after.Term > before.Term+1 {
					t.Errorf("elections go on: term %d, then %d", before.Term, after.Term)
				}
				load.Stop()
				c.Heal()
				c.WaitReady()
				load.Check()
			})
		})
	}
}

// TestStrongReadOnHeldUpFollower: a follower whose Raft link is gone answers a
// strong read late or not at all, but never from the past.
func TestStrongReadOnHeldUpFollower(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, nodetest.Impatient)
		leader, follower := c.WaitLeader(), c.Follower()
		c.Cut(leader, follower) // Raft's messages do not arrive; the follower's questions do
		for i := range 5 {
			last := c.MustPublish(leader, nodetest.Post{Body: fmt.Sprintf("entry %d", i)})
			page, err := c.Nodes[follower].Client().Strong().EntryPage(t.Context(), client.EntryQuery{})
			rejection, isRejection := errors.AsType[*client.Error](err)
			switch {
			case err == nil && (len(page.Items) == 0 || page.Items[0].ID != last.Entry.ID):
				t.Fatalf("a strong read misses %s: %v", last.Entry.ID, page.Items)
			case err != nil && (!isRejection || rejection.Status != http.StatusServiceUnavailable):
				t.Fatalf("a strong read is answered %v", err)
			}
			if i == 1 {
				c.Heal()
				c.WaitReady()
			}
		}
	})
}
