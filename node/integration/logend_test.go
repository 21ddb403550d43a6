package integration

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/nodetest"
)

// checkEnds waits until a node ends by itself, and holds what its error says.
func (c *testCluster) checkEnds(victim *nodetest.Node, reason ...string) {
	c.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- victim.Run.Wait() }()
	select {
	case err := <-ended:
		for _, text := range append(reason, "start the node again") {
			check.ErrText(c.t, err, text, "it ended")
		}
		victim.Run = nil
	case <-time.After(nodetest.Patience):
		c.t.Fatalf("node %d goes on", victim.Index())
	}
}

// checkBack starts a node that has ended, and holds that it has what was acknowledged.
func (c *testCluster) checkBack(victim *nodetest.Node, acked ...nodetest.Answer) {
	c.t.Helper()
	c.Start(victim.Index())
	c.WaitReady()
	c.MustPublish(victim.Index(), nodetest.Post{Body: "through it again"})
	c.WaitConverged()
	for _, a := range acked {
		check.Err(c.t, check.Last(victim.Client().Entry(context.Background(), a.Entry.ID)), nil, "%q", a.Entry.Body)
	}
}

// TestTailThatCannotBeReplaced: the tail of a deposed leader is deleted, and what the
// new leader has in its place finds no space on the disk. The node ends, because its
// Raft would still count on the tail; after a start it has what the others have.
func TestTailThatCannotBeReplaced(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		var w writes
		c := newCluster(t, 3, w.option, patientRaft)
		old := c.WaitLeader()
		victim := c.Nodes[old]
		first := c.MustPublish(old, nodetest.Post{Body: "before"})

		var alone atomic.Bool
		tail := make(chan struct{})
		written := sync.OnceFunc(func() { close(tail) })
		w.spoil(victim.Config.NodeID, logstore.Storing, func(_ string, write func() error) error {
			counts := alone.Load()
			err := write()
			if counts && err == nil {
				written()
			}
			return err
		})
		// No entry is in flight when the links are cut: only the old leader has the entries that
		// it stores from then on, until it finds out.
		c.Isolate(old)
		alone.Store(true)
		ctx, cancel := context.WithCancel(context.Background())
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				for ctx.Err() == nil {
					_, _ = victim.Publish(ctx, nodetest.Post{Body: "in the tail"})
				}
			})
		}
		select {
		case <-tail:
		case <-time.After(nodetest.Patience):
			t.Fatal("the old leader has stored nothing alone")
		}
		cancel()
		writers.Wait()

		others := c.Others(old)
		c.WaitLeader(others...)
		kept := c.MustPublish(others[0], nodetest.Post{Body: "in its place"})
		var cut atomic.Bool
		w.spoil(victim.Config.NodeID, "", func(what string, write func() error) error {
			if what == logstore.Storing && cut.Load() {
				return syscall.ENOSPC
			}
			err := write()
			if what == logstore.Deleting && err == nil {
				cut.Store(true)
			}
			return err
		})
		c.Heal()
		c.checkEnds(victim, "deleted for newer ones", syscall.ENOSPC.Error())
		w.spoil("", "", nil)
		c.checkBack(victim, first, kept)
	})
}

// TestWriteThatFailsAndIsThere: the last sync of a write fails, and the next ones would
// succeed. The node ends, and starts with a log that agrees with the others'.
func TestWriteThatFailsAndIsThere(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"leader", "follower"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			var w writes
			c := newCluster(t, 3, w.option, patientRaft)
			leader := c.WaitLeader()
			first := c.MustPublish(leader, nodetest.Post{Body: "before"})
			victim := c.Nodes[leader]
			if who == "follower" {
				victim = c.Nodes[c.Follower()]
			}
			var failed atomic.Bool
			w.spoil(victim.Config.NodeID, logstore.Storing, func(_ string, write func() error) error {
				if err := write(); err != nil || failed.Swap(true) {
					return err
				}
				return syscall.EIO
			})
			during := make(chan nodetest.Answer, 1)
			go func() {
				a, _ := c.Nodes[leader].Publish(context.Background(), nodetest.Post{Body: "meanwhile"})
				during <- a
			}()
			c.checkEnds(victim, "is in the file all the same", syscall.EIO.Error())
			acked := []nodetest.Answer{first}
			if a := <-during; a.Status == http.StatusCreated {
				acked = append(acked, a)
			} else if who == "follower" {
				t.Errorf("a write through the leader, of which a follower has ended: %+v", a)
			}
			c.checkBack(victim, acked...)
		})
	}
}

