package propose

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/node/loop"
)

var groups atomic.Uint64

// groupOf returns a group of another node with one command.
func groupOf(text string) command.Group {
	return command.Group{Boot: command.BootID{9}, Floor: 1, Commands: []command.Command{{Seq: groups.Add(1), Payload: entryOf(text), From: sender}}}
}

// busyLeader returns a leader with an entry in flight that is never answered, so that a
// small group waits.
func busyLeader(t *testing.T) *fakeNode {
	t.Helper()
	c := newCluster(t, 2)
	n := c.lead("node-0")
	n.set(func(n *fakeNode) { n.stalled = true })
	go n.leader.submit(context.Background(), groupOf("filler"))
	inFlight(t, n, 1)
	return n
}

// inFlight waits until a leader has the given number of entries in flight.
func inFlight(tb testing.TB, n *fakeNode, want int) {
	tb.Helper()
	await.Eventually(tb, fmt.Sprint(want, " entries are in flight"), func() bool {
		return n.get(func(n *fakeNode) int { return len(n.uncommitted) }) == want
	})
}

// queue submits a group and waits until it is in the leader's queue.
func queue(ctx context.Context, t *testing.T, n *fakeNode, text string) <-chan result {
	t.Helper()
	before := n.Stats().LeaderQueue
	ch := make(chan result, 1)
	go func() { ch <- n.leader.submit(ctx, groupOf(text)) }()
	await.Eventually(t, "it is queued", func() bool { return n.Stats().LeaderQueue > before })
	return ch
}

func TestQueueIsRejectedWhenLeadershipEnds(t *testing.T) {
	n := busyLeader(t)
	ch := queue(context.Background(), t, n, "some text")
	n.StopLeading()
	check.Equal(t, (<-ch).Status, statusNotEnqueued, "result")
	n.StartLeading(context.Background(), n.CurrentTerm())
	n.set(func(n *fakeNode) { n.stalled = false })
	must.Do(t, check.Last(n.publish("next text")))
	check.Equal(t, n.sm.count("some text"), 0, "what was rejected showed up")
}

// The next term may begin while a node establishes its leadership.
func TestLateWordOfAnOldTermChangesNothing(t *testing.T) {
	c := newCluster(t, 2)
	n := c.lead("node-0")
	old := n.CurrentTerm()
	c.lead("node-1")
	c.lead("node-0")
	n.StartLeading(context.Background(), old)
	check.Err(t, check.Last(n.publish("some text")), nil, "publish")
	n.StopLeading()
	n.StartLeading(context.Background(), n.CurrentTerm())
	check.Err(t, check.Last(n.publish("next text")), nil, "publish again")
}

// Raft may lose leadership and win it again before the Pipeline is notified.
func TestQueueIsRejectedInAnotherTerm(t *testing.T) {
	n := busyLeader(t)
	ch := queue(context.Background(), t, n, "some text")
	n.set(func(n *fakeNode) {
		n.c.term++
		n.myTerm = n.c.term
		n.stalled = false
	})
	check.Equal(t, (<-ch).Status, statusNotEnqueued, "result")
	check.Equal(t, n.sm.count("some text"), 0, "what was rejected showed up")
}

func TestNobodyWaitsForAGroup(t *testing.T) {
	n := busyLeader(t)
	ctx, cancel := context.WithCancel(context.Background())
	gone := queue(ctx, t, n, "gone text")
	stays := queue(context.Background(), t, n, "other text")
	cancel()
	check.Equal(t, (<-gone).Status, statusUnknown, "result")
	n.set(func(n *fakeNode) { n.stalled = false })
	check.Equal(t, (<-stays).Status, statusApplied, "result")
	if n.sm.count("gone text") != 0 || n.sm.count("other text") != 1 {
		t.Error("a group that nobody waits for was proposed")
	}
}

// TestSecondEntryInFlight holds that beside an entry in flight another one begins only for
// LargeBatchBytes, or for a command of the node itself.
func TestSecondEntryInFlight(t *testing.T) {
	payload := entryOf(strings.Repeat("text ", command.MaxBody/5))
	data := must.Get(command.Encode(payload))(t)
	large := groupOf("")
	large.Commands = nil
	for large.Size() < LargeBatchBytes {
		large.Commands = append(large.Commands, command.Command{Seq: groups.Add(1), Payload: payload, Data: data, From: sender})
	}
	for name, begin := range map[string]func(n *fakeNode){
		"a large group":         func(n *fakeNode) { go n.leader.submit(context.Background(), large) },
		"a command of the node": func(n *fakeNode) { go n.leader.submitUrgent(context.Background(), groupOf("urgent text")) },
	} {
		t.Run(name, func(t *testing.T) {
			n := busyLeader(t)
			small := queue(context.Background(), t, n, "small text")
			begin(n)
			inFlight(t, n, 2)
			n.set(func(n *fakeNode) { n.stalled = false })
			check.Equal(t, (<-small).Status, statusApplied, "result")
		})
	}
}

// The next entry takes all groups that wait. It must not begin only when the answers of the
// one before are taken: clients that are answered write again, and entries become small.
func TestPlaceIsFreeBeforeTheAnswer(t *testing.T) {
	c := newCluster(t, 2)
	n := c.lead("node-0")
	g := groupOf("some text")
	s := &pending{ctx: context.Background(), group: g, size: g.Size(), end: make(chan result)}
	if r, ok := n.leader.accept(s.size, s); !ok {
		t.Fatalf("result %+v", r)
	}
	loop.Wake(n.leader.wake)
	await.Eventually(t, "the entry's place is free", func() bool {
		n.leader.mu.Lock()
		defer n.leader.mu.Unlock()
		return len(n.leader.queue) == 0 && n.leader.running == 0
	})
	check.Equal(t, (<-s.end).Status, statusApplied, "result")
}

func TestOversizedGroupIsRejected(t *testing.T) {
	c := newCluster(t, 1)
	n := c.lead("node-0")
	g := groupOf("some text")
	g.Commands[0].Data = make([]byte, maxGroupBytes)
	check.Equal(t, n.leader.submit(context.Background(), g).Status, statusInvalid, "result")
}
