package nodetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/memdir"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/simnet"
	"github.com/commons-cluster/commons/node"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/health"
	"github.com/commons-cluster/commons/node/membership"
)

// Times of a test cluster. Several clusters run beside each other, so heartbeats have as
// much time as in production, or more at a busy machine (slowness), and waits are
// generous: a loaded machine makes tests slow, but does not make them fail.
const (
	Heartbeat = 600 * time.Millisecond

	// Patience is how long a test waits for something that has to happen. The tests of a
	// known bug (scripts/mutants) may take twice as long.
	Patience = 2 * time.Minute
	// CallPatience is how long a node waits for a leader before it answers with an error,
	// see Impatient. CallTimeout is how long its clients wait for the answer.
	CallPatience = 90 * time.Second
	CallTimeout  = 2 * CallPatience

	pollEvery    = 20 * time.Millisecond
	startTimeout = Patience
	stopTimeout  = Patience
)

// Option changes the configuration that nodes are started with.
type Option func(*config.Config)

// Impatient lets nodes answer calls with an error as soon as in production if there is no
// leader.
func Impatient(cfg *config.Config) { cfg.Tuning.Patience = 0 }

// Cluster is a set of nodes. Its methods fail the test that it was made for, and
// are called from the test's goroutine.
type Cluster struct {
	HTTP  *http.Client
	Nodes []*Node

	t     testing.TB
	opts  []Option
	dir   string
	net   *simnet.Net // of a virtual cluster, nil means the system's network
	slow  int         // factor of all times, see slowness
	loads int

	mu  sync.Mutex
	ids map[string]int  // node by every server id it has had
	cut map[[2]int]bool // links that are cut, by from and to
	// conns are the connections of each link to a private port, also those that have ended, and
	// ports the nodes by the address of that port.
	conns map[[2]int][]net.Conn
	ports map[string]int
}

// Node is one place in a cluster. It keeps its addresses over restarts.
type Node struct {
	Config config.Config // of the next start
	Run    *node.Node    // nil while it is down

	c     *Cluster
	index int
	log   *logBuffer
}

// New starts n nodes that form a cluster and waits until all are ready.
func New(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	c := Empty(t, opts...)
	for range n {
		c.Add(n)
	}
	// Every node knows where all others are, as a cluster's operator would say it.
	for _, nd := range c.Nodes {
		nd.Config.Join = c.GossipAddrs()
	}
	if n == 1 {
		c.Nodes[0].Config.Join = nil
	}
	for i := range c.Nodes {
		c.Start(i)
	}
	c.WaitReady()
	return c
}

// Empty returns a cluster without nodes; see Join.
func Empty(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	virtual := newNet(t)
	if virtual == nil {
		longtest.SkipRaced(t, "tests in virtual time have the same code, and no busy machine fails them")
	}
	c := &Cluster{t: t, opts: opts, dir: t.TempDir(), net: virtual, slow: 1, ids: map[string]int{}, cut: map[[2]int]bool{}, conns: map[[2]int][]net.Conn{}, ports: map[string]int{}}
	clients := c.network(clientHost).WithDefaults(net.KeepAliveConfig{})
	c.HTTP = &http.Client{
		Timeout:   CallTimeout,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: clients.DialContext},
	}
	if virtual == nil {
		c.slow = slowness()
	} else {
		c.dir = memdir.TempDir(t)
	}
	t.Cleanup(c.close)
	return c
}

// close ends what runs, and shows the logs of a failed test.
func (c *Cluster) close() {
	c.HTTP.CloseIdleConnections()
	var wg sync.WaitGroup
	for _, nd := range c.Nodes {
		if nd.Run != nil {
			wg.Go(nd.Run.Kill)
		}
	}
	wg.Wait()
	if c.net != nil {
		time.Sleep(idleWorkers)
	}
	if c.t.Failed() {
		for _, nd := range c.Nodes {
			c.t.Logf("log of node %d:\n%s", nd.index, nd.log)
		}
	}
}