// TestLeaderThatCannotWriteWhatItSent: the followers have an entry that the leader's disk
// rejects. The leader ends, and another one leads; every acknowledged write is kept.
func TestLeaderThatCannotWriteWhatItSent(t *testing.T) {
	t.Parallel()
	var w writes
	c := newCluster(t, 3, w.option, patientRaft) // a leader that is deposed ends for another reason
	leader := c.WaitLeader()
	victim := c.Nodes[leader]
	others := c.Others(leader)
	first := c.MustPublish(leader, nodetest.Post{Body: "before"})
	load := c.StartLoad(2, others...)
	load.WaitMore(10)
	w.spoil(victim.Config.NodeID, logstore.Storing, func(string, func() error) error { return syscall.EIO })
	c.checkEnds(victim, "are with the followers", syscall.EIO.Error())
	w.spoil("", "", nil)
	c.WaitLeader(others...)
	load.WaitMore(10)
	load.Stop()
	load.Check()
	c.checkBack(victim, first)
}

// TestTermThatCannotBeStored: Raft panics when it cannot store a new term. The node
// ends before that, and says why.
func TestTermThatCannotBeStored(t *testing.T) {
	t.Parallel()
	var w writes
	c := newCluster(t, 3, w.option)
	leader := c.WaitLeader()
	acked := c.MustPublish(leader, nodetest.Post{Body: "before"})
	victim := c.Nodes[c.Follower()]
	w.spoil(victim.Config.NodeID, logstore.Storing, diskFull)
	c.Kill(leader)
	c.checkEnds(victim, "cannot take the new term", syscall.ENOSPC.Error())
	c.checkBack(c.Nodes[leader], acked)
}

// flipLogBit flips one bit in the text of every log entry that fill has written,
// so that it does not matter which of them Raft reads.
func flipLogBit(t *testing.T, dataDir string) {
	t.Helper()
	path := filepath.Join(dataDir, "raft.db")
	data := must.Get(os.ReadFile(path))(t)
	text := []byte("lorem ipsum lorem")
	flipped := 0
	for at := 0; ; flipped++ {
		next := bytes.Index(data[at:], text)
		if next < 0 {
			break
		}
		data[at+next] ^= 1
		at += next + len(text)
	}
	if flipped == 0 {
		t.Fatal("the log holds none of the texts")
	}
	must.Do(t, os.WriteFile(path, data, 0o600))
}

// TestCorruptLogIsRejected: a node with a flipped bit in its log does not start, also
// where the newest entry is whole.
func TestCorruptLogIsRejected(t *testing.T) {
	t.Run("to its end", func(t *testing.T) { corruptLog(t, 0) })
	t.Run("before its end", func(t *testing.T) { corruptLog(t, 1) })
}

// corruptLog flips bits of the log before its newest entries, which are so many whole ones.
func corruptLog(t *testing.T, whole int) {
	t.Helper()
	t.Parallel()
	c := newCluster(t, 3)
	c.fill(0, 20)
	for range whole {
		c.MustPublish(0, nodetest.Post{Channel: "fill", Body: "The newest entry."})
	}
	c.WaitConverged()
	victim := c.Follower()
	c.Kill(victim)
	flipLogBit(t, c.Nodes[victim].DataDir())
	err := c.TryStart(victim)
	if err == nil || !strings.Contains(err.Error(), "this node must resync") {
		t.Fatalf("a node with a flipped bit in its log started: %v", err)
	}
	c.Wipe(victim)
	c.Start(victim)
	c.WaitReady()
	c.WaitVoters()
	c.WaitConverged()
	check.Equal(t, len(c.All(victim, client.EntryQuery{})), 20+whole, "the resynchronised node lists entries")
}
