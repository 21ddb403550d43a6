package propose

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
)

func TestBoundsOfALogEntry(t *testing.T) {
	c := newTunedCluster(t, 3, func(tm *timing) { tm.propose = time.Minute })
	leader := c.lead("node-0")
	text := strings.Repeat("x", 4900)
	leader.set(func(n *fakeNode) { n.held = true }) // entries pile up behind it
	var wg sync.WaitGroup
	for i := range 600 {
		wg.Go(func() {
			check.Err(t, check.Last(c.nodes[i%3].publish(fmt.Sprint(i, text))), nil, "publish")
		})
	}
	await.Eventually(t, "everything waits", func() bool {
		open := 0
		for _, n := range c.nodes {
			open += n.Stats().Open
		}
		return open == 600
	})
	leader.set(func(n *fakeNode) { n.held = false })
	wg.Wait()
	leader.set(func(n *fakeNode) {
		check.Equal(t, n.maxPending, MaxInFlight, "log entries in flight")
		full := 0
		for _, data := range n.applies {
			if len(data) > command.MaxBatchBytes {
				t.Errorf("a log entry of %d bytes", len(data))
			}
			if len(data) > command.MaxBatchBytes*9/10 {
				full++
			}
		}
		if full < 10 {
			t.Errorf("%d of %d entries are full", full, len(n.applies))
		}
	})
}

func TestUnfitCommandsGoNowhere(t *testing.T) {
	c := newCluster(t, 1)
	n := c.lead("node-0")
	before := n.CommitIndex()
	bad := entryOf("some text")
	bad.Title = ""
	for _, body := range []command.Payload{nil, bad, entryOf("not UTF-8: \xff")} {
		_, _, err := n.Propose(context.Background(), sender, body)
		var u *command.Unavailable
		if err == nil || errors.As(err, &u) {
			t.Errorf("%v: error %v", body, err)
		}
	}
	_, _, err := n.Propose(context.Background(), command.Sender{Fingerprint: strings.Repeat("x", command.MaxNameKeyBytes+1)}, entryOf("some text"))
	check.Fails(err)(t, "propose for a sender without bounds")
	check.Equal(t, n.CommitIndex(), before, "something reached the log")
}

// limitFunc is a Limiter.
type limitFunc func(command.Sender) (bool, time.Duration)

func (f limitFunc) Admit(s command.Sender, _ command.Standing) (bool, time.Duration) { return f(s) }
func (limitFunc) Refund(command.Sender, command.Standing)                            {}

func TestRateLimits(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	limit := limitFunc(func(s command.Sender) (bool, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		asked[s.Fingerprint]++
		return s.Fingerprint != "greedy", 1500 * time.Millisecond
	})
	known := func(b command.Payload, _ int) (_ command.Standing, repeated, fits bool) {
		p, ok := b.(*command.Publish)
		return command.Standing{}, ok && p.Request.ID == "known-id", true
	}
	c := newCluster(t, 2, func(cfg *Config) { cfg.Limiter, cfg.Assess = limit, known })
	c.lead("node-0")
	for _, n := range c.nodes {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				from := command.Sender{Fingerprint: "modest"}
				if i%2 == 1 {
					from.Fingerprint = "greedy"
				}
				_, _, err := n.Propose(context.Background(), from, entryOf(fmt.Sprint("text ", n.id, i)))
				var limited *command.RateLimited
				switch {
				case i%2 == 0 && err != nil:
					t.Error(err)
				case i%2 == 1 && (!errors.As(err, &limited) || limited.RetryAfter != 1500*time.Millisecond):
					t.Errorf("over the limit: %v", err)
				}
			})
		}
		wg.Wait()
		again := entryOf("some text")
		again.Request = command.RequestKey{Scope: "ada", ID: "known-id"}
		greedy := command.Sender{Fingerprint: "greedy"}
		check.Err(t, check.Last(n.Propose(context.Background(), greedy, again)), nil, "a known request_id")
		for i := range 20 {
			check.Equal(t, n.sm.count(fmt.Sprint("text ", n.id, i)), 1-i%2, "text %d: effects", i)
		}
	}
	for _, n := range c.nodes {
		own := entryOf("text of the node itself")
		check.Err(t, check.Last(n.Propose(context.Background(), command.Sender{}, own)), nil, "its own command")
	}
	mu.Lock()
	defer mu.Unlock()
	check.Equal(t, asked[""], 0, "questions about a command of the node itself")
	check.Equal(t, asked["modest"], 20, "asked %v: asked", asked)
	check.Equal(t, asked["greedy"], 20, "asked %v: asked", asked)
}

func TestRetriesAreFree(t *testing.T) {
	var mu sync.Mutex
	asked := 0
	c := newCluster(t, 2, func(cfg *Config) {
		cfg.Limiter = limitFunc(func(command.Sender) (bool, time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			return asked == 1, time.Second
		})
	})
	c.lead("node-0")
	drops := 3
	c.net.decide(func(string, string, *http.Request) fate {
		if drops > 0 {
			drops--
			return lostAnswer
		}
		return arrives
	})
	must.Do(t, check.Last(c.nodes[1].publish("some text")))
	mu.Lock()
	defer mu.Unlock()
	check.Equal(t, asked, 1, "questions to the limits")
}

