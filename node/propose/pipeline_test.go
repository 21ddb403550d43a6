package propose

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/fsm"
)

func TestProposeOnTheLeader(t *testing.T) {
	c := newCluster(t, 1)
	n := c.lead("node-0")
	r, index, err := n.publish("first text")
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != fsm.OutcomeDone || r.Entry != 1 || index != 2 {
		t.Errorf("result %+v at %d, want entry 1 at 2", r, index)
	}
	if n.sm.count("first text") != 1 {
		t.Error("not applied once")
	}
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
			eventually(t, "the other machine applies it", func() bool { return fast.sm.count("some text") == 1 })
			// Give a mistaken answer the time of several rechecks.
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

// Each point at which a leader can be lost: the command is tried again and has
// one effect.
func TestLeadershipLoss(t *testing.T) {
	tests := []struct {
		name string
		lose func(c *cluster, leader *fakeNode)
	}{
		{"before enqueue", func(c *cluster, leader *fakeNode) {
			c.elect("node-2")
		}},
		{"after enqueue, never committed", func(c *cluster, leader *fakeNode) {
			eventually(c.tb, "the entry is appended", func() bool {
				return leader.get(func(n *fakeNode) int { return len(n.uncommitted) }) == 1
			})
			c.elect("node-2")
		}},
		{"after enqueue, committed by the next leader", func(c *cluster, leader *fakeNode) {
			eventually(c.tb, "the entry is appended", func() bool {
				return leader.get(func(n *fakeNode) int { return len(n.uncommitted) }) == 1
			})
			c.mu.Lock()
			f := leader.uncommitted[0]
			c.log = append(c.log, logged{term: f.term, data: f.data})
			c.mu.Unlock()
			c.elect("node-2")
			for _, n := range c.nodes {
				n.poke()
			}
		}},
		{"after commit, before the answer", func(c *cluster, leader *fakeNode) {
			leader.set(func(n *fakeNode) { n.held, n.stalled = true, false })
			eventually(c.tb, "the taker applies it", func() bool { return c.nodes[1].sm.count("some text") == 1 })
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
				if err := c.nodes[2].establish(); err != nil {
					t.Fatal(err)
				}
				o := <-ch
				if o.err != nil || o.result.Outcome != fsm.OutcomeDone || o.result.Entry != 1 {
					t.Fatalf("outcome %+v", o)
				}
				for _, n := range c.nodes {
					eventually(t, n.id+" applies everything", func() bool { return n.sm.Applied() == n.CommitIndex() })
					if got := n.sm.count("some text"); got != 1 {
						t.Errorf("%s: %d effects", n.id, got)
					}
				}
			})
		}
	}
}

func TestRaftErrorsAreSorted(t *testing.T) {
	tests := []struct {
		err  error
		code api.Code
	}{
		{raft.ErrNotLeader, api.CodeNotEnqueued},
		{raft.ErrLeadershipTransferInProgress, api.CodeNotEnqueued},
		{raft.ErrEnqueueTimeout, api.CodeNotEnqueued},
		{raft.ErrLeadershipLost, api.CodeOutcomeUnknown},
		{raft.ErrAbortedByRestore, api.CodeOutcomeUnknown},
		{raft.ErrRaftShutdown, api.CodeOutcomeUnknown},
		{context.DeadlineExceeded, api.CodeOutcomeUnknown},
		{errors.New("disk says no"), api.CodeOutcomeUnknown},
	}
	for _, tt := range tests {
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
			_, _, err := n.publish("some text")
			wantCode(t, err, tt.code)
		})
	}
}

