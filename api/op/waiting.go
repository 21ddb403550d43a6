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

// The pauses of streams and of calls that wait for events or jobs.
const (
	lookPause     = 200 * time.Microsecond // for each of them
	shortestPause = time.Millisecond       // a shorter one is left out
	longestPause  = time.Second            // of those that only the number of them asks for
)

// Pause returns how long a stream or a waiting call rests between two looks at the state. It
// grows with their number, which bounds how often all together look, and lasts until the client
// has a budget for reads.
func (s *Environment) Pause(client guard.Client) time.Duration {
	d := min(time.Duration(s.News.Count())*lookPause, longestPause)
	if d = max(d, s.Guard.Reads.Wait(client)); d < shortestPause {
		return 0
	}
	return d
}

// rest charges the client for the last look of a waiting call, and pauses before the next one if
// that took work. It returns early when ctx ends or gone is closed.
func (c *Call) rest(ctx context.Context, gone <-chan struct{}) {
	if c.Work == 0 {
		return
	}
	c.UseBudget(c.Env.Guard.Reads, c.Work)
	c.Work = 0
	d := c.Env.Pause(guard.ClientOf(c.Sender()))
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-gone:
	case <-ctx.Done():
	}
}

// AwaitNews looks for news until look has found some: at once, and after each wake-up. It ends
// without any after most, or when the client leaves. The call holds no view while it waits. next
// returns the channel of the next wake-up; it is called before look, so that none is missed.
func (c *Call) AwaitNews(most time.Duration, next func() <-chan struct{}, look func() (found bool, err error)) error {
	ctx, done := c.Wait(most)
	defer done()
	gone, unwatch := c.WatchClient()
	defer unwatch()
	for {
		wake := next()
		if found, err := look(); err != nil || found || ctx.Err() != nil {
			return err
		}
		c.Release()
		select {
		case <-wake:
			c.rest(ctx, gone)
		case <-gone:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
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
		Code: command.CodeBehind, Reason: "this node does not know yet what was erased while it was away; ask another one",
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
