package propose

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
)

// addTo adds a command to a session.
func addTo(s *session, text string) *call {
	data, err := command.Encode(entryOf(text))
	if err == nil {
		c := newCall(sender, entryOf(text), data)
		if err = s.add(c); err == nil {
			return c
		}
	}
	panic(err)
}

func TestExpiry(t *testing.T) {
	add := func() (*session, *call, batch) {
		s := newSession(command.BootID{1}, nil)
		c := addTo(s, "text")
		p := s.take()
		return s, c, p
	}
	for _, tt := range []struct {
		name string
		end  func(s *session, c *call, p batch)
		code command.Code
	}{
		{"the last attempt was rejected", func(s *session, c *call, p batch) {
			s.expire(c, "late")
			s.update(p, notLeading())
		}, command.CodeNotEnqueued},
		{"the last attempt is unknown", func(s *session, c *call, p batch) {
			s.expire(c, "late")
			s.update(p, result{Status: statusUnknown})
		}, command.CodeOutcomeUnknown},
		{"the last attempt does not end", func(s *session, c *call, p batch) {
			s.expire(c, "late")
			s.abandon(c, "later")
		}, command.CodeOutcomeUnknown},
		{"no attempt under way", func(s *session, c *call, p batch) {
			s.update(p, notLeading())
			s.expire(c, "late")
		}, command.CodeNotEnqueued},
		{"an earlier attempt is unknown", func(s *session, c *call, p batch) {
			s.update(p, result{Status: statusUnknown})
			s.take()
			s.expire(c, "late")
		}, command.CodeOutcomeUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c, p := add()
			tt.end(s, c, p)
			select {
			case <-c.done:
				wantCode(t, c.err, tt.code)
			default:
				t.Fatal("not answered")
			}
			check.Empty(t, s.take().calls, "it is sent again")
		})
	}
}

func TestSnapshotPastTheObserver(t *testing.T) {
	c := newCluster(t, 2)
	leader := c.lead("node-0")
	n := c.nodes[1]
	n.set(func(n *fakeNode) { n.held = true })
	ch := n.start("some text")
	await.Eventually(t, "the leader's answer is here", func() bool {
		n.session.mu.Lock()
		defer n.session.mu.Unlock()
		for _, c := range n.session.calls {
			return c.confirmed
		}
		return false
	})
	n.sm.install(leader.sm)
	n.Recheck(n.sm.View())
	if o := <-ch; o.err != nil || o.result.Entry != 1 || o.index != 2 {
		t.Errorf("outcome %+v", o)
	}
}

