package propose

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
)

var groups atomic.Uint64

// groupOf is a group of another node with one command.
func groupOf(text string) command.Group {
	return command.Group{Boot: command.BootID{9}, Floor: 1, Commands: []command.Command{{Seq: groups.Add(1), Payload: entryOf(text), From: sender}}}
}

// busyLeader is a leader with as many entries in flight as there may be.
func busyLeader(t *testing.T) *fakeNode {
	t.Helper()
	c := newCluster(t, 2)
	n := c.lead("node-0")
	n.set(func(n *fakeNode) { n.stalled = true })
	for i := range MaxInFlight {
		go n.leader.submit(context.Background(), groupOf("filler"))
		eventually(t, "it is in flight", func() bool {
			return n.get(func(n *fakeNode) int { return len(n.uncommitted) }) == i+1
		})
	}
	return n
}

// queue submits a group and waits until it stands in the leader's queue.
func queue(ctx context.Context, t *testing.T, n *fakeNode, text string) <-chan result {
	t.Helper()
	before := n.Stats().LeaderQueue
	ch := make(chan result, 1)
	go func() { ch <- n.leader.submit(ctx, groupOf(text)) }()
	eventually(t, "it is queued", func() bool { return n.Stats().LeaderQueue > before })
	return ch
}

func TestQueueIsRejectedWhenLeadershipEnds(t *testing.T) {
	n := busyLeader(t)
	ch := queue(context.Background(), t, n, "some text")
	n.StopLeading()
	if v := <-ch; v.Status != statusNotEnqueued {
		t.Errorf("result %+v", v)
	}
	n.StartLeading(n.CurrentTerm())
	n.set(func(n *fakeNode) { n.stalled = false })
	if _, _, err := n.publish("next text"); err != nil {
		t.Fatal(err)
	}
	if n.sm.count("some text") != 0 {
		t.Error("what was rejected showed up")
	}
}

// Whoever establishes leadership may be overtaken by the next term.
func TestLateWordOfAnOldTermChangesNothing(t *testing.T) {
	c := newCluster(t, 2)
	n := c.lead("node-0")
	old := n.CurrentTerm()
	c.lead("node-1")
	c.lead("node-0")
	n.StartLeading(old)
	if _, _, err := n.publish("some text"); err != nil {
		t.Error(err)
	}
	n.StopLeading()
	n.StartLeading(n.CurrentTerm())
	if _, _, err := n.publish("next text"); err != nil {
		t.Error(err)
	}
}

// Raft may lose leadership and win it again before anybody says so.
func TestQueueIsRejectedInAnotherTerm(t *testing.T) {
	n := busyLeader(t)
	ch := queue(context.Background(), t, n, "some text")
	n.set(func(n *fakeNode) {
		n.c.term++
		n.myTerm = n.c.term
		n.stalled = false
	})
	if v := <-ch; v.Status != statusNotEnqueued {
		t.Errorf("result %+v", v)
	}
	if n.sm.count("some text") != 0 {
		t.Error("what was rejected showed up")
	}
}

func TestNobodyWaitsForAGroup(t *testing.T) {
	n := busyLeader(t)
	ctx, cancel := context.WithCancel(context.Background())
	gone := queue(ctx, t, n, "gone text")
	stays := queue(context.Background(), t, n, "other text")
	cancel()
	if v := <-gone; v.Status != statusUnknown {
		t.Errorf("result %+v", v)
	}
	n.set(func(n *fakeNode) { n.stalled = false })
	if v := <-stays; v.Status != statusApplied {
		t.Errorf("result %+v", v)
	}
	if n.sm.count("gone text") != 0 || n.sm.count("other text") != 1 {
		t.Error("a group that nobody waits for was proposed")
	}
}

func TestOversizedGroupIsRejected(t *testing.T) {
	c := newCluster(t, 1)
	n := c.lead("node-0")
	g := groupOf("some text")
	g.Commands[0].Data = make([]byte, maxGroupBytes)
	if v := n.leader.submit(context.Background(), g); v.Status != statusInvalid {
		t.Errorf("result %+v", v)
	}
}
