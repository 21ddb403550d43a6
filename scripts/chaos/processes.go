package main

import (
	"context"
	"errors"
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
	id := harness.Got(n.Status()).Node
	code, _, text := b.run.Command(nil, "raft", "transfer-leader", id, "--cluster-addr", n.Private, "--secret-file", n.Flags["secret-file"])
	if code != 0 {
		harness.Failf("it does not lead: %s", text)
	}
}

// A starved node gets this share of each period, about 3 percent of the processor.
const (
	hungerPeriod = 100 * time.Millisecond
	hungerShare  = 3 * time.Millisecond
)

// starve stops a node for most of the time, until feed is called.
func (b *testbed) starve(n *harness.Node) {
	ctx, stop := context.WithCancel(b.run.Ctx)
	ended := make(chan error)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = n.Signal(syscall.SIGSTOP)
			harness.Pause(ctx, hungerPeriod-hungerShare)
			err = errors.Join(err, n.Signal(syscall.SIGCONT))
			harness.Pause(ctx, hungerShare)
		}
		ended <- err
	}()
	b.hungry[n.Name] = func() error { stop(); return <-ended }
}

// feed ends starve. A node that ended meanwhile is started again.
func (b *testbed) feed(n *harness.Node) {
	err := b.hungry[n.Name]()
	delete(b.hungry, n.Name)
	if n.Running() {
		harness.Must(err)
	} else {
		b.start(n)
	}
}
