package simulation

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/simnet"
	"github.com/commons-cluster/commons/node/consensus"
)

// mix are the properties of a run. They follow from its seed.
type mix struct {
	voters   int
	link     simnet.Link   // the usual one
	stalls   float64       // share of slow writes to a disk
	longest  time.Duration // of a slow write
	fails    float64       // share of the writes that fail while a disk is bad
	pause    time.Duration // between two faults, at most
	pace     time.Duration // of the writers
	logBytes int64         // of log that start a snapshot, and that stay behind it
	faults   string        // names of the faults to draw from
}

// Faults that a run draws from, by letter. A letter that stands twice is twice as likely.
const (
	allFaults  = "iihhhhtttcCoorrkkTTbBpdsxq"
	raceFaults = "iitthh" // leadership moves while nodes are away
	diskFaults = "kkTTbBBhtiqq"
	linkFaults = "iccooorrdlllhhhtt"
	confFaults = "xxxhhhikt"
)

func drawMix(rng *rand.Rand) mix {
	return mix{
		voters:   pick(rng, 3, 3, 3, 5),
		link:     simnet.Link{Min: 200 * time.Microsecond, Max: pick(rng, time.Millisecond, 20*time.Millisecond, 200*time.Millisecond)},
		stalls:   pick(rng, 0, 0.01, 0.05, 0.2),
		longest:  pick(rng, 10*time.Millisecond, 500*time.Millisecond, 3*time.Second),
		fails:    pick(rng, 0.05, 0.5),
		pause:    pick(rng, 300*time.Millisecond, time.Second, 3*time.Second),
		pace:     pick(rng, 80*time.Millisecond, 300*time.Millisecond, 600*time.Millisecond),
		logBytes: pick[int64](rng, 1<<10, 8<<10, 1<<30),
		faults:   pick(rng, allFaults, allFaults, raceFaults, raceFaults, diskFaults, linkFaults, confFaults),
	}
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// breakThings causes faults for a time.
func (c *cluster) breakThings(length time.Duration) {
	for time.Since(c.began) < length && c.found() == 0 {
		time.Sleep(time.Duration(c.rng.Int64N(int64(c.mix.pause))))
		for _, n := range c.nodes {
			if c.isDown(n) {
				c.restart(n)
			}
		}
		order := c.rng.Perm(len(c.nodes))
		c.fault(c.mix.faults[c.rng.IntN(len(c.mix.faults))], c.nodes[order[0]], c.nodes[order[1]])
	}
}

// fault causes one fault at node a, or between a and b.
func (c *cluster) fault(letter byte, a, b *node) {
	change := func(from, to *node, change func(*simnet.Link)) { c.net.Change(from.id, to.id, change) }
	cut := func(l *simnet.Link) { l.Cut = true }
	switch letter {
	case 'i':
		c.event("%s is isolated", a.id)
		for _, other := range c.nodes {
			change(a, other, cut)
			change(other, a, cut)
		}
	case 'h':
		c.event("the network is whole")
		c.net.Heal()
	case 't':
		c.transfer(b)
	case 'c', 'C':
		c.event("%s and %s are cut off from each other", a.id, b.id)
		change(a, b, cut)
		change(b, a, cut)
	case 'o':
		c.event("messages from %s to %s are held", a.id, b.id)
		change(a, b, cut)
	case 'r':
		c.event("connections of %s and %s break", a.id, b.id)
		c.net.Reset(a.id, b.id)
	case 'd', 'l':
		c.event("messages from %s to %s are slow, and some are lost", a.id, b.id)
		change(a, b, func(l *simnet.Link) { l.Max, l.Loss, l.Rate = time.Second, 0.1, 64<<10 })
	case 'k':
		c.event("%s loses power", a.id)
		c.crash(a)
	case 'T':
		c.event("%s loses power in its next write", a.id)
		a.disk.tearNext()
	case 'b', 'B':
		c.event("the disk of %s fails for a while", a.id)
		d := a.disk
		d.fail(c.mix.fails)
		time.AfterFunc(3*beat, func() { d.fail(0) })
	case 'p':
		c.event("everything loses power")
		for _, n := range c.nodes {
			c.crash(n)
		}
	case 's':
		c.event("each write of %s stalls", a.id)
		a.disk.stall(1, 2*beat)
	case 'x':
		c.replace(a)
	case 'q':
		c.loseLagging()
	}
}

// loseLagging turns the leader's power off while its disk lags and only the smallest
// majority hears it. Then the others of this majority are isolated.
func (c *cluster) loseLagging() {
	c.state.Lock()
	leader := c.leader()
	c.state.Unlock()
	if leader == nil || c.isDown(leader) {
		return
	}
	c.event("the disk of %s lags, and then it loses power", leader.id)
	c.net.Heal()
	leader.disk.stall(1, 2*beat)
	cut := func(a, b *node) {
		for _, link := range [][2]string{{a.id, b.id}, {b.id, a.id}} {
			c.net.Change(link[0], link[1], func(l *simnet.Link) { l.Cut = true })
		}
	}
	followers := slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return n == leader })
	hear, deaf := followers[:len(followers)/2], followers[len(followers)/2:]
	for _, n := range deaf {
		cut(leader, n)
	}
	time.Sleep(beat / 2)
	c.crash(leader)
	c.net.Heal()
	for _, n := range hear {
		for _, other := range c.nodes {
			cut(n, other)
		}
	}
}

