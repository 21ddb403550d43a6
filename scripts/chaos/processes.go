package main

import (
	"os"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

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
