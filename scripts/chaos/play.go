package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// step is the begin or the end of an event.
type step struct {
	at    time.Duration
	event *event
	end   bool
}

// play carries out a plan. A node that is down already, or that is not a voter where the
// fault needs one, is left alone, and the event says so.
func (b *testbed) play(ctx context.Context, plan []event) error {
	if len(plan) > 0 && plan[0].InTurn {
		return b.playInTurn(ctx, plan)
	}
	began := time.Now()
	var steps []step
	for i := range plan {
		steps = append(steps, step{at: plan[i].At, event: &plan[i]})
	}
	for len(steps) > 0 {
		slices.SortStableFunc(steps, func(x, y step) int { return cmp.Compare(x.at, y.at) })
		next := steps[0]
		steps = steps[1:]
		harness.Pause(ctx, next.at-time.Since(began))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := b.carryOut(next); err != nil {
			return fmt.Errorf("%s of %v: %w", next.event.Fault, next.event.Nodes, err)
		}
		if !next.end && next.event.Note == "" && b.o.fault(next.event.Fault).end != nil {
			steps = append(steps, step{at: time.Since(began) + next.event.For, event: next.event, end: true})
		}
	}
	return nil
}

// playInTurn carries out one event after the other, and waits after each until every node
// is well.
func (b *testbed) playInTurn(ctx context.Context, plan []event) error {
	for i := range plan {
		e := &plan[i]
		f := b.o.fault(e.Fault)
		votes := func() error { return nil }
		if !f.resizes {
			votes = b.watchVotes(ctx)
		}
		err := harness.Try(func() {
			harness.Must(b.carryOut(step{event: e}))
			if e.Note != "" {
				harness.Failf("%s", e.Note)
			}
			harness.Pause(ctx, e.For)
			if f.end != nil {
				harness.Must(b.carryOut(step{event: e, end: true}))
			}
			b.settle()
		})
		if err := errors.Join(err, votes(), ctx.Err()); err != nil {
			return fmt.Errorf("%s of %v: %w", e.Fault, e.Nodes, err)
		}
		e.Well = time.Since(b.began)
		fmt.Printf("   %6.1f s  all nodes are well\n", e.Well.Seconds())
	}
	return nil
}

// watchVotes looks at the configuration of each voter until the returned function is
// called. That returns an error if a node has counted too few: a server was removed before
// its successor had a vote.
func (b *testbed) watchVotes(ctx context.Context) (end func() error) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() {
		var few error
		for i := 0; ctx.Err() == nil; i++ {
			n := b.voters[i%len(b.voters)]
			s, err := n.Status()
			if err == nil && few == nil && slices.Contains(s.Voters, s.Node) && len(s.Voters) < len(b.voters) {
				few = fmt.Errorf("%s counts the voters %v", n.Name, s.Voters)
			}
			harness.Pause(ctx, watchEvery)
		}
		ended <- few
	}()
	return func() error { stop(); return <-ended }
}

func (b *testbed) carryOut(s step) error {
	e, f := s.event, b.o.fault(s.event.Fault)
	if s.end {
		err := harness.Try(func() { f.end(b, b.named(e.Nodes)) })
		for _, name := range e.Nodes {
			delete(b.down, name)
			delete(b.weak, name)
		}
		e.End = time.Since(b.began)
		return err
	}
	nodes := b.choose(e.Target)
	if e.Note = b.forbids(e, f, nodes); e.Note != "" {
		fmt.Printf("            %s: %s\n", e.Fault, e.Note)
		return nil
	}
	for _, n := range nodes {
		e.Nodes = append(e.Nodes, n.Name)
		if f.process && f.end != nil {
			b.down[n.Name] = true
		}
		if f.process || f.weakens {
			b.weak[n.Name] = true
		}
	}
	b.filled = b.filled || e.Fault == "fill"
	if f.spoils {
		b.spoiled = nodes[0]
	}
	e.Minority = f.interrupts || b.minority()
	e.Begin = time.Since(b.began)
	err := harness.Try(func() { f.begin(b, nodes) })
	if f.end == nil {
		for _, n := range nodes {
			delete(b.weak, n.Name)
		}
	}
	e.End = time.Since(b.began)
	fmt.Printf("   %6.1f s  %s %v for %v\n", e.Begin.Seconds(), e.Fault, e.Nodes, e.For.Round(time.Millisecond))
	return err
}

// forbids returns the reason to leave a fault out, or "". A fault is skipped if this machine
// cannot carry it out; other faults would do too much damage at the moment.
func (b *testbed) forbids(e *event, f fault, nodes []*harness.Node) string {
	isDown := func(n *harness.Node) bool { return b.down[n.Name] }
	others := slices.DeleteFunc(slices.Clone(b.voters), func(n *harness.Node) bool { return slices.Contains(nodes, n) || !isDown(n) })
	switch {
	case f.disk && b.noDisks != "":
		return skippedNote + "a node has no disk of its own here: " + b.noDisks
	case e.Target != cluster && len(nodes) == 0 || (f.process || f.disk) && slices.ContainsFunc(nodes, isDown):
		return "left out: no such node runs"
	case f.process && !e.Hard && e.Target != reader && len(nodes)+len(others) > tolerated(len(b.voters)):
		return "left out: it would leave no majority"
	case (f.disk || f.spoils) && e.Target == reader:
		return "left out: the reader has no disk of its own"
	case e.Fault == "lead" && (e.Target == reader || slices.ContainsFunc(nodes, func(n *harness.Node) bool { return b.weak[n.Name] })):
		return "left out: a reader cannot lead, nor a voter that is cut off"
	case e.Fault == "fill" && b.filled:
		return "left out: another disk is, or was, full"
	case f.spoils && (b.spoiled != nil || len(b.down) > 0):
		return "left out: two lost disks would be one too many"
	}
	return ""
}

// tolerated is how many of the voters may fail without losing the majority.
func tolerated(voters int) int { return (voters - 1) / 2 }

// minority reports whether too few voters are left to write. Voters do not count if they
// are down, cut off, or lost their disk and do not vote yet.
func (b *testbed) minority() bool {
	weak := 0
	for _, n := range b.voters {
		if b.weak[n.Name] || n == b.spoiled && !b.votes(n) {
			weak++
		}
	}
	return weak > tolerated(len(b.voters))
}

// votes reports whether a running node has a vote.
func (b *testbed) votes(n *harness.Node) bool {
	s, err := n.Status()
	return err == nil && len(s.Voters) == len(b.voters) && slices.Contains(s.Voters, s.Node)
}

// choose returns the current nodes of a target.
func (b *testbed) choose(t target) []*harness.Node {
	led := b.watch.leader()
	switch t {
	case cluster:
		return nil
	case all:
		return b.nodes
	case reader:
		return b.nodes[len(b.voters):]
	case leader:
		return b.named([]string{led})
	case follower:
		for _, n := range b.voters {
			if n.Name != led && !b.down[n.Name] {
				return []*harness.Node{n}
			}
		}
		return nil
	}
	return b.named([]string{string(t)})
}
