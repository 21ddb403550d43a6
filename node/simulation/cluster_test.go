package simulation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/simnet"
	"github.com/commons-cluster/commons/node/consensus"
)

const (
	beat = time.Second // heartbeat, election and lease
	// watchEvery is the pause between two looks at all nodes.
	watchEvery = 10 * time.Millisecond
	// clients is the number of writers. Each has one write under way.
	clients = 4
	// writeTimeout bounds the wait of a writer for an answer: Raft forgets some writes when
	// it shuts down.
	writeTimeout = 10 * time.Second
	// settleFor is the time after the last fault in which the cluster must become well.
	settleFor = 30 * time.Second
)

// cluster is a simulated cluster and its checks.
type cluster struct {
	*journal

	seed  uint64
	rng   *rand.Rand // of the faults
	mix   mix
	dir   string
	net   *simnet.Net
	nodes []*node
	ended sync.Map       // nodes that ended by themselves
	ends  sync.WaitGroup // of what is stopped

	state   sync.Mutex // guards the nodes; never held over a wait
	leaders map[uint64]string
	terms   map[*node]uint64 // in memory
	former  []durable        // of replaced disks
	// replacing says that a disk was replaced and its old server is not removed yet.
	replacing bool

	checks  sync.Mutex
	applied map[uint64]position // by index
	texts   map[string]uint64   // indexes of applied texts
	acked   map[string]uint64   // indexes of acknowledged texts
	failed  int                 // writes without an acknowledgement
}

// newCluster starts the cluster of a seed.
func newCluster(seed uint64, o *journal, dir string) (*cluster, error) {
	o.began = time.Now()
	rng := rand.New(rand.NewPCG(seed, 1))
	c := &cluster{
		journal: o, seed: seed, rng: rng, mix: drawMix(rng), dir: dir, net: simnet.New(seed),
		leaders: map[uint64]string{}, terms: map[*node]uint64{},
		applied: map[uint64]position{}, texts: map[string]uint64{}, acked: map[string]uint64{},
	}
	c.net.SetUsual(c.mix.link)
	c.event("%+v", c.mix)
	var servers []raft.Server
	for i := range c.mix.voters {
		name := fmt.Sprintf("n%d", i)
		n := &node{c: c, id: name, rng: rand.New(rand.NewPCG(seed, uint64(2+i))), snapshots: &snapshots{}, stored: durable{votes: map[uint64]string{}}}
		c.nodes = append(c.nodes, n)
		servers = append(servers, raft.Server{ID: raft.ServerID(name), Address: raft.ServerAddress(name)})
		if err := n.start(); err != nil {
			return nil, err
		}
	}
	return c, c.nodes[0].raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error()
}

// leader returns the node that leads in the newest term, or nil.
func (c *cluster) leader() (newest *node) {
	for _, n := range c.nodes {
		if n.raft != nil && n.raft.State() == raft.Leader && (newest == nil || n.raft.CurrentTerm() > newest.raft.CurrentTerm()) {
			newest = n
		}
	}
	return newest
}

// watch checks all nodes until stop is closed: the term in memory is that on disk, and
// never goes back, and a term has one leader.
func (c *cluster) watch(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(watchEvery):
		}
		synctest.Wait() // so that no node is between its disk and its memory
		c.state.Lock()
		for _, n := range c.nodes {
			if n.raft != nil && !n.disk.off.Load() {
				c.checkMemory(n)
			}
		}
		c.state.Unlock()
	}
}

// checkMemory checks the term and the state of a node. The lock is held.
func (c *cluster) checkMemory(n *node) {
	if _, ended := c.ended.Load(n); ended {
		return
	}
	term := n.raft.CurrentTerm()
	if stored := n.onDisk().term; term != stored {
		c.problem("%s: the term in memory is %d, on disk %d", n.id, term, stored)
	}
	if before := c.terms[n]; term < before {
		c.problem("%s: the term in memory goes back from %d to %d", n.id, before, term)
	}
	c.terms[n] = term
	if n.raft.State() != raft.Leader {
		return
	}
	switch c.leaders[term] {
	case "":
		c.leaders[term] = n.id
		c.event("%s leads in term %d", n.id, term)
		c.checkVotes(n.id, term)
	case n.id:
	default:
		c.problem("%s and %s lead in term %d", c.leaders[term], n.id, term)
	}
}

