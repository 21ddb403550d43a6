package nodetest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/node"
)

func TestThreeNodes(t *testing.T) {
	c := New(t, 3)
	c.WaitVoters()
	for i := range c.Nodes {
		a := c.MustPublish(i, Post{Agent: "ada", Body: fmt.Sprintf("from node %d", i)})
		for j := range c.Nodes {
			page, status, err := c.Nodes[j].List(url.Values{"min_index": {strconv.FormatUint(a.Index, 10)}})
			if err != nil || status != http.StatusOK {
				t.Fatalf("list on node %d: %d, %v", j, status, err)
			}
			if len(page.Entries) != i+1 || page.Entries[0].ID != a.Entry.ID {
				t.Errorf("node %d lists %v after %s was written on node %d", j, page.Entries, a.Entry.ID, i)
			}
			if e, status, err := c.Nodes[j].Get(a.Entry.ID); err != nil || status != http.StatusOK || e != a.Entry {
				t.Errorf("node %d has %+v (%d, %v), want %+v", j, e, status, err, a.Entry)
			}
		}
	}
	c.WaitConverged()
	leader := c.WaitLeader()
	for i := range c.Nodes {
		s, err := c.Nodes[i].Status()
		if err != nil {
			t.Fatal(err)
		}
		if want := i == leader; (s.Role == "leader") != want || s.Version != "test" || s.Node != c.Nodes[i].ServerID() {
			t.Errorf("status of node %d: %+v; leader is %d", i, s, leader)
		}
		_, metrics, err := c.Nodes[i].get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"commons_applied_index ", "commons_voters 3", "raft_state_leader ", "go_goroutines "} {
			if !strings.Contains(metrics, name) {
				t.Errorf("metrics of node %d have no %q", i, name)
			}
		}
	}
}

// TestOneRequestOneEntry sends one request_id to all nodes at once.
func TestOneRequestOneEntry(t *testing.T) {
	c := New(t, 3)
	const rounds = 20
	for round := range rounds {
		ids := make(chan string, len(c.Nodes))
		for i := range c.Nodes {
			go func() {
				a, err := c.Nodes[i].Publish(context.Background(), Post{
					Agent: "ada", Body: fmt.Sprintf("round %d at node %d", round, i), RequestID: fmt.Sprintf("round-%03d", round),
				})
				if err != nil {
					t.Error(err)
				}
				ids <- a.Entry.ID
			}()
		}
		first := <-ids
		for range c.Nodes[1:] {
			if id := <-ids; id != first || id == "" {
				t.Errorf("round %d: answers name %q and %q", round, first, id)
			}
		}
	}
	c.WaitConverged()
	if got := len(c.All(0, nil)); got != rounds {
		t.Errorf("%d entries from %d request_ids", got, rounds)
	}
}

func TestKillLeaderUnderLoad(t *testing.T) {
	c := New(t, 3)
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		leader := c.WaitLeader()
		var others []int
		for i := range c.Nodes {
			if i != leader {
				others = append(others, i)
			}
		}
		load := c.StartLoad(8, others...)
		load.WaitMore(50)
		c.Kill(leader)
		load.WaitMore(50)
		c.Start(leader)
		c.WaitReady(leader)
		load.WaitMore(20)
		load.Stop()
		load.Check()
	}
	c.WaitVoters()
}

// TestKillFollowerUnderLoad: the others see no error, and the follower comes back.
func TestKillFollowerUnderLoad(t *testing.T) {
	c := New(t, 3)
	follower := c.Follower()
	var others []int
	for i := range c.Nodes {
		if i != follower {
			others = append(others, i)
		}
	}
	load := c.StartLoad(8, others...)
	load.WaitMore(50)
	c.Kill(follower)
	load.WaitMore(100)
	c.Start(follower)
	c.WaitReady(follower)
	load.Stop()
	load.Check()
}

// TestRollingRestart stops each node in good order under load.
func TestRollingRestart(t *testing.T) {
	c := New(t, 3)
	for i := range c.Nodes {
		var others []int
		for j := range c.Nodes {
			if j != i {
				others = append(others, j)
			}
		}
		load := c.StartLoad(4, others...)
		load.WaitMore(20)
		c.Stop(i)
		load.WaitMore(50)
		c.Start(i)
		c.WaitReady(i)
		load.Stop()
		load.Check()
	}
	c.WaitVoters()
}

// TestStopLeaderHandsOver: the next leader is there without an election timeout.
func TestStopLeaderHandsOver(t *testing.T) {
	c := New(t, 3)
	leader := c.WaitLeader()
	c.Stop(leader)
	if !c.Nodes[leader].Logged("handed leadership over") {
		t.Error("leadership was not handed over")
	}
	c.WaitLeader()
	c.Start(leader)
	c.WaitReady()
	c.WaitVoters()
}

func TestKillAll(t *testing.T) {
	c := New(t, 3)
	load := c.StartLoad(8, 0, 1, 2)
	load.WaitMore(100)
	c.Kill(0, 1, 2)
	load.cancel()
	load.wg.Wait()
	load.failed = nil // whoever was under way has lost the connection
	for i := range c.Nodes {
		c.Start(i)
	}
	c.WaitReady()
	c.WaitConverged()
	found := map[string]bool{}
	for _, e := range c.All(0, url.Values{"channel": {load.channel}}) {
		found[e.ID] = true
	}
	for request, id := range load.acked {
		if !found[id] {
			t.Errorf("%s was acknowledged as %s and is lost", request, id)
		}
	}
	c.WaitVoters()
	c.MustPublish(1, Post{Body: "after the restart"})
}

