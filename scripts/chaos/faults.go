package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// target says which node a fault is for; which that is decides when it begins.
type target string

// The targets.
const (
	leader   target = "leader"
	follower target = "follower"
	reader   target = "reader" // the node without a vote
	all      target = "all"
)

// event is one fault of a plan.
type event struct {
	At     time.Duration `json:"at"` // since the first fault
	For    time.Duration `json:"for"`
	Fault  string        `json:"fault"`
	Target target        `json:"target"`
	Hard   bool          `json:"hard"` // also where it leaves no majority
	// What happened:
	Nodes []string      `json:"nodes,omitempty"`
	Begin time.Duration `json:"begin"` // since the run began
	End   time.Duration `json:"end"`
	Note  string        `json:"note,omitempty"` // why it was left out
	Gap   time.Duration `json:"gap"`            // longest time without an acknowledged write on other nodes
}

// fault is something that can be done to nodes, and how it is undone; nil is not.
type fault struct {
	process bool // the node is not there, or does not run, meanwhile
	begin   func(b *bench, nodes []*harness.Node) error
	end     func(b *bench, nodes []*harness.Node) error
}

// faults are all by name.
var faults = map[string]fault{
	"kill":      {process: true, begin: each((*bench).kill), end: each((*bench).start)},
	"terminate": {process: true, begin: send(syscall.SIGTERM), end: each((*bench).startAgain)},
	"pause":     {process: true, begin: send(syscall.SIGSTOP), end: send(syscall.SIGCONT)},
	"replace":   {process: true, begin: each((*bench).replace)},
	"clock": {process: true, begin: func(b *bench, nodes []*harness.Node) error {
		return b.reclock(nodes, time.Hour)
	}, end: func(b *bench, nodes []*harness.Node) error { return b.reclock(nodes, 0) }},
	"fill":       {begin: each((*bench).fill), end: each((*bench).empty)},
	"isolate":    {begin: ways(quality{cut: true}, true, true), end: ways(quality{}, true, true)},
	"deaf":       {begin: ways(quality{cut: true}, true, false), end: ways(quality{}, true, false)},
	"mute":       {begin: ways(quality{cut: true}, false, true), end: ways(quality{}, false, true)},
	"cut pair":   {begin: pair(quality{cut: true}), end: pair(quality{})},
	"delay":      {begin: ways(quality{delay: 100 * time.Millisecond, jitter: 200 * time.Millisecond}, true, true), end: ways(quality{}, true, true)},
	"narrow":     {begin: ways(quality{bandwidth: 128 << 10}, true, true), end: ways(quality{}, true, true)},
	"disconnect": {begin: each(func(b *bench, n *harness.Node) error { b.links.reset(n.Name); return nil })},
}

func each(do func(*bench, *harness.Node) error) func(*bench, []*harness.Node) error {
	return func(b *bench, nodes []*harness.Node) error {
		for _, n := range nodes {
			if err := do(b, n); err != nil {
				return err
			}
		}
		return nil
	}
}

func send(s os.Signal) func(*bench, []*harness.Node) error {
	return each(func(_ *bench, n *harness.Node) error { return n.Signal(s) })
}

// ways changes the ways to and from nodes.
func ways(q quality, to, from bool) func(*bench, []*harness.Node) error {
	return each(func(b *bench, n *harness.Node) error {
		for _, other := range b.nodes {
			if to {
				b.links.set(other.Name, n.Name, q)
			}
			if from {
				b.links.set(n.Name, other.Name, q)
			}
		}
		return nil
	})
}

// pair changes the way between a voter and the next one, in both directions.
func pair(q quality) func(*bench, []*harness.Node) error {
	return each(func(b *bench, n *harness.Node) error {
		other := b.voters[(slices.Index(b.voters, n)+1)%len(b.voters)]
		b.links.set(n.Name, other.Name, q)
		b.links.set(other.Name, n.Name, q)
		return nil
	})
}

