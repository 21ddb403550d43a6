package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

func send(s os.Signal) func(*bench, []*harness.Node) error {
	return each(func(_ *bench, n *harness.Node) error { return n.Signal(s) })
}

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
			harness.Pause(ctx, hungerPeriod-hungerShare)
			err = errors.Join(err, n.Signal(syscall.SIGCONT))
			harness.Pause(ctx, hungerShare)
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
