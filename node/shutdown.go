package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// leaveTimeout bounds the goodbye to gossip.
	leaveTimeout = time.Second
	// crashDrain is what running requests get when the node cannot go on.
	crashDrain = 100 * time.Millisecond
)

// ending says how a node ends. The zero value is at once, but tidily.
type ending struct {
	// drain bounds how long running requests may take; nil is no time.
	drain context.Context
	// polite tells the others.
	polite bool
	// crash leaves everything on disk as it is at this moment.
	crash bool
}

// Shutdown takes the node down in good order: it stops accepting requests, hands
// leadership over, answers what it has taken, and leaves gossip. It stays a
// member of the cluster. When ctx ends first the rest is cut short.
func (n *Node) Shutdown(ctx context.Context) error {
	n.endOnce.Do(func() {
		n.stopping.Store(true)
		n.logger.InfoContext(ctx, "shutting down")
		// Reads end and writes go on while leadership moves: they are answered
		// by way of the next leader.
		var closing sync.WaitGroup
		closing.Go(func() {
			if err := n.server.Shutdown(ctx); err != nil {
				n.logger.WarnContext(ctx, "requests were cut short", "error", err)
			}
		})
		closing.Go(func() {
			if err := n.handOver(ctx); err != nil {
				n.logger.WarnContext(ctx, "the others have to elect a leader by themselves", "error", err)
			}
		})
		closing.Wait()
		n.finish(ending{drain: ctx, polite: true}, nil)
	})
	<-n.done
	return n.err
}

// Kill ends the node as a crash would, as near as that can be had inside one
// process: nobody is told, nothing is flushed. It is for tests.
func (n *Node) Kill() {
	n.endOnce.Do(func() {
		n.stopping.Store(true)
		n.finish(ending{crash: true}, nil)
	})
	<-n.done
}

// Wait blocks until the node has ended: nil after a Shutdown, else the failure
// that ended it.
func (n *Node) Wait() error {
	<-n.done
	return n.err
}

// fail ends the node because it cannot go on: its disk or its state is not to be
// trusted. It returns at once, because whoever calls it may be in the way.
func (n *Node) fail(err error) {
	if !n.failure.CompareAndSwap(nil, &err) {
		return
	}
	n.logger.Error("this node cannot go on", "error", err)
	go func() {
		<-n.begun // until then Start takes down what it has started
		n.endOnce.Do(func() {
			n.stopping.Store(true)
			n.finish(ending{crash: true}, err)
		})
	}()
}

// finish takes everything down and lets Wait return.
func (n *Node) finish(how ending, cause error) {
	err := n.unwind(how)
	if how.crash && err != nil {
		n.logger.Debug("not everything could be closed", "error", err)
		err = nil
	}
	n.err = errors.Join(cause, err)
	close(n.done)
}

// unwind undoes the steps of the start, newest first.
func (n *Node) unwind(how ending) error {
	if how.drain == nil {
		drain, cancel := context.WithTimeout(context.Background(), crashDrain)
		defer cancel()
		how.drain = drain
	}
	var errs []error
	for _, undo := range slices.Backward(n.undo) {
		errs = append(errs, undo(how))
	}
	n.undo = nil
	return errors.Join(errs...)
}

func (n *Node) closeHTTP(how ending) error {
	if how.polite {
		return nil // Shutdown has done it
	}
	_ = n.server.Shutdown(how.drain) // what is left open ends with the process
	return nil
}

func (n *Node) closeGossip(how ending) error {
	n.gossiping.Store(nil)
	if how.polite {
		if err := n.gossip.Leave(leaveTimeout); err != nil {
			n.logger.Debug("not all others were told", "error", err)
		}
		return nil
	}
	return n.gossip.Close()
}

func (n *Node) closePort(how ending) error {
	if how.crash {
		return n.port.Close()
	}
	if err := n.port.Shutdown(how.drain); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
