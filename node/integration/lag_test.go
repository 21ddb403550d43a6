package integration

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/nodetest"
)

// writes are those of nodes that do not go well.
type writes struct {
	mu     sync.Mutex
	victim string // its name
	what   string // is written; "" is everything
	do     func(what string, write func() error) error
}

func (w *writes) spoil(victim, what string, do func(what string, write func() error) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.victim, w.what, w.do = victim, what, do
}

func (w *writes) option(cfg *config.Config) {
	name := cfg.NodeID
	cfg.Tuning.AroundWrite = func(what string, write func() error) error {
		w.mu.Lock()
		do, spoilt := w.do, w.victim == name && (w.what == "" || w.what == what)
		w.mu.Unlock()
		if spoilt {
			return do(what, write)
		}
		return write()
	}
}

// diskFull is a write that finds no space.
func diskFull(string, func() error) error { return syscall.ENOSPC }

// readyz returns a node's readiness and the line of one check.
func readyz(nd *nodetest.Node, check string) (ready bool, line string) {
	status, body, err := nd.GetText("/readyz")
	if err != nil {
		return false, err.Error()
	}
	for l := range strings.Lines(body) {
		if strings.Contains(l, check) {
			line = strings.TrimSpace(l)
		}
	}
	return status == http.StatusOK, line
}

// stale returns the age that the answer to a read through the node declares, empty if the
// read is new.
func stale(nd *nodetest.Node) (string, error) {
	res, err := nd.Raw(http.MethodGet, "/api/entries?limit=1", "")
	if err != nil {
		return "", err
	}
	return res.Header.Get("X-Commons-Stale-Ms"), nil
}

// TestThreeOfFiveKilled: with two of five voters killed the others serve. With a third one killed they
// take no writes, and read with a sign of their age, until the voters are back.
func TestThreeOfFiveKilled(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *testCluster) {
		c.WaitVoters()
		c.Kill(c.WaitLeader(), c.Follower())
		c.WaitLeader()
		c.MustPublish(c.Running()[0], nodetest.Post{Body: "of three"})
		c.WaitConverged()
		c.Kill(c.WaitLeader())
		here := c.Running()
		for _, i := range here {
			a, err := c.Nodes[i].Publish(t.Context(), nodetest.Post{Body: "of two"})
			if err != nil || a.Status != http.StatusServiceUnavailable || a.Code != "not_enqueued" {
				t.Errorf("a write through node %d: %+v, %v", i, a, err)
			}
			if age, err := stale(c.Nodes[i]); err != nil || age == "" {
				t.Errorf("a read through node %d is of the age %q, %v", i, age, err)
			}
			check.Equal(t, len(c.All(i, client.EntryQuery{})), 1, "entries of node %d", i)
		}
		for i := range c.Nodes {
			if !slices.Contains(here, i) {
				c.Start(i)
			}
		}
		c.WaitReady()
		c.WaitVoters()
		c.MustPublish(here[0], nodetest.Post{Body: "of five"})
	}, nodetest.Impatient)
}

// TestLogThatTakesNothing: a follower that cannot write its log says so, takes no
// writes and reads with a sign of their age, while the others go on; it is well
// again when its log is.
func TestLogThatTakesNothing(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		var w writes
		c := newCluster(t, 3, nodetest.Impatient, w.option)
		victim := c.Nodes[c.Follower()]
		w.spoil(victim.Config.NodeID, logstore.Storing, diskFull)
		leader := c.WaitLeader()
		written := c.MustPublish(leader, nodetest.Post{Body: "what it does not get"})
		c.checkLogFailure(victim, leader)

		w.spoil("", "", nil)
		c.checkRecovery(victim, written)
	})
}

// checkLogFailure waits until a follower reports that its log cannot be written.
func (c *testCluster) checkLogFailure(victim *nodetest.Node, leader int) {
	c.t.Helper()
	c.Eventually("it is not ready", func() error {
		if ready, line := readyz(victim, "log"); ready || line != "[-] log: cannot be written" {
			return fmt.Errorf("ready %v: %s", ready, line)
		}
		_, text := c.problems(victim)
		return nodetest.ErrorIf(!strings.Contains(text, syscall.ENOSPC.Error()), "%s", text)
	})
	a, err := victim.Publish(context.Background(), nodetest.Post{Body: "through it"})
	if err != nil || a.Status != http.StatusServiceUnavailable || a.Code != "not_enqueued" || !strings.Contains(a.Message, "write through another one") {
		c.t.Errorf("a write through it: %+v, %v", a, err)
	}
	c.Eventually("its reads show their age", func() error {
		c.MustPublish(leader, nodetest.Post{Body: "more that it does not get"})
		stale, err := stale(victim)
		return nodetest.ErrorIf(err != nil || stale == "", "%q, %v", stale, err)
	})
}

// checkRecovery waits until a follower has everything again.
func (c *testCluster) checkRecovery(victim *nodetest.Node, written nodetest.Answer) {
	c.t.Helper()
	c.WaitReady()
	c.MustPublish(victim.Index(), nodetest.Post{Body: "through it again"})
	check.Err(c.t, check.Last(victim.Client().Entry(context.Background(), written.Entry.ID)), nil, "what it missed")
	c.WaitConverged()
}

// TestFollowerThatLags: a follower that does not apply what its log has is not
// ready after a while, and its reads say how old they are.
func TestFollowerThatLags(t *testing.T) {
	t.Parallel()
	longtest.SkipShort(t, "takes several seconds")
	nodetest.Virtual(t, func(t *testing.T) {
		var w writes
		c := newCluster(t, 3, w.option)
		victim := c.Nodes[c.Follower()]
		held := make(chan struct{})
		release := sync.OnceFunc(func() { close(held) })
		t.Cleanup(release)
		w.spoil(victim.Config.NodeID, "a write of the state", func(_ string, write func() error) error { <-held; return write() })
		written := c.MustPublish(c.WaitLeader(), nodetest.Post{Body: "what it applies late"})
		c.Eventually("its reads show their age", func() error {
			stale, err := stale(victim)
			return nodetest.ErrorIf(err != nil || stale == "", "%q, %v", stale, err)
		})
		c.Eventually("it is not ready", func() error {
			ready, line := readyz(victim, "caught-up")
			return nodetest.ErrorIf(ready || !strings.Contains(line, "behind the leader"), "ready %v: %s", ready, line)
		})
		release()
		c.checkRecovery(victim, written)
		c.Eventually("its reads are new", func() error {
			stale, err := stale(victim)
			return nodetest.ErrorIf(err != nil || stale != "", "%q, %v", stale, err)
		})
	})
}

// TestReadyWhileElecting: a node that has just lost its leader stays ready, so that
// a load balancer goes on with it, and does not when no other one follows.
func TestReadyWhileElecting(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, patientRaft)
		c.WaitVoters()
		leader := c.WaitLeader()
		left := c.Follower()
		c.WaitReady(left)
		c.Kill(leader)
		c.Kill(3 - leader - left)
		for _, want := range []bool{true, false} {
			c.Eventually("no leader, ready: "+strconv.FormatBool(want), func() error {
				ready, line := readyz(c.Nodes[left], "leader:")
				return nodetest.ErrorIf(ready != want || !strings.Contains(line, "no leader is known"), "%s", line)
			})
		}
	})
}