// TestRequestIDAfterRestart replays a request_id after everything was restarted.
func TestRequestIDAfterRestart(t *testing.T) {
	c := New(t, 3, smallLog)
	p := Post{Agent: "ada", Body: "written once", RequestID: "written-once"}
	first := c.MustPublish(0, p)
	c.fill(1, 200)
	c.Kill(0, 1, 2)
	for i := range c.Nodes {
		c.Start(i)
	}
	c.WaitReady()
	for i := range c.Nodes {
		a, err := c.Nodes[i].Publish(context.Background(), p)
		if err != nil || a.Status != http.StatusOK || !a.Duplicate || a.Entry.ID != first.Entry.ID {
			t.Errorf("replay on node %d: %+v, %v; want %s again", i, a, err, first.Entry.ID)
		}
	}
}

// smallLog makes nodes take snapshots after little log.
func smallLog(cfg *node.Config) {
	cfg.Tuning.SnapshotBytes, cfg.Tuning.TrailingBytes = 64<<10, 16<<10
}

// fill publishes n entries of 1 KB on a node.
func (c *Cluster) fill(i, n int) {
	c.t.Helper()
	text := strings.Repeat("lorem ipsum ", 80)
	for k := range n {
		c.MustPublish(i, Post{Agent: "filler", Channel: "fill", Body: fmt.Sprintf("%d %s", k, text)})
	}
}

func TestLaggingFollowerGetsSnapshot(t *testing.T) {
	c := New(t, 3, smallLog)
	follower := c.Follower()
	c.fill(follower, 20)
	c.Kill(follower)
	leader := c.WaitLeader()
	c.fill(leader, 300)
	c.Start(follower)
	c.WaitReady(follower)
	c.WaitConverged()
	if !c.Nodes[follower].Logged("Installed remote snapshot") {
		t.Error("the follower caught up without a snapshot; the test shows nothing")
	}
	a := c.MustPublish(follower, Post{Body: "after the snapshot"})
	if got := len(c.All(follower, url.Values{"channel": {"fill"}})); got != 320 {
		t.Errorf("the follower lists %d entries of 320", got)
	}
	if e, status, err := c.Nodes[leader].Get(a.Entry.ID); err != nil || status != http.StatusOK {
		t.Errorf("the leader has %+v, %d, %v", e, status, err)
	}
	// What was installed survives a crash.
	c.Kill(follower)
	c.Start(follower)
	c.WaitReady(follower)
	c.WaitConverged()
}

func TestStrongReadAfterElection(t *testing.T) {
	c := New(t, 3)
	leader := c.WaitLeader()
	var last Answer
	for i := range 10 {
		last = c.MustPublish(leader, Post{Body: fmt.Sprintf("entry %d", i)})
	}
	c.Kill(leader)
	for _, i := range c.Running() {
		page, status, err := c.Nodes[i].List(url.Values{"consistency": {"strong"}})
		if err != nil || status != http.StatusOK {
			t.Errorf("strong read on node %d: %d, %q, %v", i, status, page.Code, err)
		} else if len(page.Entries) != 10 || page.Entries[0].ID != last.Entry.ID {
			t.Errorf("strong read on node %d misses acknowledged entries: %v", i, page.Entries)
		}
	}
}

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

func TestCorruptLogIsRefused(t *testing.T) {
	c := New(t, 3)
	c.fill(0, 20)
	c.WaitConverged()
	victim := c.Follower()
	c.Kill(victim)
	flipLogBit(t, c.Nodes[victim].DataDir())
	err := c.TryStart(victim)
	if err == nil || !strings.Contains(err.Error(), "this node must resync") {
		t.Fatalf("a node with a flipped bit in its log started: %v", err)
	}
	c.Wipe(victim)
	c.Start(victim)
	c.WaitReady()
	c.WaitVoters()
	c.WaitConverged()
	if got := len(c.All(victim, nil)); got != 20 {
		t.Errorf("the resynchronised node lists %d entries of 20", got)
	}
}

func TestMinorityPartition(t *testing.T) {
	c := New(t, 3)
	leader := c.WaitLeader()
	c.MustPublish(leader, Post{Body: "before"})
	var majority []int
	for i := range c.Nodes {
		if i != leader {
			majority = append(majority, i)
		}
	}
	c.Isolate(leader)
	type outcome struct {
		Answer
		body string
		err  error
		took time.Duration
	}
	const lost = 4
	outcomes := make(chan outcome, lost)
	for k := range lost {
		go func() {
			start, body := time.Now(), fmt.Sprintf("minority %d", k)
			a, err := c.Nodes[leader].Publish(context.Background(), Post{Body: body})
			outcomes <- outcome{a, body, err, time.Since(start)}
		}()
	}
	c.WaitLeader(majority...)
	c.MustPublish(majority[0], Post{Body: "majority goes on"})
	c.MustPublish(majority[1], Post{Body: "majority goes on too"})
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
	c.MustPublish(leader, Post{Body: "healed"})
	c.WaitVoters()
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
			c := New(t, 3)
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
			load.WaitMore(300)
			before, err := c.Nodes[third].Status()
			if err != nil {
				t.Fatal(err)
			}
			load.WaitMore(300)
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
	c := New(t, 3)
	leader, follower := c.WaitLeader(), c.Follower()
	c.Cut(leader, follower) // Raft's messages do not arrive; the follower's questions do
	for i := range 5 {
		last := c.MustPublish(leader, Post{Body: fmt.Sprintf("entry %d", i)})
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
