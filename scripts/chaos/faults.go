package main

import (
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// faults are the faults of processes by name.
var faults = map[string]fault{
	"kill":      {process: true, begin: each(func(_ *testbed, n *harness.Node) { n.Kill() }), end: each((*testbed).start)},
	"terminate": {process: true, begin: send(syscall.SIGTERM), end: each((*testbed).startAgain)},
	"pause":     {process: true, begin: send(syscall.SIGSTOP), end: send(syscall.SIGCONT)},
	"starve":    {process: true, begin: each((*testbed).starve), end: each((*testbed).resume)},
	"replace":   {process: true, spoils: true, begin: each((*testbed).replace)},
	"lead":      {begin: each((*testbed).lead)},

	"fill":       {disk: true, begin: each((*testbed).fill), end: each((*testbed).empty)},
	"hang disk":  {disk: true, process: true, begin: each((*testbed).hang), end: each((*testbed).resume)},
	"slow disk":  {disk: true, process: true, begin: each((*testbed).slow), end: each((*testbed).resume)},
	"fail disk":  {disk: true, process: true, begin: each((*testbed).fail), end: each((*testbed).remount)},
	"lose power": {disk: true, process: true, begin: each((*testbed).losePower), end: each((*testbed).restorePower)},

	"isolate":  {weakens: true, begin: ways(quality{cut: true}, true, true), end: ways(quality{}, true, true)},
	"deaf":     {weakens: true, begin: ways(quality{cut: true}, true, false), end: ways(quality{}, true, false)},
	"mute":     {weakens: true, begin: ways(quality{cut: true}, false, true), end: ways(quality{}, false, true)},
	"cut pair": {begin: pair(quality{cut: true}), end: pair(quality{})},
	"delay":    {begin: ways(distant, true, true), end: ways(quality{}, true, true)},
	"lose":     {begin: pair(lossyLink), end: pair(quality{})},
}

// distant is about 200 ms away, and lossyLink also loses a tenth of the data.
var (
	distant   = quality{delay: 100 * time.Millisecond, jitter: 200 * time.Millisecond}
	lossyLink = quality{delay: distant.delay, jitter: distant.jitter, loss: 0.1}
)

// ways changes the paths to and from nodes.
func ways(q quality, to, from bool) func(*testbed, []*harness.Node) {
	return each(func(b *testbed, n *harness.Node) {
		for _, other := range b.nodes {
			if to {
				b.links.set(other.Name, n.Name, q)
			}
			if from {
				b.links.set(n.Name, other.Name, q)
			}
		}
	})
}

// pair changes the path between a voter and the next one, in both directions.
func pair(q quality) func(*testbed, []*harness.Node) {
	return each(func(b *testbed, n *harness.Node) {
		other := b.voters[(slices.Index(b.voters, n)+1)%len(b.voters)]
		b.links.set(n.Name, other.Name, q)
		b.links.set(other.Name, n.Name, q)
	})
}

// fault returns the fault or procedure with a name.
func (o *options) fault(name string) fault {
	if o.contained {
		if f, is := containerFaults[name]; is {
			return f
		}
		return following(name)
	}
	if f, is := faults[name]; is {
		return f
	}
	if f, is := procedures[name]; is {
		return f
	}
	return attackFault(name)
}

func send(s os.Signal) func(*testbed, []*harness.Node) {
	return each(func(_ *testbed, n *harness.Node) { harness.Must(n.Signal(s)) })
}

// startAgain starts a node that was asked to end.
func (b *testbed) startAgain(n *harness.Node) {
	n.Wait(0)
	b.start(n)
}

// replace kills a node and starts it on an empty disk.
func (b *testbed) replace(n *harness.Node) {
	n.Kill()
	harness.Must(os.RemoveAll(n.Dir))
	b.start(n)
}

// lead makes a node the leader.
func (b *testbed) lead(n *harness.Node) {
	harness.Got(harness.Operate(b.run.Ctx, []*harness.Node{n}, "raft", "transfer-leader", harness.Got(n.Status()).Node))
}

// A starved node gets this share of each period, about 3 percent of the processor.
const (
	hungerPeriod = 100 * time.Millisecond
	hungerShare  = 3 * time.Millisecond
)

// starve stops a node for most of the time.
func (b *testbed) starve(n *harness.Node) {
	stop, goOn := func() error { return n.Signal(syscall.SIGSTOP) }, func() error { return n.Signal(syscall.SIGCONT) }
	b.alternate(n, stop, goOn, hungerPeriod-hungerShare, hungerShare)
}
