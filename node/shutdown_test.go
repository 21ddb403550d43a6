package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/node/consensus"
)

// TestShutdownDelay: a node that ends says so first, and serves on meanwhile.
func TestShutdownDelay(t *testing.T) {
	c := local(t)
	c.ShutdownDelay = time.Minute // cut short below
	n := mustStart(t, c)
	await.Eventually(t, "ready", n.readyForTest)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.Shutdown(ctx) // cut short: its error is ctx's
	}()
	await.Eventually(t, "not ready", func() bool { return call(t, n, http.MethodGet, "/readyz", "").Status == http.StatusServiceUnavailable })
	written := call(t, n, http.MethodPost, "/api/entries", "written during the delay", "Content-Type", "text/plain")
	check.Equal(t, written.Status, http.StatusCreated, "a publication during the delay")
	select {
	case <-ended:
		t.Error("the node ended before its delay was over")
	default:
	}
	cancel()
	<-ended
}

// TestShutdownDuringTheStart holds that a node that has to end before it serves,
// as by an operator who has it leave, waits for its start to end.
func TestShutdownDuringTheStart(t *testing.T) {
	n := &Node{logger: quiet(), begun: make(chan struct{}), done: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- n.Shutdown(t.Context()) }()
	failed := errors.New("the start has failed")
	select {
	case err := <-ended:
		t.Fatalf("ended during the start: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	n.endOnce(func() { n.finish(ending{}, failed) })
	close(n.begun)
	check.Err(t, <-ended, failed, "ended")
}

// hangingLog is a log whose lines are not written before it is closed.
type hangingLog chan struct{}

func (l hangingLog) Enabled(context.Context, slog.Level) bool { return true }

func (l hangingLog) Handle(context.Context, slog.Record) error {
	<-l
	return nil
}

func (l hangingLog) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l hangingLog) WithGroup(string) slog.Handler { return l }

// TestFailureIsLoggedAfterTheEnd: the log may be on the disk that hangs.
func TestFailureIsLoggedAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, ended := make(hangingLog), false
		n := &Node{logger: slog.New(log), begun: make(chan struct{})}
		close(n.begun)
		go n.endFor(errors.New("the disk hangs"), func() { ended = true })
		synctest.Wait()
		check.Equal(t, ended, true, "ended")
		close(log)
	})
}

// TestFailureDuringHangingWork: a node that cannot go on ends although its work in
// the background does not.
func TestFailureDuringHangingWork(t *testing.T) {
	t.Parallel()
	longtest.SkipShort(t, "waits for workersTimeout")
	c := local(t)
	c.HTTPAddr = must.Get(freeport.Addr())(t)
	n := mustStart(t, c)
	await.Eventually(t, "ready", n.readyForTest)
	work := make(chan struct{})
	n.workers.Go(func() { <-work })
	cause := errors.New("the disk is gone")
	n.fail(cause)
	ended := make(chan error, 1)
	go func() { ended <- n.Wait() }()
	select {
	case err := <-ended:
		check.Err(t, err, cause, "ended")
	case <-time.After(testPatience):
		t.Error("the node has not ended")
	}
	if conn, err := net.Dial("tcp", n.HTTPAddr()); err == nil {
		_ = conn.Close()
		t.Error("it still listens")
	}
	close(work)
}

// TestEndOfAStuckLeader: a transfer of Raft's to a server that is not there never ends, so
// that Raft rejects every write. The node ends with the reason.
func TestEndOfAStuckLeader(t *testing.T) {
	n := mustStart(t, local(t))
	await.Eventually(t, "ready", n.readyForTest)
	const ghost = "127.0.0.1:1"
	must.Do(t, n.raft.AddNonvoter(ghost, ghost, 0, testPatience).Error())
	must.Do(t, n.raft.Barrier(testPatience).Error()) // an entry that the server has not
	await.Eventually(t, "stuck", func() bool {
		return errors.Is(n.raft.LeadershipTransferToServer(ghost, ghost).Error(), raft.ErrLeadershipTransferInProgress)
	})
	select {
	case <-n.done:
		check.Equal(t, n.Wait().Error(), consensus.ErrRejects.Error(), "the reason")
	case <-time.After(testPatience):
		t.Error("it leads on")
	}
}
