package propose

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
)

func TestProposeOnTheLeader(t *testing.T) {
	c := newCluster(t, 1)
	n := c.lead("node-0")
	r, index, err := n.publish("first text")
	must.Do(t, err)
	if r.Outcome != command.OutcomeDone || r.Entry != 1 || index != 2 {
		t.Errorf("result %+v at %d, want entry 1 at 2", r, index)
	}
	check.Equal(t, n.sm.count("first text"), 1, "not applied once")
}

func TestProposeWaitsForBothMachines(t *testing.T) {
	for _, held := range []string{"node-0", "node-1"} {
		t.Run(held, func(t *testing.T) {
			c := newCluster(t, 3)
			leader := c.lead("node-0")
			follower := c.nodes[1]
			slow, fast := leader, follower
			if held == follower.id {
				slow, fast = follower, leader
			}
			slow.set(func(n *fakeNode) { n.held = true })
			ch := follower.start("some text")
			await.Eventually(t, "the other machine applies it", func() bool { return fast.sm.count("some text") == 1 })
			// A wrong answer would come at once.
			select {
			case o := <-ch:
				t.Fatalf("answered %+v before %s applied it", o, held)
			case <-time.After(150 * time.Millisecond):
			}
			slow.set(func(n *fakeNode) { n.held = false })
			o := <-ch
			if o.err != nil || o.index != 2 || slow.sm.count("some text") != 1 {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

// At each point at which a leader can be lost, the command is retried and has one effect.
func TestLeadershipLoss(t *testing.T) {
	tests := []struct {
		name string
		lose func(c *fakeCluster, leader *fakeNode)
	}{
		{"before enqueue", func(c *fakeCluster, leader *fakeNode) {
			c.elect("node-2")
		}},
		{"after enqueue, never committed", func(c *fakeCluster, leader *fakeNode) {
			inFlight(c.tb, leader, 1)
			c.elect("node-2")
		}},
		{"after enqueue, committed by the next leader", func(c *fakeCluster, leader *fakeNode) {
			inFlight(c.tb, leader, 1)
			c.mu.Lock()
			f := leader.uncommitted[0]
			c.log = append(c.log, logged{term: f.term, data: f.data})
			c.mu.Unlock()
			c.elect("node-2")
			for _, n := range c.nodes {
				n.poke()
			}
		}},
		{"after commit, before the answer", func(c *fakeCluster, leader *fakeNode) {
			leader.set(func(n *fakeNode) { n.held, n.stalled = true, false })
			await.Eventually(c.tb, "the taker applies it", func() bool { return c.nodes[1].sm.count("some text") == 1 })
			c.elect("node-2")
			leader.set(func(n *fakeNode) { n.held = false })
		}},
	}
	for _, taker := range []int{0, 1} {
		for _, tt := range tests {
			if taker == 0 && tt.name == "after commit, before the answer" {
				continue // the taker is the held leader itself
			}
			t.Run(fmt.Sprintf("%s/taken by %d", tt.name, taker), func(t *testing.T) {
				c := newCluster(t, 3)
				leader := c.lead("node-0")
				leader.set(func(n *fakeNode) { n.stalled = true })
				if tt.name == "before enqueue" {
					leader.StopLeading()
				}
				ch := c.nodes[taker].start("some text")
				tt.lose(c, leader)
				must.Do(t, c.nodes[2].establish())
				o := <-ch
				if o.err != nil || o.result.Outcome != command.OutcomeDone || o.result.Entry != 1 {
					t.Fatalf("outcome %+v", o)
				}
				for _, n := range c.nodes {
					await.Eventually(t, n.id+" applies everything", func() bool { return n.sm.Applied() == n.CommitIndex() })
					check.Equal(t, n.sm.count("some text"), 1, "%s: effects", n.id)
				}
			})
		}
	}
}

func TestRaftErrorsAreSorted(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code command.Code
	}{
		{raft.ErrNotLeader, command.CodeNotEnqueued},
		{raft.ErrLeadershipTransferInProgress, command.CodeNotEnqueued},
		{raft.ErrEnqueueTimeout, command.CodeNotEnqueued},
		{raft.ErrLeadershipLost, command.CodeOutcomeUnknown},
		{raft.ErrAbortedByRestore, command.CodeOutcomeUnknown},
		{raft.ErrRaftShutdown, command.CodeOutcomeUnknown},
		{context.DeadlineExceeded, command.CodeOutcomeUnknown},
		{errors.New("disk says no"), command.CodeOutcomeUnknown},
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			c := newCluster(t, 1)
			n := c.lead("node-0")
			n.timing.propose = 50 * time.Millisecond
			n.timing.grace = 5 * time.Second
			n.set(func(n *fakeNode) {
				for range 1000 {
					n.nextErr = append(n.nextErr, tt.err)
				}
			})
			wantCode(t, check.Last(n.publish("some text")), tt.code)
		})
	}
}

func TestOneUnknownAttemptStaysUnknown(t *testing.T) {
	c := newCluster(t, 1)
	n := c.lead("node-0")
	n.timing.propose, n.timing.grace = 100*time.Millisecond, 5*time.Second
	n.set(func(n *fakeNode) {
		n.nextErr = append(n.nextErr, raft.ErrLeadershipLost)
		for range 1000 {
			n.nextErr = append(n.nextErr, raft.ErrNotLeader)
		}
	})
	wantCode(t, check.Last(n.publish("some text")), command.CodeOutcomeUnknown)
}

func TestNoLeader(t *testing.T) {
	c := newCluster(t, 3)
	n := c.nodes[1]
	n.timing.propose = 30 * time.Millisecond
	wantCode(t, check.Last(n.publish("lost text")), command.CodeNotEnqueued)
	if s := n.Stats(); s.Open != 0 || s.Waiting != 0 || s.OpenBytes != 0 {
		t.Errorf("the command was not withdrawn: %+v", s)
	}
	n.timing.propose = 5 * time.Second
	c.lead("node-0")
	must.Do(t, check.Last(n.publish("next text")))
	check.Equal(t, n.sm.count("lost text"), 0, "a write that was not enqueued showed up")
}

func TestContextEndsTheWait(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	wantCode(t, check.Last(c.nodes[0].Propose(ctx, sender, entryOf("some text"))), command.CodeNotEnqueued)
}

func TestForwardFailures(t *testing.T) {
	for _, tt := range []struct {
		name string
		fate fate
		code command.Code
	}{
		{"no connection", rejected, command.CodeNotEnqueued},
		{"lost on the way", lostBefore, command.CodeOutcomeUnknown},
		{"answer lost", lostAnswer, command.CodeOutcomeUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, 2)
			leader := c.lead("node-0")
			c.net.decide(func(string, string, *http.Request) fate { return tt.fate })
			n := c.nodes[1]
			n.timing.propose, n.timing.grace = 60*time.Millisecond, 5*time.Second
			wantCode(t, check.Last(n.publish("some text")), tt.code)

			n.timing.propose = 5 * time.Second
			ch := n.start("other text")
			c.net.decide(nil)
			check.Err(t, (<-ch).err, nil, "after the link came back")
			check.Equal(t, leader.sm.count("other text"), 1, "effects")
			if got := leader.sm.count("some text"); got > 1 || tt.fate != lostAnswer && got > 0 {
				t.Errorf("%d effects of the first", got)
			}
		})
	}
}