func TestSnapshotBeforeTheAnswer(t *testing.T) {
	c := newCluster(t, 2)
	leader := c.lead("node-0")
	n := c.nodes[1]
	n.timing.propose = time.Hour
	n.set(func(n *fakeNode) { n.held = true })
	// The snapshot overtakes the leader's answer.
	c.net.onServed(func(_, _ string, r *http.Request) {
		if r.URL.Path == pathPropose {
			n.sm.install(leader.sm)
			n.Recheck(n.sm.View())
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if r, _, err := n.Propose(ctx, sender, entryOf("some text")); err != nil || r.Entry != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestFloorIsTheSmallestUnanswered(t *testing.T) {
	c := newCluster(t, 2)
	leader := c.lead("node-0")
	n := c.nodes[1]
	for range 5 {
		must.Do(t, check.Last(n.publish("some text")))
	}
	leader.sm.mu.Lock()
	floors := leader.sm.floors[1:]
	leader.sm.mu.Unlock()
	check.Equal(t, fmt.Sprint(floors), "[1 2 3 4 5]", "floors %v", floors)
	s := n.session
	one := addTo(s, "first text")
	two := addTo(s, "second text")
	check.Equal(t, declared(s).Floor, one.Seq, "floor with %d unanswered", one.Seq)
	s.abandon(one, "")
	s.abandon(two, "")
	check.Equal(t, declared(s).Floor, two.Seq+1, "floor after everything is answered")
}

// declared returns the numbers that the next group of a session declares.
func declared(s *session) command.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.group()
}

// TestSlowCallDoesNotHoldTheFloor lets many calls pass one that is not answered. The
// state keeps few results meanwhile, and the slow call still has one effect, whether
// or not its first attempt had one.
func TestSlowCallDoesNotHoldTheFloor(t *testing.T) {
	for _, first := range []status{statusNotEnqueued, statusUnknown} {
		t.Run(fmt.Sprint("status ", first), func(t *testing.T) {
			s := newSession(command.BootID{1}, slog.New(slog.DiscardHandler))
			s.maxLag = 4
			m := newFakeMachine(s)
			apply := func(p batch) {
				data := must.Get(command.EncodeBatch(command.Batch{Stamp: 1, Groups: []command.Group{p.group}}))(t)
				m.apply(t, m.applied+1, data)
			}
			slow := addTo(s, "slow")
			late := s.take()
			if first == statusUnknown {
				apply(late)
			}
			for i := range 100 {
				addTo(s, fmt.Sprint("text ", i))
				p := s.take()
				apply(p)
				s.update(p, result{Status: statusApplied, Index: m.applied})
			}
			if g := declared(s); g.Floor < slow.Seq+100 {
				t.Errorf("floor %d", g.Floor)
			}
			if kept := len(m.sessions[s.boot].results); kept > 10 {
				t.Errorf("%d results kept", kept)
			}
			s.update(late, result{Status: first})
			p := s.take()
			apply(p)
			s.update(p, result{Status: statusApplied, Index: m.applied})
			select {
			case <-slow.done:
				check.Err(t, slow.err, nil, "%+v: err", slow.result)
				check.Equal(t, slow.result.Outcome, command.OutcomeDone, "%+v: outcome", slow.result)
			default:
				t.Error("the slow call is not answered")
			}
			check.Equal(t, m.count("slow"), 1, "effects")
		})
	}
}

func TestSpanIsBounded(t *testing.T) {
	s := newSession(command.BootID{1}, nil)
	// As many calls as can be listed as open, and one that holds the floor.
	for range command.MaxOpen + 1 {
		c := newCall(sender, entryOf("first"), nil)
		c.size = 1
		must.Do(t, s.add(c))
	}
	first := s.take().calls
	must.Equal(t, len(first), command.MaxOpen+1, "handshakes")
	sent := 1 // that one
	for range MaxSpan + 10 {
		c := newCall(sender, entryOf("more"), nil)
		c.size = 1
		must.Do(t, s.add(c))
	}
	for {
		p := s.take()
		if len(p.calls) == 0 {
			break
		}
		sent += len(p.calls)
		for _, c := range p.calls {
			s.Applied(s.boot, c.Seq, command.Result{Outcome: command.OutcomeDone}, 1)
		}
		s.update(p, result{Status: statusApplied, Index: 1})
	}
	check.Equal(t, sent, MaxSpan, "numbers sent from the floor on")
	work := make(chan bool)
	go func() { work <- s.awaitWork() }()
	time.Sleep(20 * time.Millisecond) // lets it wait, so that it must be woken
	s.abandon(first[3], "")           // leaves room in the list for the one that holds the floor
	if !<-work {
		t.Error("closed")
	}
	if p := s.take(); len(p.calls) != 11 || len(p.group.Open) != command.MaxOpen {
		t.Errorf("took %d once the floor rose, want 11; %d are open below it", len(p.calls), len(p.group.Open))
	}
}

// TestOverload holds that a call is rejected if, at the pace of the newest groups, it would wait
// longer than MaxQueueWait, and not after a single pause.
func TestOverload(t *testing.T) {
	s := newSession(command.BootID{1}, nil)
	var now time.Time
	s.estimate.now = func() time.Time { return now }
	add := func(n int) (err error) {
		for range n {
			c := newCall(sender, entryOf("text"), nil)
			c.size = 1
			err = errors.Join(err, s.add(c))
		}
		return err
	}
	take := func(pause time.Duration) {
		t.Helper()
		now = now.Add(pause)
		b := s.take()
		check.Equal(t, len(b.calls), command.MaxGroupCommands, "calls of a group")
		for _, c := range b.calls {
			s.abandon(c, "")
		}
	}
	const each = MaxQueueWait / command.MaxGroupCommands / 2 // so that two groups may wait
	must.Do(t, add(5*command.MaxGroupCommands))
	take(0)
	take(time.Hour) // as without a leader
	must.Do(t, add(1))
	take(each * command.MaxGroupCommands)
	wantCode(t, add(1), command.CodeNotEnqueued)
	take(each * command.MaxGroupCommands)
	must.Do(t, add(1)) // the queue is shorter
	take(time.Hour)
	check.Equal(t, len(s.take().calls), 2, "calls of the last group")
	s.estimate.each = [2]time.Duration{time.Hour, time.Hour}
	must.Do(t, add(2)) // all that wait fit into the next group
}

func TestRequeuedCallsKeepTheirOrder(t *testing.T) {
	s := newSession(command.BootID{1}, nil)
	for range 4 {
		addTo(s, "text")
	}
	p := s.take()
	addTo(s, "text")
	s.update(p, result{Status: statusNotEnqueued, Rejected: []rejection{{Position: 2}}})
	var seqs []uint64
	for _, c := range s.take().calls {
		seqs = append(seqs, c.Seq)
	}
	check.Equal(t, fmt.Sprint(seqs), "[1 2 4 5]", "order %v", seqs)
}

func TestClose(t *testing.T) {
	c := newCluster(t, 2)
	n := c.nodes[1]
	waiting := n.start("some text")
	await.Eventually(t, "it waits", func() bool { return n.Stats().Waiting == 1 })
	n.Close()
	wantCode(t, (<-waiting).err, command.CodeNotEnqueued)
	wantCode(t, check.Last(n.publish("too late")), command.CodeNotEnqueued)

	leader := c.lead("node-0")
	leader.set(func(n *fakeNode) { n.stalled = true })
	sent := leader.start("other text")
	inFlight(t, leader, 1)
	leader.Close()
	wantCode(t, (<-sent).err, command.CodeOutcomeUnknown)
	_, _, err := leader.ProposeAsLeader(context.Background(), &command.Lead{ServerID: "node-0"})
	check.Fails(err)(t, "propose after Close")
}