// Join adds a node that is to join the others, and starts it.
func (c *Cluster) Join() *Node {
	c.t.Helper()
	nd := c.Add(1)
	nd.Config.Join = c.GossipAddrs()
	c.Start(nd.index)
	return nd
}

// Add makes a place for a node, one of expect that found a cluster.
func (c *Cluster) Add(expect int) *Node {
	c.t.Helper()
	i := len(c.Nodes)
	nd := &Node{c: c, index: i, log: &logBuffer{}}
	nd.Config = config.Config{
		NodeID: fmt.Sprintf("n%d", i+1), DataDir: filepath.Join(c.dir, fmt.Sprintf("n%d", i+1)),
		BootstrapExpect: expect, AddressProof: "on",
		Heartbeat: Heartbeat, HangTimeout: Patience,
		LogLevel: "info", LogFormat: "text", Version: "test",
		Tuning: config.Tuning{
			Timing: membership.Timing{
				ReconcileInterval: 200 * time.Millisecond, StableFor: 300 * time.Millisecond, GoneFor: time.Second,
			},
			ProbeInterval: 200 * time.Millisecond,
			Patience:      CallPatience,
			SlowWrite:     Patience, // a busy machine must not move the leadership
		},
	}
	nd.Config.HTTPAddr, nd.Config.ClusterAddr, nd.Config.GossipAddr = c.address(i, httpPort), c.address(i, privatePort), c.address(i, gossipPort)
	nd.Config.Tuning.Network = c.network(host(i))
	for _, o := range c.opts {
		o(&nd.Config)
	}
	for _, t := range []*time.Duration{
		&nd.Config.Heartbeat,
		&nd.Config.Tuning.StableFor, &nd.Config.Tuning.GoneFor, &nd.Config.Tuning.ProbeInterval,
	} {
		*t *= time.Duration(c.slow)
	}
	nd.Config.Tuning.Network.DialContext = c.cuttable(i, nd.Config.Tuning.Network.WithDefaults(net.KeepAliveConfig{}).DialContext)
	c.Nodes = append(c.Nodes, nd)
	return nd
}

// GossipAddrs returns where the nodes gossip, as a joining node is given it.
func (c *Cluster) GossipAddrs() []string {
	addrs := make([]string, 0, len(c.Nodes))
	for _, nd := range c.Nodes {
		addrs = append(addrs, nd.Config.GossipAddr)
	}
	return addrs
}

// Start starts a node that is down.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	nd := c.Nodes[i]
	c.mu.Lock()
	c.ports[nd.Config.ClusterAddr] = i
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	run, err := node.Start(ctx, nd.Config, nd.log.logger())
	if err != nil {
		c.t.Fatalf("start node %d: %v", i, err)
	}
	nd.Run = run
	c.mu.Lock()
	c.ids[run.ServerID()] = i
	c.mu.Unlock()
}

// StartReady starts a node that is down and waits until it is ready.
func (c *Cluster) StartReady(i int) {
	c.t.Helper()
	c.Start(i)
	c.WaitReady(i)
}

// Restart stops a node in good order, starts it and waits until it is ready.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.Stop(i)
	c.StartReady(i)
}

// TryStart is Start for a node that may fail to start; it returns the error of the
// start, or of the run if the node ends within the test's patience.
func (c *Cluster) TryStart(i int) error {
	c.t.Helper()
	nd := c.Nodes[i]
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	run, err := node.Start(ctx, nd.Config, nd.log.logger())
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(Patience):
		nd.Run = run
		return nil
	}
}

// Kill ends nodes at the same moment, without notice and without flushing.
func (c *Cluster) Kill(nodes ...int) {
	c.t.Helper()
	var wg sync.WaitGroup
	for _, i := range nodes {
		wg.Go(c.Nodes[i].Run.Kill)
	}
	wg.Wait()
	for _, i := range nodes {
		c.Nodes[i].Run = nil
	}
}

// Stop shuts a node down in good order.
func (c *Cluster) Stop(i int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	check.Err(c.t, c.Nodes[i].Run.Shutdown(ctx), nil, "stop node %d", i)
	c.Nodes[i].Run = nil
}

