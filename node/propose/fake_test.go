package propose

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/must"
)

// cluster holds several Pipelines over one log in memory. The test appoints the leader.
type fakeCluster struct {
	tb    testing.TB
	mu    sync.Mutex
	log   []logged
	term  uint64
	nodes []*fakeNode
	net   *fakeNet
	once  sync.Once
	// survivors returns how many of the entries that only a lost leader has are in the next
	// leader's log. Nil means 0.
	survivors func(n int) int
}

// logged is a committed entry; its index is its position plus one.
type logged struct {
	term uint64
	data []byte
}

// fakeNode is one node: Raft and the state machine are fakes, the Pipeline is real.
type fakeNode struct {
	*Pipeline
	c       *fakeCluster
	handler http.Handler
	id      string
	sm      *fakeMachine

	// Guarded by the cluster's lock.
	leading     bool          // according to this node's Raft
	myTerm      uint64        // according to this node's Raft
	leaderID    string        // according to this node's Raft
	uncommitted []*fakeFuture // appended only here
	committed   map[uint64]*fakeFuture
	stalled     bool    // entries are appended and not committed
	held        bool    // this node gets no commits
	blind       bool    // VerifyLeader always succeeds
	outside     bool    // this node knows of no voters
	nextErr     []error // of the next Applies
	outstanding atomic.Int64
	maxPending  int
	applies     [][]byte
	verifies    int
	verifying   func() error // takes the place of VerifyLeader
	kick        chan struct{}
	stop        chan struct{}
	stopped     sync.WaitGroup
}

type fakeFuture struct {
	counted bool
	once    sync.Once
	done    chan struct{}
	err     error
	index   uint64
	term    uint64
	data    []byte
	node    *fakeNode
}

func (f *fakeFuture) Error() error  { <-f.done; return f.err }
func (f *fakeFuture) Index() uint64 { return f.index }
func (f *fakeFuture) Response() any { return nil }

func (f *fakeFuture) respond(err error) {
	f.once.Do(func() {
		if f.counted {
			f.node.outstanding.Add(-1)
		}
		f.err = err
		close(f.done)
	})
}

type option func(*Config)

// newCluster starts n nodes without a leader. Times are short.
func newCluster(tb testing.TB, n int, options ...option) *fakeCluster {
	tb.Helper()
	return newTunedCluster(tb, n, func(*timing) {}, options...)
}

func newTunedCluster(tb testing.TB, n int, tune func(*timing), options ...option) *fakeCluster {
	tb.Helper()
	c := &fakeCluster{tb: tb, net: &fakeNet{nodes: make(map[string]*fakeNode)}}
	for i := range n {
		node := &fakeNode{
			c: c, id: fmt.Sprintf("node-%d", i),
			committed: make(map[uint64]*fakeFuture),
			kick:      make(chan struct{}, 1), stop: make(chan struct{}),
		}
		cfg := Config{
			ServerID: node.id, Clock: WallClock(0), Logger: slog.New(slog.DiscardHandler), Client: &http.Client{Transport: &fakeTransport{net: c.net, from: node.id}},
			Limiter: limitFunc(func(command.Sender) (bool, time.Duration) { return true, 0 }),
			Assess: func(command.Payload, int) (_ command.Standing, repeated, fits bool) {
				return command.Standing{}, false, true
			},
		}
		for _, o := range options {
			o(&cfg)
		}
		node.Pipeline = New(cfg)
		node.timing.propose = 5 * time.Second
		node.timing.clockInterval = time.Hour
		tune(&node.timing)
		node.sm = newFakeMachine(node.Pipeline)
		c.nodes = append(c.nodes, node)
		c.net.nodes[node.id] = node
	}
	for _, node := range c.nodes {
		node.handler = node.Handler()
		node.stopped.Go(node.applyLoop)
	}
	for _, node := range c.nodes {
		node.Start(node, node, node.sm)
	}
	tb.Cleanup(c.close)
	return c
}

func (c *fakeCluster) close() { c.once.Do(c.shutDown) }

func (c *fakeCluster) shutDown() {
	for _, n := range c.nodes {
		n.Close()
		close(n.stop)
	}
	c.mu.Lock()
	for _, n := range c.nodes {
		n.fail(raft.ErrRaftShutdown)
	}
	c.mu.Unlock()
	for _, n := range c.nodes {
		n.stopped.Wait()
	}
	c.net.late.Wait()
}

// elect makes a node Raft's leader. The nodes in unaware do not notice it.
func (c *fakeCluster) elect(id string, unaware ...string) *fakeNode {
	c.mu.Lock()
	c.inherit()
	c.term++
	var leader *fakeNode
	var lost []*fakeNode
	for _, n := range c.nodes {
		if slices.Contains(unaware, n.id) {
			continue
		}
		n.myTerm, n.leaderID = c.term, id
		if n.leading {
			n.leading = false
			n.fail(raft.ErrLeadershipLost)
			lost = append(lost, n)
		}
		if n.id == id {
			n.leading, leader = true, n
		}
	}
	c.mu.Unlock()
	for _, n := range lost {
		n.StopLeading()
	}
	for _, n := range c.nodes {
		if !slices.Contains(unaware, n.id) {
			n.LeaderChanged()
		}
	}
	return leader
}