func TestExpiry(t *testing.T) {
	add := func() (*session, *call, parcel) {
		s := newSession(fsm.BootID{1}, nil)
		c, _ := s.add(sender, entryOf("text"), 10)
		p := s.take()
		return s, c, p
	}
	tests := []struct {
		name string
		end  func(s *session, c *call, p parcel)
		code api.Code
	}{
		{"the last attempt was refused", func(s *session, c *call, p parcel) {
			s.expire(c, "late")
			s.settle(p, notLeading())
		}, api.CodeNotEnqueued},
		{"the last attempt is unknown", func(s *session, c *call, p parcel) {
			s.expire(c, "late")
			s.settle(p, verdict{status: statusUnknown})
		}, api.CodeOutcomeUnknown},
		{"the last attempt does not end", func(s *session, c *call, p parcel) {
			s.expire(c, "late")
			s.abandon(c, "later")
		}, api.CodeOutcomeUnknown},
		{"no attempt under way", func(s *session, c *call, p parcel) {
			s.settle(p, notLeading())
			s.expire(c, "late")
		}, api.CodeNotEnqueued},
		{"an earlier attempt is unknown", func(s *session, c *call, p parcel) {
			s.settle(p, verdict{status: statusUnknown})
			s.take()
			s.expire(c, "late")
		}, api.CodeOutcomeUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, c, p := add()
			tt.end(s, c, p)
			select {
			case <-c.done:
				wantCode(t, c.err, tt.code)
			default:
				t.Fatal("not answered")
			}
			if p := s.take(); len(p.calls) != 0 {
				t.Error("it is sent again")
			}
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
	_, _, err := n.publish("some text")
	wantCode(t, err, api.CodeOutcomeUnknown)
}

func TestNoLeader(t *testing.T) {
	c := newCluster(t, 3)
	n := c.nodes[1]
	n.timing.propose = 30 * time.Millisecond
	_, _, err := n.publish("lost text")
	wantCode(t, err, api.CodeNotEnqueued)
	if s := n.Stats(); s.Open != 0 || s.Waiting != 0 || s.OpenBytes != 0 {
		t.Errorf("the command was not withdrawn: %+v", s)
	}
	n.timing.propose = 5 * time.Second
	c.lead("node-0")
	if _, _, err := n.publish("next text"); err != nil {
		t.Fatal(err)
	}
	if n.sm.count("lost text") != 0 {
		t.Error("a write that was not enqueued showed up")
	}
}

func TestContextEndsTheWait(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, _, err := c.nodes[0].Propose(ctx, sender, entryOf("some text"))
	wantCode(t, err, api.CodeNotEnqueued)
}

func TestForwardFailures(t *testing.T) {
	tests := []struct {
		name string
		fate fate
		code api.Code
	}{
		{"no connection", refused, api.CodeNotEnqueued},
		{"lost on the way", lostBefore, api.CodeOutcomeUnknown},
		{"answer lost", lostAnswer, api.CodeOutcomeUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, 2)
			leader := c.lead("node-0")
			c.net.decide(func(string, string, *http.Request) fate { return tt.fate })
			n := c.nodes[1]
			n.timing.propose, n.timing.grace = 60*time.Millisecond, 5*time.Second
			_, _, err := n.publish("some text")
			wantCode(t, err, tt.code)

			n.timing.propose = 5 * time.Second
			ch := n.start("other text")
			c.net.decide(nil)
			if o := <-ch; o.err != nil {
				t.Fatalf("after the link came back: %v", o.err)
			}
			if got := leader.sm.count("other text"); got != 1 {
				t.Errorf("%d effects", got)
			}
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
	eventually(t, "the entry is appended", func() bool {
		return leader.get(func(n *fakeNode) int { return len(n.uncommitted) }) == 1
	})
	c.lead("node-2", "node-0") // node-0 believes that it leads on
	if o := <-ch; o.err != nil {
		t.Fatal(o.err)
	}
}

func TestBoundsOfALogEntry(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.lead("node-0")
	text := strings.Repeat("x", 4900)
	leader.set(func(n *fakeNode) { n.held = true }) // entries pile up behind it
	var wg sync.WaitGroup
	for i := range 600 {
		wg.Go(func() {
			if _, _, err := c.nodes[i%3].publish(fmt.Sprint(i, text)); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "everything waits", func() bool {
		open := 0
		for _, n := range c.nodes {
			open += n.Stats().Open
		}
		return open == 600
	})
	leader.set(func(n *fakeNode) { n.held = false })
	wg.Wait()
	leader.set(func(n *fakeNode) {
		if n.maxPending != MaxInFlight {
			t.Errorf("%d log entries in flight, want %d", n.maxPending, MaxInFlight)
		}
		full := 0
		for _, data := range n.applies {
			if len(data) > fsm.MaxBatchBytes {
				t.Errorf("a log entry of %d bytes", len(data))
			}
			if len(data) > fsm.MaxBatchBytes*9/10 {
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
	for _, body := range []fsm.Body{nil, bad, entryOf("not UTF-8: \xff")} {
		_, _, err := n.Propose(context.Background(), sender, body)
		var u *api.Unavailable
		if err == nil || errors.As(err, &u) {
			t.Errorf("%v: error %v", body, err)
		}
	}
	_, _, err := n.Propose(context.Background(), api.Sender{Fingerprint: strings.Repeat("x", maxSenderBytes+1)}, entryOf("some text"))
	if err == nil {
		t.Error("a sender without bounds was taken")
	}
	if n.CommitIndex() != before {
		t.Error("something reached the log")
	}
}

// limitFunc is a Limiter.
type limitFunc func(api.Sender) (bool, time.Duration)

func (f limitFunc) Admit(s api.Sender) (bool, time.Duration) { return f(s) }

func TestRateLimits(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	limit := limitFunc(func(s api.Sender) (bool, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		asked[s.Fingerprint]++
		return s.Fingerprint != "greedy", 1500 * time.Millisecond
	})
	known := func(b fsm.Body) bool {
		p, ok := b.(*fsm.Publish)
		return ok && p.Request.ID == "known-id"
	}
	c := newCluster(t, 2, func(cfg *Config) { cfg.Limiter, cfg.Known = limit, known })
	c.lead("node-0")
	for _, n := range c.nodes {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				from := api.Sender{Fingerprint: "modest"}
				if i%2 == 1 {
					from.Fingerprint = "greedy"
				}
				_, _, err := n.Propose(context.Background(), from, entryOf(fmt.Sprint("text ", n.id, i)))
				var limited *api.RateLimited
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
		again.Request = fsm.RequestKey{Scope: "ada", ID: "known-id"}
		if _, _, err := n.Propose(context.Background(), api.Sender{Fingerprint: "greedy"}, again); err != nil {
			t.Errorf("a known request_id: %v", err)
		}
		for i := range 20 {
			if got := n.sm.count(fmt.Sprint("text ", n.id, i)); got != 1-i%2 {
				t.Errorf("text %d: %d effects", i, got)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if asked["modest"] != 20 || asked["greedy"] != 20 {
		t.Errorf("asked %v, want 20 each", asked)
	}
}

func TestRetriesAreFree(t *testing.T) {
	var mu sync.Mutex
	asked := 0
	c := newCluster(t, 2, func(cfg *Config) {
		cfg.Limiter = limitFunc(func(api.Sender) (bool, time.Duration) {
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
	if _, _, err := c.nodes[1].publish("some text"); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if asked != 1 {
		t.Errorf("the limits were asked %d times", asked)
	}
}

func TestLoadShed(t *testing.T) {
	t.Run("queue of the node", func(t *testing.T) {
		c := newCluster(t, 1)
		n := c.nodes[0]
		size, err := measure(n.Boot(), sender, entryOf("text 0"))
		if err != nil {
			t.Fatal(err)
		}
		n.session.maxBytes = 3 * (callOverhead + size)
		var chans []<-chan outcome
		for i := range 3 {
			chans = append(chans, n.start(fmt.Sprint("text ", i)))
		}
		eventually(t, "three wait", func() bool { return n.Stats().Waiting == 3 })
		_, _, err = n.publish("text 3")
		wantCode(t, err, api.CodeNotEnqueued)
		if n.Stats().Open != 3 {
			t.Error("the fourth was taken")
		}
		c.lead("node-0")
		for _, ch := range chans {
			if o := <-ch; o.err != nil {
				t.Error(o.err)
			}
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
			_, _, err := n.publish("some text")
			wantCode(t, err, api.CodeNotEnqueued)
		}
		leader.set(func(n *fakeNode) { n.held = false })
		eventually(t, "the leader caught up", func() bool { return leader.sm.Applied() == leader.CommitIndex() })
		if _, _, err := c.nodes[1].publish("next text"); err != nil {
			t.Error(err)
		}
		if got := leader.sm.count("some text"); got != 0 {
			t.Error("a write that was not enqueued showed up")
		}
	})
	t.Run("queue of the leader", func(t *testing.T) {
		c := newCluster(t, 1)
		n := c.lead("node-0")
		n.leader.mu.Lock()
		n.leader.queuedBytes = MaxLeaderQueuedBytes
		n.leader.mu.Unlock()
		_, _, err := n.publish("some text")
		wantCode(t, err, api.CodeNotEnqueued)
	})
}

func TestSnapshotPastTheObserver(t *testing.T) {
	for _, explicit := range []bool{true, false} {
		t.Run(fmt.Sprint("told=", explicit), func(t *testing.T) {
			c := newCluster(t, 2)
			leader := c.lead("node-0")
			n := c.nodes[1]
			if explicit {
				n.timing.recheck = time.Hour
			}
			n.set(func(n *fakeNode) { n.held = true })
			ch := n.start("some text")
			eventually(t, "the leader's answer is here", func() bool {
				n.session.mu.Lock()
				defer n.session.mu.Unlock()
				for _, c := range n.session.calls {
					return c.confirmed
				}
				return false
			})
			n.sm.install(leader.sm)
			if explicit {
				n.Recheck(n.sm.View())
			}
			if o := <-ch; o.err != nil || o.result.Entry != 1 || o.index != 2 {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

func TestSnapshotBeforeTheAnswer(t *testing.T) {
	c := newCluster(t, 2)
	leader := c.lead("node-0")
	n := c.nodes[1]
	n.timing.recheck, n.timing.propose = time.Hour, time.Hour
	n.set(func(n *fakeNode) { n.held = true })
	// The snapshot overtakes the leader's answer.
	c.net.mu.Lock()
	c.net.served = func(_, _ string, r *http.Request) {
		if r.URL.Path == pathPropose {
			n.sm.install(leader.sm)
		}
	}
	c.net.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if r, _, err := n.Propose(ctx, sender, entryOf("some text")); err != nil || r.Entry != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTwoGroupsOnTheWay(t *testing.T) {
	for taker := range 2 {
		c := newCluster(t, 2)
		leader := c.lead("node-0")
		leader.set(func(n *fakeNode) { n.stalled = true })
		n := c.nodes[taker]
		var chans []<-chan outcome
		for i := range 4 {
			chans = append(chans, n.start(fmt.Sprint("text ", i)))
			want := min(i+1, MaxInFlight)
			eventually(t, fmt.Sprint(want, " entries are on the way"), func() bool {
				return leader.get(func(n *fakeNode) int { return len(n.uncommitted) }) == want
			})
		}
		eventually(t, "the rest waits", func() bool { return n.Stats().Waiting == 2 })
		leader.set(func(n *fakeNode) { n.stalled = false })
		for _, ch := range chans {
			if o := <-ch; o.err != nil {
				t.Error(o.err)
			}
		}
		if got := leader.get(func(n *fakeNode) int { return len(n.applies) }); got != 4 {
			t.Errorf("%d log entries, want the lead, two and one for the rest", got)
		}
	}
}

func TestFloorIsTheSmallestUnanswered(t *testing.T) {
	c := newCluster(t, 2)
	leader := c.lead("node-0")
	n := c.nodes[1]
	for range 5 {
		if _, _, err := n.publish("some text"); err != nil {
			t.Fatal(err)
		}
	}
	leader.sm.mu.Lock()
	floors := leader.sm.floors[1:]
	leader.sm.mu.Unlock()
	if fmt.Sprint(floors) != "[1 2 3 4 5]" {
		t.Errorf("floors %v", floors)
	}
	s := n.session
	one, _ := s.add(sender, entryOf("one"), 10)
	two, _ := s.add(sender, entryOf("two"), 10)
	s.mu.Lock()
	floor := s.floor()
	s.mu.Unlock()
	if floor != one.seq {
		t.Errorf("floor %d with %d unanswered", floor, one.seq)
	}
	s.abandon(one, "")
	s.abandon(two, "")
	s.mu.Lock()
	floor = s.floor()
	s.mu.Unlock()
	if floor != two.seq+1 {
		t.Errorf("floor %d after everything is answered", floor)
	}
}

func TestSpanIsBounded(t *testing.T) {
	s := newSession(fsm.BootID{1}, nil)
	first, _ := s.add(sender, entryOf("first"), 1)
	if p := s.take(); len(p.calls) != 1 {
		t.Fatalf("took %d", len(p.calls))
	}
	sent := 1
	for range MaxSpan + 10 {
		if _, err := s.add(sender, entryOf("more"), 1); err != nil {
			t.Fatal(err)
		}
	}
	for {
		p := s.take()
		if len(p.calls) == 0 {
			break
		}
		sent += len(p.calls)
		for _, c := range p.calls {
			s.Applied(s.boot, c.seq, fsm.Result{Outcome: fsm.OutcomeDone}, 1)
		}
		s.settle(p, verdict{status: statusApplied, index: 1})
	}
	if sent != MaxSpan {
		t.Errorf("sent %d numbers past an unanswered one, want %d", sent, MaxSpan)
	}
	work := make(chan bool)
	go func() { work <- s.awaitWork() }()
	time.Sleep(20 * time.Millisecond) // lets it wait, so that it must be woken
	s.abandon(first, "")
	if !<-work {
		t.Error("closed")
	}
	if p := s.take(); len(p.calls) != 11 {
		t.Errorf("took %d once the floor rose, want 11", len(p.calls))
	}
}

func TestRequeuedCallsKeepTheirOrder(t *testing.T) {
	s := newSession(fsm.BootID{1}, nil)
	for range 4 {
		_, _ = s.add(sender, entryOf("text"), 10)
	}
	p := s.take()
	_, _ = s.add(sender, entryOf("text"), 10)
	s.settle(p, verdict{status: statusNotEnqueued, refused: []refusal{{pos: 2}}})
	var seqs []uint64
	for _, c := range s.take().calls {
		seqs = append(seqs, c.seq)
	}
	if fmt.Sprint(seqs) != "[1 2 4 5]" {
		t.Errorf("order %v", seqs)
	}
}

func TestClose(t *testing.T) {
	c := newCluster(t, 2)
	n := c.nodes[1]
	waiting := n.start("some text")
	eventually(t, "it waits", func() bool { return n.Stats().Waiting == 1 })
	n.Close()
	o := <-waiting
	wantCode(t, o.err, api.CodeNotEnqueued)
	_, _, err := n.publish("too late")
	wantCode(t, err, api.CodeNotEnqueued)

	leader := c.lead("node-0")
	leader.set(func(n *fakeNode) { n.stalled = true })
	sent := leader.start("other text")
	eventually(t, "it is in flight", func() bool {
		return leader.get(func(n *fakeNode) int { return len(n.uncommitted) }) == 1
	})
	leader.Close()
	o = <-sent
	wantCode(t, o.err, api.CodeOutcomeUnknown)
	if _, _, err := leader.ProposeAsLeader(context.Background(), &fsm.Lead{ServerID: "node-0"}); err == nil {
		t.Error("took a command after Close")
	}
}

func TestProposeAsLeader(t *testing.T) {
	c := newCluster(t, 2)
	c.elect("node-1")
	n := c.elect("node-0")
	if r, index, err := n.ProposeAsLeader(context.Background(), &fsm.Lead{ServerID: n.id}); err != nil ||
		r.Outcome != fsm.OutcomeDone || index != 1 {
		t.Fatalf("%+v at %d: %v", r, index, err)
	}
	// Nothing else may pass before StartLeading, nor in another term.
	n.timing.propose, n.timing.grace = 30*time.Millisecond, 5*time.Second
	_, _, err := n.publish("some text")
	wantCode(t, err, api.CodeNotEnqueued)
	n.StartLeading(n.CurrentTerm() - 1)
	_, _, err = n.publish("some text")
	wantCode(t, err, api.CodeNotEnqueued)

	if _, _, err := c.nodes[1].ProposeAsLeader(context.Background(), &fsm.Lead{ServerID: "node-1"}); !errors.Is(err, raft.ErrNotLeader) {
		t.Errorf("on a follower: %v", err)
	}
	if s := c.nodes[1].Stats(); s.Open != 0 {
		t.Errorf("left open: %+v", s)
	}
	if n.sm.count("some text") != 0 || n.CommitIndex() != 1 {
		t.Error("a command passed before the node led")
	}
}