// Wipe deletes everything a node that is down has kept.
func (c *Cluster) Wipe(i int) {
	c.t.Helper()
	if c.Nodes[i].Run != nil {
		c.t.Fatalf("wipe node %d: it is running", i)
	}
	must.Do(c.t, os.RemoveAll(c.Nodes[i].Config.DataDir))
}

// cuttable returns a dialer of node i that follows Cut.
func (c *Cluster) cuttable(i int, dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		c.mu.Lock()
		defer c.mu.Unlock()
		j, known := c.ports[addr]
		if err != nil || !known {
			return conn, err
		}
		way := [2]int{i, j}
		if c.cut[way] {
			return nil, errors.Join(errCut, conn.Close())
		}
		c.conns[way] = append(c.conns[way], conn)
		return conn, nil
	}
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

var errCut = errors.New("the link is cut")

// Cut cuts the way from one node to another: the first can no longer open a
// connection to the second, and those that exist are closed.
func (c *Cluster) Cut(from, to int) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	way := [2]int{from, to}
	c.cut[way] = true
	for _, conn := range c.conns[way] {
		_ = conn.Close() // it may be closed
	}
	delete(c.conns, way)
}

// Isolate cuts a node off from all others, both ways.
func (c *Cluster) Isolate(i int) {
	c.t.Helper()
	for j := range c.Nodes {
		if j != i {
			c.Cut(i, j)
			c.Cut(j, i)
		}
	}
}

// Heal restores all links.
func (c *Cluster) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.cut)
}

// Running returns the indexes of the nodes that run.
func (c *Cluster) Running() []int {
	var running []int
	for i, nd := range c.Nodes {
		if nd.Run != nil {
			running = append(running, i)
		}
	}
	return running
}

// Others returns the indexes of all nodes but one.
func (c *Cluster) Others(i int) []int {
	var others []int
	for j := range c.Nodes {
		if j != i {
			others = append(others, j)
		}
	}
	return others
}

// Index returns the node's place in the cluster.
func (nd *Node) Index() int { return nd.index }

// ServerID returns the id of a running node.
func (nd *Node) ServerID() string { return nd.Run.ServerID() }

// ClusterAddr returns the address of the node's private port.
func (nd *Node) ClusterAddr() string { return nd.Config.ClusterAddr }

// Wait waits until a running node ends by itself and returns why it did.
func (nd *Node) Wait() error {
	err := nd.Run.Wait()
	nd.Run = nil
	return err
}

// DataDir returns where the node keeps its data.
func (nd *Node) DataDir() string { return nd.Config.DataDir }

// Logged reports whether the node has logged a line that holds the text.
func (nd *Node) Logged(text string) bool { return strings.Contains(nd.log.String(), text) }

// WaitLogged waits until a node has logged a line that holds the text: what a
// node does may be seen before the line about it.
func (c *Cluster) WaitLogged(i int, text string) {
	c.t.Helper()
	c.Eventually(fmt.Sprintf("a line of node %d", i), func() error {
		return ErrorIf(!c.Nodes[i].Logged(text), "not logged: %s", text)
	})
}

// Log returns the newest lines of the node's log.
func (nd *Node) Log() string { return nd.log.String() }

// StallLog makes every line wait that the node logs from now on, for good.
func (nd *Node) StallLog() { nd.log.stalled.Store(true) }

const maxLogLines = 600 // bounds what is kept of one node's log

type logBuffer struct {
	stalled atomic.Bool
	mu      sync.Mutex
	lines   []string
}

func (b *logBuffer) Write(p []byte) (int, error) {
	if b.stalled.Load() {
		select {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) == maxLogLines {
		b.lines = b.lines[maxLogLines/2:]
	}
	b.lines = append(b.lines, string(p))
	return len(p), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "")
}

