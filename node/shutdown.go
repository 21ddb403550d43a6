package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/commons-cluster/commons/node/loop"
)

const (
	leaveTimeout   = time.Second            // bounds the goodbye to gossip
	crashDrain     = 100 * time.Millisecond // how long running requests may take when the node has failed
	workersTimeout = 10 * time.Second       // bounds the wait for what the node does in the background
	abandonTimeout = 500 * time.Millisecond // bounds the closing of listeners when the disk hangs
)

// ending is the way in which a node ends. The zero value ends it at once, but closes everything.
type ending struct {
	drain  context.Context // bounds how long running requests may take; nil means crashDrain
	polite bool            // notifies the others
	crash  bool            // leaves everything on disk as it is at this moment
}

// Shutdown ends the node gracefully: it reports that it is not ready and still serves
// for the configured delay, stops accepting requests and starting deliveries, transfers
// leadership, answers accepted requests, finishes running deliveries, folds its counts,
// and leaves gossip. It remains a member of the cluster. If ctx ends first the rest is
// not waited for.
func (n *Node) Shutdown(ctx context.Context) error {
	<-n.begun // an operator can have it leave before it serves
	n.endOnce(func() {
		go n.logger.InfoContext(ctx, "shutting down", "delay", n.cfg.ShutdownDelay) // without a wait for the log
		loop.Pause(ctx, n.cfg.ShutdownDelay)
		n.delivery.Stop()
		// While leadership moves, reads end and writes continue: the next leader confirms them.
		var closing sync.WaitGroup
		closing.Go(func() {
			if err := n.server.Shutdown(ctx); err != nil {
				n.logger.WarnContext(ctx, "requests were cut short", "error", err)
			}
		})
		closing.Go(func() {
			if err := n.members.HandOver(ctx); err != nil {
				n.logger.WarnContext(ctx, "the others have to elect a leader by themselves", "error", err)
			}
		})
		closing.Wait()
		n.delivery.Finish(ctx)
		n.usage.Finish(ctx)
		n.finish(ending{drain: ctx, polite: true}, nil)
	})
	<-n.done
	return n.err
}

// Kill simulates a crash as far as that is possible inside one process: without a notice
// to the others, and without a flush. It is for tests.
func (n *Node) Kill() {
	n.endOnce(func() { n.finish(ending{crash: true}, nil) })
	<-n.done
}

// Wait blocks until the node has ended: nil after a Shutdown, else the failure
// that ended it.
func (n *Node) Wait() error {
	<-n.done
	return n.err
}

// fail ends the node because its disk or its state cannot be trusted. It returns at
// once, because the end may have to wait for the caller.
func (n *Node) fail(err error) {
	n.endFor(err, func() { n.finish(ending{crash: true}, err) })
}

// endOnce runs end if it is the first call. A later one does not wait for the first.
func (n *Node) endOnce(end func()) {
	if n.stopping.CompareAndSwap(false, true) {
		end()
	}
}

// endFor ends the node once for its first failure, in the background.
func (n *Node) endFor(cause error, end func()) {
	if !n.failure.CompareAndSwap(nil, &cause) {
		return
	}
	go func() {
		<-n.begun // until then Start takes down the parts that it has started
		n.endOnce(end)
	}()
	n.logger.Error("this node cannot go on", "error", cause) // the log may be on the disk that hangs
}

// abandon ends the node when its disk or its Raft hangs. It closes the listeners first, so that
// another node can lead. Everything else stays open until the process ends, because
// closing it would hang as well.
func (n *Node) abandon(cause error) {
	n.endFor(cause, func() {
		n.endWork()
		n.closeNetwork()
		n.err = cause
		close(n.done)
	})
}

// closeNetwork cuts this node and its Raft off from the others, and does not touch the
// disk. It does not wait for listeners that do not close in time.
func (n *Node) closeNetwork() {
	n.raft.Interrupt()
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		err := errors.Join(n.port.Close(), n.httpListener.Close(), n.closeGossip(ending{crash: true}))
		if n.httpsListener != nil {
			err = errors.Join(err, n.httpsListener.Close())
		}
		if n.server != nil {
			err = errors.Join(err, n.server.Shutdown(ctx))
		}
		if err != nil {
			n.logger.Debug("not everything could be closed", "error", err)
		}
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

// finish stops everything and lets Wait return.
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
		err := undo(how)
		errs = append(errs, err)
		if errors.Is(err, errStillAtWork) {
			n.closeNetwork()
			break
		}
	}
	n.undo = nil
	return errors.Join(errs...)
}

// errStillAtWork is the error of background work that does not end. Its files and
// connections stay open until the process ends.
var errStillAtWork = fmt.Errorf("background work has not ended within %v", workersTimeout)

func (n *Node) stopWorkers(ending) error {
	n.endWork()
	ended := make(chan struct{})
	go func() {
		n.workers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(workersTimeout):
		return errStillAtWork
	}
}

func (n *Node) closeHTTP(how ending) error {
	if !how.polite { // or else Shutdown has done it
		_ = n.server.Shutdown(how.drain) // the other connections end with the process
	}
	return nil
}

func (n *Node) closeGossip(how ending) error {
	n.gossiping.Store(nil)
	if how.polite {
		if err := n.gossip.Leave(leaveTimeout); err != nil {
			n.logger.Debug("not all other nodes were notified", "error", err)
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
