package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// target says which nodes a fault is for. They are chosen when the fault begins.
type target string

// The targets.
const (
	leader   target = "leader"
	follower target = "follower"
	reader   target = "reader" // the node without a vote
	all      target = "all"
	ill      target = "ill" // the target of the previous fault
)

// event is one fault of a plan.
type event struct {
	At     time.Duration `json:"at"` // since the first fault
	For    time.Duration `json:"for"`
	Fault  string        `json:"fault"`
	Target target        `json:"target"`
	Hard   bool          `json:"hard"` // even if it leaves no majority
	// What happened:
	Nodes    []string      `json:"nodes,omitempty"`
	Begin    time.Duration `json:"begin"` // since the run began
	End      time.Duration `json:"end"`
	Note     string        `json:"note,omitempty"`     // why it was left out
	Minority bool          `json:"minority,omitempty"` // too few voters were left to write
	Leaders  int           `json:"leaders"`            // how many began to lead meanwhile
	Gap      time.Duration `json:"gap"`                // longest time without an acknowledged write on other nodes
	Silent   time.Duration `json:"silent"`             // when that began
	ReadGap  time.Duration `json:"readGap"`            // the same for reads that need no leader
	Writes   slowness      `json:"writeTimes"`         // of other nodes
	Reads    slowness      `json:"readTimes"`
	Why      []string      `json:"why,omitempty"` // what nodes logged in a long gap
}

// fault is something that can be done to nodes, and how it is undone; nil: not undone.
type fault struct {
	process bool // the process does not run, or is stopped, meanwhile
	weakens bool // the node cannot take part in a majority meanwhile
	disk    bool // needs a voter with its own disk; one at a time
	spoils  bool // the node's data may be lost; once in a run
	network bool // changes the network between nodes
	lossy   bool // needs a network that can lose packets
	// loopback needs nodes on loopback addresses: others reject --clock-offset, and a
	// switch does not see connections.
	loopback bool
	begin    func(b *bench, nodes []*harness.Node) error
	end      func(b *bench, nodes []*harness.Node) error
}

// faults are all faults by name.
var faults = map[string]fault{
	"kill":       {process: true, begin: each((*bench).kill), end: each((*bench).start)},
	"terminate":  {process: true, begin: send(syscall.SIGTERM), end: each((*bench).startAgain)},
	"pause":      {process: true, begin: send(syscall.SIGSTOP), end: send(syscall.SIGCONT)},
	"starve":     {process: true, begin: each((*bench).starve), end: each((*bench).feed)},
	"replace":    {process: true, spoils: true, begin: each((*bench).replace)},
	"clock":      {process: true, loopback: true, begin: reclock(time.Hour), end: reclock(0)},
	"clock back": {process: true, loopback: true, begin: reclock(-time.Hour), end: reclock(0)},
	"lead":       {begin: each((*bench).lead)},

	"fill":       {disk: true, begin: each((*bench).fill), end: each((*bench).empty)},
	"hang disk":  {disk: true, process: true, begin: each((*bench).hang), end: each((*bench).work)},
	"slow disk":  {disk: true, process: true, begin: each((*bench).slow), end: each((*bench).work)},
	"fail disk":  {disk: true, process: true, begin: each((*bench).fail), end: each((*bench).remount)},
	"lose power": {disk: true, process: true, begin: (*bench).losePower, end: (*bench).restorePower},
	"flip bit":   {process: true, spoils: true, begin: each((*bench).flip), end: each((*bench).repair)},
	"tear log":   {process: true, spoils: true, begin: each((*bench).tear), end: each((*bench).repair)},

	"isolate":    {network: true, weakens: true, begin: ways(quality{cut: true}, true, true), end: ways(quality{}, true, true)},
	"deaf":       {network: true, weakens: true, begin: ways(quality{cut: true}, true, false), end: ways(quality{}, true, false)},
	"mute":       {network: true, weakens: true, begin: ways(quality{cut: true}, false, true), end: ways(quality{}, false, true)},
	"cut pair":   {network: true, begin: pair(quality{cut: true}), end: pair(quality{})},
	"delay":      {network: true, begin: ways(distant, true, true), end: ways(quality{}, true, true)},
	"lose":       {network: true, lossy: true, begin: pair(lossyLink), end: pair(quality{})},
	"narrow":     {network: true, begin: ways(quality{bandwidth: 128 << 10}, true, true), end: ways(quality{}, true, true)},
	"disconnect": {loopback: true, begin: each(func(b *bench, n *harness.Node) error { return b.network.reset(n.Name) })},
}

