package op

import (
	"context"
	"time"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/fsm/command"
)

// The times of waits.
const (
	// WaitTimeout is how long a read waits for an index or for the leader.
	WaitTimeout = 5 * time.Second
	// aheadTimeout is how long the leader is asked about an index after WaitTimeout.
	aheadTimeout = 2 * time.Second
	// joinTimeout is how long a call waits at a node that is about to join a cluster.
	joinTimeout = 10 * time.Second
)

// Wait begins a wait of this call. The context ends after most, when the server stops, and
// when the guard needs the room of this wait. The caller calls done.
func (c *Call) Wait(most time.Duration) (ctx context.Context, done func()) {
	c.Waited = true
	held := c.Hold()
	ctx, cancel := context.WithTimeout(c.Env.Waits, most)
	place := c.Env.Guard.Wait(guard.ClientOf(c.Sender()), held, cancel)
	return ctx, func() {
		place.Done()
		cancel()
	}
}

// WatchClient watches the client's connection while its call waits: gone is closed when
// the client disconnects or sends more. The caller calls stop.
func (c *Call) WatchClient() (gone <-chan struct{}, stop func()) {
	guarded, is := guard.Of(c.Conn())
	if !is {
		return nil, func() {}
	}
	return guarded.Watch()
}

// WaitReady delays a call that needs the state until this node is part of a cluster and has caught
// up since its start: a load balancer may send calls before it knows that the node is not ready. It
// returns an error if the wait ends before, because the state is empty then, or may have purged
// texts.
func (c *Call) WaitReady() error {
	err := c.waitFor(c.Env.Backend.Joined(), &command.Unavailable{
		Code: command.CodeNoLeader, Reason: "this node has not joined a cluster yet; ask another one",
	})
	if err != nil {
		return err
	}
	return c.waitFor(c.Env.Backend.CaughtUp(), &command.Unavailable{
		Code: command.CodeBehind, Reason: "this node has just started and does not know yet what was erased while it was down; ask another one",
	})
}

// waitFor waits until a channel is closed. It returns late if the wait ends before.
func (c *Call) waitFor(over <-chan struct{}, late error) error {
	select {
	case <-over:
		return nil
	default:
	}
	ctx, done := c.Wait(max(joinTimeout, c.Env.Patience))
	defer done()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return late
	}
}