func TestNewLeaderEndsAnAttempt(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.lead("node-0")
	n := c.nodes[1]
	n.timing.attempt = time.Minute
	leader.set(func(n *fakeNode) { n.stalled = true })
	ch := n.start("some text")
	inFlight(t, leader, 1)
	c.lead("node-2", "node-0") // node-0 does not notice it
	must.Do(t, (<-ch).err)
}

func TestProposeAsLeader(t *testing.T) {
	c := newCluster(t, 2)
	c.elect("node-1")
	n := c.elect("node-0")
	if r, index, err := n.ProposeAsLeader(context.Background(), &command.Lead{ServerID: n.id}); err != nil ||
		r.Outcome != command.OutcomeDone || index != 1 {
		t.Fatalf("%+v at %d: %v", r, index, err)
	}
	// No other command may pass before StartLeading, nor in another term.
	n.timing.propose, n.timing.grace = 30*time.Millisecond, 5*time.Second
	wantCode(t, check.Last(n.publish("some text")), command.CodeNotEnqueued)
	n.StartLeading(context.Background(), n.CurrentTerm()-1)
	wantCode(t, check.Last(n.publish("some text")), command.CodeNotEnqueued)

	_, _, err := c.nodes[1].ProposeAsLeader(context.Background(), &command.Lead{ServerID: "node-1"})
	check.Err(t, err, raft.ErrNotLeader, "on a follower")
	check.Equal(t, c.nodes[1].Stats().Open, 0, "left open")
	if n.sm.count("some text") != 0 || n.CommitIndex() != 1 {
		t.Error("a command passed before the node led")
	}
}
