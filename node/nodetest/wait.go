package nodetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/commons-cluster/commons/node/admin"
)

// Eventually polls until the condition returns "" and fails the test with the
// last answer when the test's patience ends.
func (c *Cluster) Eventually(what string, condition func() (missing string)) {
	c.t.Helper()
	c.Within(Patience, what, condition)
}

// Within is Eventually with another patience.
func (c *Cluster) Within(patience time.Duration, what string, condition func() (missing string)) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		missing := condition()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: not within %v: %s", what, patience, missing)
		}
		time.Sleep(pollEvery)
	}
}

// WaitReady waits until the nodes, all running ones if none are named, are ready.
func (c *Cluster) WaitReady(nodes ...int) {
	c.t.Helper()
	if len(nodes) == 0 {
		nodes = c.Running()
	}
	for _, i := range nodes {
		c.Eventually(fmt.Sprintf("node %d ready", i), func() string {
			status, body, err := c.Nodes[i].GetText("/readyz")
			if err != nil {
				return err.Error()
			}
			if status != 200 {
				return body
			}
			return ""
		})
	}
}

// WaitLeader waits until the nodes, all running ones if none are named, agree on
// a leader among them, and returns it.
func (c *Cluster) WaitLeader(nodes ...int) int {
	c.t.Helper()
	if len(nodes) == 0 {
		nodes = c.Running()
	}
	leader := -1
	c.Eventually("a leader", func() string {
		leader = -1
		for _, i := range nodes {
			s, err := c.Nodes[i].Status()
			if err != nil {
				return err.Error()
			}
			if s.Leader == nil {
				return fmt.Sprintf("node %d knows no leader", i)
			}
			c.mu.Lock()
			led := c.ids[*s.Leader]
			c.mu.Unlock()
			if !slices.Contains(nodes, led) || leader >= 0 && led != leader {
				return fmt.Sprintf("node %d follows %s", i, *s.Leader)
			}
			leader = led
		}
		return ""
	})
	return leader
}

// Follower returns a running node that does not lead.
func (c *Cluster) Follower() int {
	c.t.Helper()
	leader := c.WaitLeader()
	for _, i := range c.Running() {
		if i != leader {
			return i
		}
	}
	c.t.Fatal("there is no follower")
	return -1
}

// WaitVoters waits until every running node says that the voters are exactly the
// running nodes.
func (c *Cluster) WaitVoters() {
	c.t.Helper()
	running := c.Running()
	want := make([]string, 0, len(running))
	for _, i := range running {
		want = append(want, c.Nodes[i].ServerID())
	}
	slices.Sort(want)
	c.Eventually("the voters", func() string {
		for _, i := range c.Running() {
			s, err := c.Nodes[i].Status()
			if err != nil {
				return err.Error()
			}
			got := slices.Clone(s.Voters)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				return fmt.Sprintf("node %d says %v, want %v", i, got, want)
			}
		}
		return ""
	})
}

// WaitConverged waits until all running nodes have applied the same index, and
// fails the test when their digests differ there.
func (c *Cluster) WaitConverged() {
	c.t.Helper()
	c.Eventually("equal indexes", func() string {
		running := c.Running()
		first, digest := c.Nodes[running[0]].Run.Digest()
		for _, i := range running[1:] {
			index, other := c.Nodes[i].Run.Digest()
			if index != first {
				return fmt.Sprintf("node %d is at %d, node %d at %d", running[0], first, i, index)
			}
			if other != digest {
				c.t.Fatalf("at index %d node %d has the digest %x, node %d %x", index, running[0], digest, i, other)
			}
		}
		return ""
	})
}

// Status returns what the node says of itself to operators.
func (nd *Node) Status() (admin.Status, error) {
	if nd.Run == nil {
		return admin.Status{}, errors.New("the node does not run")
	}
	return nd.Run.Status(), nil
}