// TestOneWriteIsChargedOnce lets a leader reject writes that it has charged already,
// as during a transfer of leadership, and another one carry them out.
func TestOneWriteIsChargedOnce(t *testing.T) {
	for taker := range 2 {
		t.Run(fmt.Sprint("taken in by node ", taker), func(t *testing.T) {
			asked := make([]atomic.Int64, 2)
			next := 0
			c := newCluster(t, 2, func(cfg *Config) {
				i := next
				next++
				cfg.Limiter = limitFunc(func(from command.Sender) (bool, time.Duration) {
					return asked[i].Add(1) == 1, time.Second
				})
			})
			old := c.lead("node-0")
			transfers := func(n *fakeNode) {
				for range 1000 {
					n.nextErr = append(n.nextErr, raft.ErrLeadershipTransferInProgress)
				}
			}
			old.set(transfers)
			rejected := func() int { return 1000 - old.get(func(n *fakeNode) int { return len(n.nextErr) }) }
			ch := c.nodes[taker].start("some text")
			await.Eventually(t, "it was rejected three times", func() bool { return rejected() >= 3 })
			old.set(func(n *fakeNode) { n.nextErr = nil })
			c.lead("node-1")
			must.Do(t, (<-ch).err)
			check.Equal(t, asked[0].Load()+asked[1].Load(), 1, "charges by both leaders")
		})
	}
}

func TestLoadShed(t *testing.T) {
	t.Run("queue of the node", func(t *testing.T) {
		c := newCluster(t, 1)
		n := c.nodes[0]
		c0 := must.Get(n.newCall(sender, entryOf("text 0")))(t)
		n.session.maxBytes = 3 * (callOverhead + c0.size)
		var chans []<-chan outcome
		for i := range 3 {
			chans = append(chans, n.start(fmt.Sprint("text ", i)))
		}
		await.Eventually(t, "three wait", func() bool { return n.Stats().Waiting == 3 })
		wantCode(t, check.Last(n.publish("text 3")), command.CodeNotEnqueued)
		check.Equal(t, n.Stats().Open, 3, "the fourth was taken")
		c.lead("node-0")
		for _, ch := range chans {
			check.Err(t, (<-ch).err, nil, "what waited")
		}
	})
	t.Run("leader behind", func(t *testing.T) {
		c := newCluster(t, 2)
		leader := c.lead("node-0")
		leader.set(func(n *fakeNode) {
			n.held = true
			for range MaxApplyLag + 1 {
				c.log = append(c.log, c.log[0])
			}
		})
		for _, n := range c.nodes {
			wantCode(t, check.Last(n.publish("some text")), command.CodeNotEnqueued)
		}
		leader.set(func(n *fakeNode) { n.held = false })
		await.Eventually(t, "the leader caught up", func() bool { return leader.sm.Applied() == leader.CommitIndex() })
		check.Err(t, check.Last(c.nodes[1].publish("next text")), nil, "publish again")
		check.Equal(t, leader.sm.count("some text"), 0, "a write that was not enqueued showed up")
	})
	t.Run("queue of the leader", func(t *testing.T) {
		c := newCluster(t, 1)
		n := c.lead("node-0")
		n.leader.mu.Lock()
		n.leader.queuedBytes = MaxLeaderQueuedBytes
		n.leader.mu.Unlock()
		wantCode(t, check.Last(n.publish("some text")), command.CodeNotEnqueued)
	})
}

// TestTwoGroupsOnTheWay sends four small commands: one is in flight, the next waits for it at
// the leader, and the others become one group.
func TestTwoGroupsOnTheWay(t *testing.T) {
	for taker := range 2 {
		c := newCluster(t, 2)
		leader := c.lead("node-0")
		leader.set(func(n *fakeNode) { n.stalled = true })
		n := c.nodes[taker]
		var chans []<-chan outcome
		for i := range 4 {
			chans = append(chans, n.start(fmt.Sprint("text ", i)))
			inFlight(t, leader, 1)
			if i > 0 {
				await.Eventually(t, "the second waits at the leader", func() bool { return leader.Stats().LeaderQueue > 0 })
			}
		}
		await.Eventually(t, "the rest waits", func() bool { return n.Stats().Waiting == 2 })
		leader.set(func(n *fakeNode) { n.stalled = false })
		for _, ch := range chans {
			check.Err(t, (<-ch).err, nil, "what waited")
		}
		if got := leader.get(func(n *fakeNode) int { return len(n.applies) }); got < 3 || got > 4 {
			t.Errorf("%d log entries, want that of the lead, that of the first, and one or two for the rest", got)
		}
	}
}

// TestTimingFor: patience lengthens the wait for a leader, and never shortens it.
func TestTimingFor(t *testing.T) {
	usual := timingFor(0)
	check.Equal(t, timingFor(time.Second), usual, "with little patience")
	usual.propose, usual.readIndex = time.Minute, time.Minute
	check.Equal(t, timingFor(time.Minute), usual, "with much patience")
}