// lead elects a node and lets it lead, as a node does: Lead first.
func (c *fakeCluster) lead(id string, unaware ...string) *fakeNode {
	c.tb.Helper()
	leader := c.elect(id, unaware...)
	err := leader.establish()
	for tries := 0; err != nil && tries < 20; tries++ { // on a busy machine, the clocks may be known late
		err = leader.establish()
	}
	must.Do(c.tb, err)
	return leader
}

func (n *fakeNode) establish() error {
	term := n.CurrentTerm()
	if _, _, err := n.ProposeAsLeader(context.Background(), &command.Lead{ServerID: n.id}); err != nil {
		return err
	}
	n.StartLeading(context.Background(), term)
	return nil
}

// inherit makes some entries of the current leader part of the log: a majority had them
// before the leader counted it. The lock is held.
func (c *fakeCluster) inherit() {
	if c.survivors == nil {
		return
	}
	for _, n := range c.nodes {
		if !n.leading || n.myTerm != c.term {
			continue
		}
		for _, f := range n.uncommitted[:c.survivors(len(n.uncommitted))] {
			c.log = append(c.log, logged{term: f.term, data: f.data})
		}
	}
	for _, n := range c.nodes {
		n.poke()
	}
}

// fail ends the futures of entries that the node has appended and not applied. The cluster's
// lock is held.
func (n *fakeNode) fail(err error) {
	for _, f := range n.uncommitted {
		f.respond(err)
	}
	for _, f := range n.committed {
		f.respond(err)
	}
	n.uncommitted, n.committed = nil, make(map[uint64]*fakeFuture)
}

// commit makes entries that only this node has part of the log: it still leads, or a new
// leader had them, too. The cluster's lock is held.
func (n *fakeNode) commit(futures []*fakeFuture) {
	for _, f := range futures {
		n.c.log = append(n.c.log, logged{term: f.term, data: f.data})
		f.index = uint64(len(n.c.log))
		n.committed[f.index] = f
	}
	for _, other := range n.c.nodes {
		other.poke()
	}
}

func (n *fakeNode) poke() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// set changes something under the cluster's lock and wakes the node.
func (n *fakeNode) set(change func(*fakeNode)) {
	n.c.mu.Lock()
	change(n)
	if !n.stalled && n.leading && n.myTerm == n.c.term && len(n.uncommitted) > 0 {
		f := n.uncommitted
		n.uncommitted = nil
		n.commit(f)
	}
	n.c.mu.Unlock()
	n.poke()
}

func (n *fakeNode) get(read func(*fakeNode) int) int {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return read(n)
}

// applyLoop is the node's apply goroutine.
func (n *fakeNode) applyLoop() {
	for {
		select {
		case <-n.kick:
		case <-n.stop:
			return
		}
		for {
			n.c.mu.Lock()
			at := n.sm.Applied()
			if n.held || at >= uint64(len(n.c.log)) {
				n.c.mu.Unlock()
				break
			}
			e := n.c.log[at]
			n.c.mu.Unlock()
			n.sm.apply(n.c.tb, at+1, e.data)
			n.c.mu.Lock()
			f := n.committed[at+1]
			delete(n.committed, at+1)
			n.c.mu.Unlock()
			if f != nil {
				f.respond(nil)
			}
		}
	}
}

// entryOf returns a command with the given text.
func entryOf(text string) *command.Publish {
	return &command.Publish{
		Agent: "Ada", AgentKey: "ada", Kind: command.KindMessage, Channel: "general",
		Title: "A title", Body: text,
	}
}

var sender = command.Sender{Fingerprint: "f1", AgentKey: "ada"}

// publish proposes a text and returns the result.
func (n *fakeNode) publish(text string) (command.Result, uint64, error) {
	return n.Propose(context.Background(), sender, entryOf(text))
}

// start publishes in the background.
func (n *fakeNode) start(text string) <-chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		r, i, err := n.publish(text)
		ch <- outcome{r, i, err}
	}()
	return ch
}

type outcome struct {
	result command.Result
	index  uint64
	err    error
}

// wantCode fails unless err is Unavailable with the code.
func wantCode(tb testing.TB, err error, code command.Code) {
	tb.Helper()
	var u *command.Unavailable
	if !errors.As(err, &u) || u.Code != code {
		tb.Fatalf("error %v, want %s", err, code)
	}
	// The fake's nodes are called node-0 and so on, and its errors name them.
	if strings.Contains(u.Reason, "node-") || strings.Contains(u.Reason, "://") {
		tb.Fatalf("strangers would see the name of a server: %q", u.Reason)
	}
}