func (b *bench) start(n *harness.Node) error {
	if err := n.Start(); err != nil {
		return err
	}
	b.links.runs(n.Name, n.PID())
	return nil
}

func (b *bench) kill(n *harness.Node) error { n.Kill(); return nil }

// startAgain starts a node that was asked to end.
func (b *bench) startAgain(n *harness.Node) error {
	code, err := n.Wait()
	if err == nil && code != 0 {
		err = fmt.Errorf("it ended with exit code %d:\n%s", code, n.LogTail())
	}
	if err != nil {
		return err
	}
	return b.start(n)
}

// replace kills a node and starts it on an empty disk.
func (b *bench) replace(n *harness.Node) error {
	n.Kill()
	if err := os.RemoveAll(n.Dir); err != nil {
		return err
	}
	return b.start(n)
}

// reclock starts nodes again with another clock.
func (b *bench) reclock(nodes []*harness.Node, offset time.Duration) error {
	for _, n := range nodes {
		if err := n.Terminate(); err != nil {
			return err
		}
		n.Flags["clock-offset"] = offset.String()
		if err := b.start(n); err != nil {
			return err
		}
	}
	return nil
}

// scenarios are plans with a name. Times are since the first fault.
var scenarios = map[string][]event{
	"leader killed":         repeated(3, 9*time.Second, event{For: 3 * time.Second, Fault: "kill", Target: leader}),
	"follower killed":       repeated(3, 7*time.Second, event{For: 3 * time.Second, Fault: "kill", Target: follower}),
	"reader killed":         {{For: 3 * time.Second, Fault: "kill", Target: reader}},
	"leader paused":         {{For: 12 * time.Second, Fault: "pause", Target: leader}},
	"follower paused":       {{For: 12 * time.Second, Fault: "pause", Target: follower}},
	"followers paused":      {{For: 13 * time.Second, Fault: "pause", Target: follower, Hard: true}, {At: time.Millisecond, For: 13 * time.Second, Fault: "pause", Target: follower, Hard: true}},
	"rolling restart":       repeated(3, 8*time.Second, event{For: time.Second, Fault: "terminate", Target: leader}),
	"everything killed":     {{For: 2 * time.Second, Fault: "kill", Target: all, Hard: true}},
	"leader isolated":       {{For: 8 * time.Second, Fault: "isolate", Target: leader}},
	"leader deaf":           {{For: 8 * time.Second, Fault: "deaf", Target: leader}},
	"leader mute":           {{For: 8 * time.Second, Fault: "mute", Target: leader}},
	"two voters deaf":       {{For: 8 * time.Second, Fault: "deaf", Target: follower}, {At: 2 * time.Second, For: 600 * time.Millisecond, Fault: "deaf", Target: leader}},
	"two voters cut":        {{For: 8 * time.Second, Fault: "cut pair", Target: leader}},
	"bad network":           {{For: 10 * time.Second, Fault: "delay", Target: follower}, {At: 3 * time.Second, Fault: "disconnect", Target: leader}, {At: 12 * time.Second, For: 5 * time.Second, Fault: "narrow", Target: follower}},
	"replaced node":         {{Fault: "replace", Target: follower}},
	"clock an hour ahead":   {{For: 8 * time.Second, Fault: "clock", Target: leader}},
	"leader with full disk": {{For: 8 * time.Second, Fault: "fill", Target: leader}},
	"killed while isolated": {{For: 8 * time.Second, Fault: "isolate", Target: leader}, {At: 4 * time.Second, For: 3 * time.Second, Fault: "kill", Target: leader}},
}

func repeated(n int, every time.Duration, e event) []event {
	plan := make([]event, n)
	for i := range plan {
		e.At = time.Duration(i) * every
		plan[i] = e
	}
	return plan
}