// transfer has the leader hand leadership to another node.
func (c *cluster) transfer(to *node) {
	c.state.Lock()
	leader := c.leader()
	c.state.Unlock()
	if leader == nil || leader == to {
		return
	}
	c.event("%s hands leadership to %s", leader.id, to.id)
	r, id := leader.raft, to.id
	go func() { _ = r.HandOver(id) }() // Raft may never answer
}

// isDown reports whether a node has to be started again: its power is off, or it has
// ended.
func (c *cluster) isDown(n *node) bool {
	_, ended := c.ended.Load(n)
	return n.raft == nil || ended || n.disk.off.Load()
}

func (c *cluster) crash(n *node) {
	if n.raft == nil {
		return
	}
	c.state.Lock()
	defer c.state.Unlock()
	delete(c.terms, n)
	if err := n.crash(); err != nil {
		c.problem("crash of %s: %v", n.id, err)
	}
}

// restart crashes a node that has ended, and starts it.
func (c *cluster) restart(n *node) {
	c.crash(n)
	c.event("%s starts", n.id)
	if err := n.start(); err != nil {
		c.problem("start of %s: %v", n.id, err)
	}
}

// replace gives a node that follows an empty disk. reconcile exchanges its server in the
// configuration. One disk is replaced at a time: two empty ones of three would be a loss.
func (c *cluster) replace(n *node) {
	c.state.Lock()
	leader := c.leader()
	if c.replacing || leader == nil || leader == n {
		c.state.Unlock()
		return
	}
	c.replacing = true
	c.state.Unlock()
	c.event("%s gets an empty disk", n.id)
	c.crash(n)
	c.state.Lock()
	n.replace()
	c.state.Unlock()
	c.restart(n)
}

// reconcile keeps the servers of the configuration those of the nodes, until stop is
// closed: a new one is added, gets a vote, and then the one that it replaces is removed.
func (c *cluster) reconcile(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(beat / 2):
		}
		c.state.Lock()
		leader, has := c.leader(), map[raft.ServerID]uint64{}
		var r *consensus.Raft
		for _, n := range c.nodes {
			if has[raft.ServerID(n.id)] = 0; n.raft != nil {
				has[raft.ServerID(n.id)] = n.raft.LastIndex()
			}
		}
		if leader != nil && c.replacing {
			r = leader.raft
		}
		c.state.Unlock()
		if r == nil {
			continue
		}
		change, doing := nextChange(r, has)
		if change == nil {
			continue
		}
		_, err := within(writeTimeout, change)
		c.event("%s: %v", doing, err)
		if err == nil && strings.HasPrefix(doing, "removing") {
			c.state.Lock()
			c.replacing = false
			c.state.Unlock()
		}
	}
}

// nextChange begins the next change of a configuration towards the servers of the nodes,
// which have logs up to an index. A server gets its vote when it has all that is committed,
// and so the configuration: with an older one it would reject candidates.
func nextChange(r *consensus.Raft, has map[raft.ServerID]uint64) (change raft.IndexFuture, doing string) {
	suffrages := map[raft.ServerID]raft.ServerSuffrage{}
	for _, s := range r.Servers() {
		suffrages[s.ID] = s.Suffrage
	}
	for id, last := range has {
		suffrage, known := suffrages[id]
		switch {
		case !known:
			return r.AddNonvoter(id, raft.ServerAddress(id), 0, writeTimeout), "adding " + string(id)
		case suffrage == raft.Nonvoter && last < r.AppliedIndex():
			return nil, ""
		case suffrage == raft.Nonvoter:
			return r.AddVoter(id, raft.ServerAddress(id), 0, writeTimeout), "promoting " + string(id)
		}
	}
	for id := range suffrages {
		if _, known := has[id]; !known {
			return r.RemoveServer(id, 0, writeTimeout), "removing " + string(id)
		}
	}
	return nil, ""
}