func (b *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// Eventually polls until a condition holds, and fails the test with its last error when
// Patience ends.
func (c *Cluster) Eventually(what string, condition func() error) {
	c.t.Helper()
	c.Within(Patience, what, condition)
}

// Within is Eventually with another patience.
func (c *Cluster) Within(patience time.Duration, what string, condition func() error) {
	c.t.Helper()
	if err := await.Until(context.Background(), patience, pollEvery, condition); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// ErrorIf returns an error with the text if a condition of Eventually does not hold yet.
func ErrorIf(unmet bool, format string, args ...any) error {
	if unmet {
		return fmt.Errorf(format, args...)
	}
	return nil
}

// WaitReady waits until the named nodes are ready. Without names it waits for all running
// nodes.
func (c *Cluster) WaitReady(nodes ...int) {
	c.t.Helper()
	if len(nodes) == 0 {
		nodes = c.Running()
	}
	for _, i := range nodes {
		c.Eventually(fmt.Sprintf("node %d ready", i), func() error {
			status, body, err := c.Nodes[i].GetText("/readyz")
			if err != nil {
				return err
			}
			return ErrorIf(status != http.StatusOK, "%s", body)
		})
	}
}

// WaitLeader waits until the named nodes agree on a leader among them, and returns it.
// Without names it asks all running nodes.
func (c *Cluster) WaitLeader(nodes ...int) int {
	c.t.Helper()
	if len(nodes) == 0 {
		nodes = c.Running()
	}
	leader := -1
	c.Eventually("a leader", func() error {
		leader = -1
		for _, i := range nodes {
			s := c.Nodes[i].Status()
			if s.Leader == "" {
				return fmt.Errorf("node %d knows no leader", i)
			}
			c.mu.Lock()
			led := c.ids[s.Leader]
			c.mu.Unlock()
			if !slices.Contains(nodes, led) || leader >= 0 && led != leader {
				return fmt.Errorf("node %d follows %s", i, s.Leader)
			}
			leader = led
		}
		return nil
	})
	return leader
}

// Follower returns a running node that does not lead.
func (c *Cluster) Follower() int {
	c.t.Helper()
	leader := c.WaitLeader()
	for _, i := range c.Running() {
		if i != leader {
			return i
		}
	}
	c.t.Fatal("there is no follower")
	return -1
}

// WaitVoters waits until every running node says that the voters are exactly the
// running nodes.
func (c *Cluster) WaitVoters() {
	c.t.Helper()
	running := c.Running()
	want := make([]string, 0, len(running))
	for _, i := range running {
		want = append(want, c.Nodes[i].ServerID())
	}
	slices.Sort(want)
	c.Eventually("the voters", func() error {
		for _, i := range c.Running() {
			s := c.Nodes[i].Status()
			got := slices.Clone(s.Voters)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				return fmt.Errorf("node %d says %v, want %v", i, got, want)
			}
		}
		return nil
	})
}

// WaitConverged waits until all running nodes have applied the same index, and
// fails the test when their digests differ there.
func (c *Cluster) WaitConverged() {
	c.t.Helper()
	c.Eventually("equal indexes", func() error {
		running := c.Running()
		first, digest := c.Nodes[running[0]].Run.Machine().Digest()
		for _, i := range running[1:] {
			index, other := c.Nodes[i].Run.Machine().Digest()
			if index != first {
				return fmt.Errorf("node %d is at %d, node %d at %d", running[0], first, i, index)
			}
			if other != digest {
				c.t.Fatalf("at index %d node %d has the digest %x, node %d %x", index, running[0], digest, i, other)
			}
		}
		return nil
	})
}

// Status is a node's view of the cluster.
type Status struct {
	Node       string // server id
	Role       string // leader, follower or candidate
	Leader     string // server id, empty if unknown
	Term       uint64
	Voters     []string // server ids
	Format     int      // of the state
	Membership string
}

// Status returns the status of a running node.
func (nd *Node) Status() Status {
	r := nd.Run.Raft()
	return Status{
		Node: nd.ServerID(), Role: health.Role(r.State()), Leader: r.LeaderID(), Term: r.CurrentTerm(), Voters: r.Voters(),
		Format: nd.Run.Machine().Format(), Membership: nd.Run.Members().Part(),
	}
}
