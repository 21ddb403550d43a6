package consensus

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/simnet"

	"github.com/hashicorp/raft"
)

// testElection is the election timeout of the nodes in virtual time.
const testElection = time.Second

// trio is a cluster of three in virtual time. Node a leads.
type trio struct {
	*testing.T
	net     *simnet.Net
	a, b, c *queueNode
}

// virtualTrio runs a test of a cluster of three in virtual time, in which no node may end by
// itself. The test may leave goroutines of Raft behind that wait forever.
func virtualTrio(t *testing.T, test func(c *trio)) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil && !strings.Contains(fmt.Sprint(r), "main bubble goroutine has exited") {
			panic(r)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		var nodes []*queueNode
		var servers []raft.Server
		for _, name := range []string{"n1", "n2", "n3"} {
			streams := streamsAt(t, network, name)
			n := newNodeAt(t, streams)
			n.abandoned = make(chan error, 1)
			n.start(t, streams, testElection)
			nodes = append(nodes, n)
			servers = append(servers, raft.Server{ID: raft.ServerID(n.id), Address: raft.ServerAddress(n.id)})
		}
		must.Do(t, nodes[0].BootstrapCluster(raft.Configuration{Servers: servers}).Error())
		leader, others := leads(t, nodes...)
		mustApply(t, leader, "before", nodes...)
		test(&trio{t, network, leader, others[0], others[1]})
		for _, n := range nodes {
			check.Equal(t, len(n.abandoned), 0, "the reasons left for an end of %s", n.id)
		}
	})
}

// cutOff cuts a node off from the others.
func (c *trio) cutOff(n *queueNode) {
	for _, other := range []*queueNode{c.a, c.b, c.c} {
		c.net.Change(n.id, other.id, func(l *simnet.Link) { l.Cut = true })
		c.net.Change(other.id, n.id, func(l *simnet.Link) { l.Cut = true })
	}
}

// moveTo has a node stand for election until it leads.
func (c *trio) moveTo(to *queueNode) {
	c.Helper()
	wait(c.T, "it does not lead", func() bool {
		_ = c.a.transport.askToStand(raft.ServerID(to.id), c.a.id)
		time.Sleep(testElection)
		return to.Leads()
	})
}

// load applies commands of a node until the returned function is called.
func load(n *queueNode) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				_ = n.Apply([]byte("load"), time.Second)
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// endWrite ends the write of a node that is held up, and holds up the next one.
func (n *queueNode) endWrite() {
	next := make(chan struct{})
	close(*n.held.Swap(&next))
}

// TestTransferToALaggingServer: a server that was cut off under load is elected at once: it
// has the whole log before it stands for election.
func TestTransferToALaggingServer(t *testing.T) {
	virtualTrio(t, func(c *trio) {
		term := c.a.CurrentTerm()
		defer load(c.a)()
		c.cutOff(c.b)
		time.Sleep(2 * testElection)
		c.net.Heal()
		must.Do(c.T, c.a.HandOver(c.b.id))
		wait(c.T, "it does not lead", c.b.Leads)
		check.Equal(c.T, c.b.CurrentTerm(), term+1, "the term")
		check.Err(c.T, c.a.HandOver(c.b.id), raft.ErrNotLeader, "a transfer by a node that follows")
	})
}

// TestTransferToASilentServer: while a server is asked that has the whole log and does not
// answer, commands and further transfers are rejected. Afterwards commands are accepted.
func TestTransferToASilentServer(t *testing.T) {
	virtualTrio(t, func(c *trio) {
		c.cutOff(c.b)
		ended := make(chan error, 1)
		go func() { ended <- c.a.HandOver(c.b.id) }()
		time.Sleep(testElection / 2)
		check.Err(c.T, c.a.Apply([]byte("during"), testPatience).Error(), raft.ErrLeadershipTransferInProgress, "a command")
		check.Err(c.T, c.a.HandOver(c.c.id), raft.ErrLeadershipTransferInProgress, "another transfer")
		check.Fails(<-ended)(c, "lead while cut off")
		mustApply(c.T, c.a, "after", c.a, c.c)
	})
}

// TestTransfersToASlowDisk: a leader tries to hand its leadership to a follower on a disk
// that ends one write between two attempts. It takes writes after each attempt, and when it has
// lost the leadership and leads again.
func TestTransfersToASlowDisk(t *testing.T) {
	virtualTrio(t, func(c *trio) {
		c.b.hold()
		end := load(c.a)
		time.Sleep(testElection / 2) // b has to write entries, not its vote
		for range 8 {
			if err := c.a.HandOver(c.b.id); err == nil {
				c.Fatal("a follower leads that stores no entries")
			}
			mustApply(c.T, c.a, "behind an attempt", c.a, c.c)
			c.b.endWrite()
			time.Sleep(testElection / 10)
		}
		end()
		c.moveTo(c.c)
		time.Sleep(maxHandOff)
		close(*c.b.held.Swap(nil))
		c.moveTo(c.a)
		mustApply(c.T, c.a, "after", c.a, c.b, c.c)
	})
}

// stick has Raft wait without end in a transfer of leadership to b, which is cut off. Raft
// decides by chance whether a later term is concerned.
func (c *trio) stick(inALaterTerm bool) {
	c.Helper()
	transfer := func() raft.Future {
		return c.a.LeadershipTransferToServer(raft.ServerID(c.b.id), raft.ServerAddress(c.b.id))
	}
	for range 40 {
		if transfer().Error() == nil {
			c.Fatal("a server leads that is cut off")
		}
		time.Sleep(testElection)
		check.Equal(c.T, len(c.a.abandoned), 0, "reasons for an end after one transfer")
		transfer()
		time.Sleep(testElection / 10)
		if inALaterTerm {
			c.moveTo(c.c)
			time.Sleep(maxHandOff)
			c.moveTo(c.a)
		}
		if errors.Is(c.a.Apply(nil, testPatience).Error(), raft.ErrLeadershipTransferInProgress) {
			return
		}
	}
	c.Fatal("Raft accepts commands after its transfers")
}

// TestLeaderThatTakesNoWrites: Raft rejects every command of a leader, because it waits
// without end in a transfer of leadership. The node ends.
func TestLeaderThatTakesNoWrites(t *testing.T) {
	for name, later := range map[string]bool{"in the same term": false, "in a later term": true} {
		t.Run(name, func(t *testing.T) {
			virtualTrio(t, func(c *trio) {
				c.cutOff(c.b)
				mustApply(c.T, c.a, "b lacks it", c.a, c.c)
				time.Sleep(maxHandOff + raftIOTimeout) // the sender to b repeats its request
				c.stick(later)
				select {
				case err := <-c.a.abandoned:
					check.Err(c.T, err, ErrRejects, "the reason")
				case <-time.After(testPatience):
					c.Error("it leads on")
				}
			})
		})
	}
}