// randomPlan is faults over a time, of which some overlap. The seed decides all of it.
func randomPlan(seed uint64, length time.Duration) []event {
	const shortest, longest, pause = 500 * time.Millisecond, 9 * time.Second, 4 * time.Second
	random := rand.New(rand.NewPCG(seed, 0))
	names := slices.Sorted(keys(faults))
	targets := []target{leader, leader, leader, follower, follower, reader}
	var plan []event
	for at := time.Duration(0); at < length; at += pause/4 + time.Duration(random.Int64N(int64(2*pause))) {
		e := event{At: at, Fault: names[random.IntN(len(names))], Target: targets[random.IntN(len(targets))]}
		e.For = shortest + time.Duration(random.Int64N(int64(longest-shortest)))
		e.Hard = random.IntN(5) == 0
		if e.Fault == "kill" && random.IntN(12) == 0 {
			e.Target, e.For, e.Hard = all, 2*time.Second, true
		}
		plan = append(plan, e)
	}
	return plan
}

// step is the begin or the end of an event.
type step struct {
	at    time.Duration
	event *event
	end   bool
}

// play carries a plan out. A node that is down already, or that is no voter where one
// is needed, is left alone, and the event says so.
func (b *bench) play(ctx context.Context, plan []event) error {
	began := time.Now()
	var steps []step
	for i := range plan {
		steps = append(steps, step{at: plan[i].At, event: &plan[i]})
	}
	for len(steps) > 0 {
		slices.SortStableFunc(steps, func(x, y step) int { return cmp.Compare(x.at, y.at) })
		next := steps[0]
		steps = steps[1:]
		rest(ctx, next.at-time.Since(began))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := b.carryOut(next); err != nil {
			return fmt.Errorf("%s of %v: %w", next.event.Fault, next.event.Nodes, err)
		}
		if !next.end && next.event.Note == "" && faults[next.event.Fault].end != nil {
			steps = append(steps, step{at: time.Since(began) + next.event.For, event: next.event, end: true})
		}
	}
	return nil
}

func (b *bench) carryOut(s step) error {
	e, f := s.event, faults[s.event.Fault]
	if s.end {
		for _, name := range e.Nodes {
			delete(b.down, name)
		}
		err := f.end(b, b.named(e.Nodes))
		e.End = time.Since(b.began)
		return err
	}
	nodes := b.choose(e.Target)
	if len(nodes) == 0 || f.process && slices.ContainsFunc(nodes, func(n *harness.Node) bool { return b.down[n.Name] }) {
		e.Note = "left out: no such node runs"
		return nil
	}
	if f.process && !e.Hard && e.Target != reader && slices.ContainsFunc(b.voters, func(n *harness.Node) bool { return b.down[n.Name] }) {
		e.Note = "left out: it would leave no majority"
		return nil
	}
	if e.Fault == "fill" && (b.noDisks != "" || e.Target == reader || b.filled) {
		e.Note = "skipped: a node has no disk of its own here, or another one is full: " + b.noDisks
		fmt.Println("   " + e.Note)
		return nil
	}
	b.filled = b.filled || e.Fault == "fill"
	if e.Fault == "replace" {
		if b.replaced || len(b.down) > 0 || e.Target == reader {
			e.Note = "left out: two lost disks would be one too many"
			return nil
		}
		b.replaced = true
	}
	for _, n := range nodes {
		e.Nodes = append(e.Nodes, n.Name)
		if f.process && f.end != nil {
			b.down[n.Name] = true
		}
	}
	e.Begin = time.Since(b.began)
	err := f.begin(b, nodes)
	e.End = time.Since(b.began)
	fmt.Printf("   %6.1f s  %s %v for %v\n", e.Begin.Seconds(), e.Fault, e.Nodes, e.For.Round(time.Millisecond))
	return err
}

// choose returns the nodes of a target as they are now.
func (b *bench) choose(t target) []*harness.Node {
	led := b.watch.leader()
	switch t {
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
	}
	return nil
}

func (b *bench) named(names []string) (found []*harness.Node) {
	for _, n := range b.nodes {
		if slices.Contains(names, n.Name) {
			found = append(found, n)
		}
	}
	return found
}