// distant is about 200 ms away, and lossyLink also loses every tenth packet.
var (
	distant   = quality{delay: 100 * time.Millisecond, jitter: 200 * time.Millisecond}
	lossyLink = quality{delay: distant.delay, jitter: distant.jitter, loss: 0.1}
)

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

// ways changes the paths to and from nodes.
func ways(q quality, to, from bool) func(*bench, []*harness.Node) error {
	return each(func(b *bench, n *harness.Node) error {
		for _, other := range b.nodes {
			if to {
				b.network.set(other.Name, n.Name, q)
			}
			if from {
				b.network.set(n.Name, other.Name, q)
			}
		}
		return nil
	})
}

// pair changes the path between a voter and the next one, in both directions.
func pair(q quality) func(*bench, []*harness.Node) error {
	return each(func(b *bench, n *harness.Node) error {
		other := b.voters[(slices.Index(b.voters, n)+1)%len(b.voters)]
		b.network.set(n.Name, other.Name, q)
		b.network.set(other.Name, n.Name, q)
		return nil
	})
}

func (b *bench) start(n *harness.Node) error {
	if err := n.Start(); err != nil {
		return err
	}
	b.network.runs(n.Name, n.PID())
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
func reclock(offset time.Duration) func(*bench, []*harness.Node) error {
	return each(func(b *bench, n *harness.Node) error {
		if err := n.Terminate(); err != nil {
			return err
		}
		n.Flags["clock-offset"] = offset.String()
		return b.start(n)
	})
}

// lead makes a node the leader.
func (b *bench) lead(n *harness.Node) error {
	s, err := n.Status()
	if err != nil {
		return err
	}
	code, _, text := b.run.Command(nil, "raft", "transfer-leader", s.Node, "--cluster-addr", n.Private, "--secret-file", n.Flags["secret-file"])
	if code != 0 {
		return fmt.Errorf("it does not lead: %s", text)
	}
	return nil
}

// A starved node gets this share of each period, about 3 percent of the processor.
const (
	hungerPeriod = 100 * time.Millisecond
	hungerShare  = 3 * time.Millisecond
)

// starve stops a node for most of the time, until feed is called.
func (b *bench) starve(n *harness.Node) error {
	ctx, stop := context.WithCancel(b.run.Ctx)
	ended := make(chan error)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = n.Signal(syscall.SIGSTOP)
			rest(ctx, hungerPeriod-hungerShare)
			err = errors.Join(err, n.Signal(syscall.SIGCONT))
			rest(ctx, hungerShare)
		}
		ended <- err
	}()
	b.hungry[n.Name] = func() error { stop(); return <-ended }
	return nil
}

// feed ends starve. A node that ended meanwhile is started again.
func (b *bench) feed(n *harness.Node) error {
	err := b.hungry[n.Name]()
	delete(b.hungry, n.Name)
	if !n.Running() {
		return b.start(n)
	}
	return err
}

// step is the begin or the end of an event.
type step struct {
	at    time.Duration
	event *event
	end   bool
}

// play carries out a plan. A node that is down already, or that is not a voter where the
// fault needs one, is left alone, and the event says so.
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
		if !next.end && next.event.Note == "" && b.o.faults()[next.event.Fault].end != nil {
			steps = append(steps, step{at: time.Since(began) + next.event.For, event: next.event, end: true})
		}
	}
	return nil
}