// checkVotes checks that a majority has its votes for a new leader on disk, or is in a later
// term. The lock is held.
func (c *cluster) checkVotes(leader string, term uint64) {
	disks := slices.Clone(c.former)
	for _, n := range c.nodes {
		disks = append(disks, n.onDisk())
	}
	votes := 0
	for _, d := range disks {
		if d.votes[term] == leader || d.term > term {
			votes++
		}
	}
	if votes <= len(c.nodes)/2 {
		c.problem("%s leads in term %d with %d votes on disk", leader, term, votes)
	}
}

// checkApplied checks that all machines are equal at equal indexes. It also keeps the
// places of the texts.
func (c *cluster) checkApplied(n *node, at position, entry *raft.Log) {
	c.checks.Lock()
	defer c.checks.Unlock()
	if before, known := c.applied[at.Index]; known && before != at {
		c.problem("%s: its state at index %d differs from that of another node", n.id, at.Index)
	}
	c.applied[at.Index] = at
	if entry == nil || entry.Type != raft.LogCommand {
		return
	}
	text := string(entry.Data)
	if before := c.texts[text]; before != 0 && before != at.Index {
		c.problem("%q is at index %d and at %d", text, before, at.Index)
	}
	c.texts[text] = at.Index
}

// write makes writes until stop is closed.
func (c *cluster) write(client int, stop <-chan struct{}) {
	for number := 0; ; number++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(client+1) * c.mix.pace):
		}
		c.state.Lock()
		leader := c.leader()
		var r *consensus.Raft
		if leader != nil {
			r = leader.raft
		}
		c.state.Unlock()
		if leader == nil {
			continue
		}
		text := fmt.Sprintf("%d of client %d", number, client)
		_ = c.put(r, text)
	}
}

// put makes a write, and notes whether it was acknowledged.
func (c *cluster) put(r *consensus.Raft, text string) error {
	future := r.Apply([]byte(text), writeTimeout)
	err := within(writeTimeout, future.Error)
	c.checks.Lock()
	defer c.checks.Unlock()
	if err == nil {
		c.acked[text] = future.Index()
	} else {
		c.failed++
	}
	return err
}

var errLate = errors.New("there is no answer")

// within waits for a result for a time. Raft may never answer.
func within(limit time.Duration, do func() error) error {
	answered := make(chan error, 1)
	go func() { answered <- do() }()
	select {
	case err := <-answered:
		return err
	case <-time.After(limit):
		return errLate
	}
}

// settle ends the faults, those that are to come included, and gives the nodes time to become
// well.
func (c *cluster) settle() {
	c.event("all faults end")
	c.net.SetUsual(simnet.Link{Min: time.Millisecond, Max: 2 * time.Millisecond})
	c.net.Heal()
	c.mix.stalls = 0
	for _, n := range c.nodes {
		n.disk.heal()
	}
	for began := time.Now(); time.Since(began) < settleFor; time.Sleep(beat) {
		for _, n := range c.nodes {
			if c.isDown(n) {
				c.restart(n)
			}
		}
	}
}

// lastWrite checks that a write is acknowledged when there are no faults any more.
func (c *cluster) lastWrite() {
	err := errors.New("no node leads")
	for began := time.Now(); time.Since(began) < settleFor; time.Sleep(beat) {
		if leader := c.leader(); leader != nil {
			if err = c.put(leader.raft, fmt.Sprintf("the last at %v", time.Since(began))); err == nil {
				return
			}
		}
	}
	c.problem("after all faults no write is acknowledged: %v", err)
}

// checkEnd checks that all nodes have all acknowledged texts, each where it was
// acknowledged.
func (c *cluster) checkEnd() {
	newest := uint64(0)
	c.checks.Lock() // a slow node may still apply
	for text, index := range c.acked {
		newest = max(newest, index)
		if at := c.texts[text]; at != index {
			c.problem("%q was acknowledged at index %d, and is at %d", text, index, at)
		}
	}
	c.checks.Unlock()
	if newest == 0 {
		c.problem("no write was acknowledged")
	}
	var states []position
	for _, n := range c.nodes {
		at := n.machine.position()
		if at.Index < newest {
			c.problem("%s has applied the log up to %d, and %d was acknowledged", n.id, at.Index, newest)
		}
		states = append(states, at)
	}
	if len(slices.Compact(slices.Clone(states))) > 1 {
		c.problem("the states differ in the end: %v", states)
	}
}

// close ends all nodes.
func (c *cluster) close() {
	for _, n := range c.nodes {
		if n.raft != nil {
			if _, err := n.disk.powerOff(n.path()); err != nil {
				c.problem("end of %s: %v", n.id, err)
			}
			n.stop(n.path())
		}
	}
	c.ends.Wait()
}