func (b *bench) carryOut(s step) error {
	e, f := s.event, b.o.faults()[s.event.Fault]
	if s.end {
		err := f.end(b, b.named(e.Nodes))
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
	b.last = e.Nodes
	e.Minority = b.minority()
	e.Begin = time.Since(b.began)
	err := f.begin(b, nodes)
	if f.end == nil {
		for _, n := range nodes {
			delete(b.weak, n.Name)
		}
	}
	e.End = time.Since(b.began)
	fmt.Printf("   %6.1f s  %s %v for %v\n", e.Begin.Seconds(), e.Fault, e.Nodes, e.For.Round(time.Millisecond))
	return err
}

// skippedNote begins the note of an event that this machine or network cannot carry out.
const skippedNote = "skipped: "

// forbids says why a fault is left out: skipped is what this machine or network cannot
// do, the rest is what the plan must not do now.
func (b *bench) forbids(e *event, f fault, nodes []*harness.Node) string {
	others := slices.DeleteFunc(slices.Clone(b.voters), func(n *harness.Node) bool { return slices.Contains(nodes, n) })
	isDown := func(n *harness.Node) bool { return b.down[n.Name] }
	_, proxies := b.network.(*links)
	switch {
	case f.disk && b.noDisks != "":
		return skippedNote + "a node has no disk of its own here: " + b.noDisks
	case f.lossy && proxies:
		return skippedNote + "proxies lose nothing; -network namespaces does"
	case f.loopback && !proxies:
		return skippedNote + "-network proxies has it"
	case e.Target == ill && len(b.last) == 0:
		return skippedNote + "the fault before it was not carried out"
	case len(nodes) == 0 || (f.process || f.disk) && howMany(nodes, isDown) > 0:
		return "left out: no such node runs"
	case f.process && !e.Hard && e.Target != reader && len(nodes)+howMany(others, isDown) > tolerated(len(b.voters)):
		return "left out: it would leave no majority"
	case (f.disk || f.spoils) && e.Target == reader:
		return "left out: the reader has no disk of its own"
	case e.Fault == "lead" && (e.Target == reader || howMany(nodes, func(n *harness.Node) bool { return b.weak[n.Name] }) > 0):
		return "left out: a reader cannot lead, nor a voter that is cut off"
	case e.Fault == "fill" && b.filled:
		return "left out: another disk is, or was, full"
	case f.spoils && (b.spoiled != nil || len(b.down) > 0):
		return "left out: two lost disks would be one too many"
	}
	return ""
}

func howMany(nodes []*harness.Node, is func(*harness.Node) bool) (n int) {
	for _, node := range nodes {
		if is(node) {
			n++
		}
	}
	return n
}

// tolerated is how many of the voters may fail without losing the majority.
func tolerated(voters int) int { return (voters - 1) / 2 }

// minority reports whether too few voters are left to write. Voters do not count if they
// are down, cut off, or lost their disk and do not vote yet.
func (b *bench) minority() bool {
	weak := 0
	for _, n := range b.voters {
		if b.weak[n.Name] || n == b.spoiled && !b.votes(n) {
			weak++
		}
	}
	return weak > tolerated(len(b.voters))
}

// votes reports whether a running node has a vote.
func (b *bench) votes(n *harness.Node) bool {
	s, err := n.Status()
	return err == nil && len(s.Voters) == len(b.voters) && slices.Contains(s.Voters, s.Node)
}

// choose returns the current nodes of a target.
func (b *bench) choose(t target) []*harness.Node {
	led := b.watch.leader()
	switch t {
	case all:
		return b.nodes
	case reader:
		return b.nodes[len(b.voters):]
	case leader:
		return b.named([]string{led})
	case ill:
		return b.named(b.last)
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
