package simulation

import (
	"context"
	"fmt"
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

	// These are of whole nodes only.
	gather time.Duration // until purged texts are erased, for which nodes cut their logs
	clocks int           // that are wrong at once, at most
}

// Faults that a run draws from, by letter. A letter that stands twice is twice as likely.
const (
	allFaults  = "iihhhhtttcCoorrkkTTbBpdsxqfzeE"
	raceFaults = "iitthhz" // leadership moves while nodes are away
	diskFaults = "kkTTbBBhtiqqffe"
	linkFaults = "iccooorrdlllhhhtt"
	confFaults = "xxxhhhikt"
	tailFaults = "EEeethhik" // logs are cut within the tail of another leader
	stopFaults = "zzzzthhik"
)

// fillFor is the longest time in which a disk fills and is full.
const fillFor = 4 * beat

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
		faults:   pick(rng, allFaults, allFaults, raceFaults, raceFaults, diskFaults, linkFaults, confFaults, tailFaults, stopFaults),
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
	switch letter {
	case 'i':
		c.event("%s is isolated", a.id)
		c.cut(a, c.nodes)
	case 'h':
		c.event("the network is whole")
		c.net.Heal()
	case 't':
		c.transfer(b)
	case 'c', 'C':
		c.event("%s and %s are cut off from each other", a.id, b.id)
		c.cut(a, []*node{b})
	case 'o':
		c.event("messages from %s to %s are held", a.id, b.id)
		c.net.Change(a.id, b.id, func(l *simnet.Link) { l.Cut = true })
	case 'r':
		c.event("connections of %s and %s break", a.id, b.id)
		c.net.Reset(a.id, b.id)
	case 'd', 'l':
		c.event("messages from %s to %s are slow, and some are lost", a.id, b.id)
		c.net.Change(a.id, b.id, func(l *simnet.Link) { l.Max, l.Loss, l.Rate = time.Second, 0.1, 64<<10 })
	case 'k':
		c.event("%s loses power", a.id)
		c.crash(a)
	case 'T':
		c.event("%s loses power in its next write", a.id)
		a.disk.arm(func(f *faults) { f.tear = true })
	case 'b', 'B':
		c.event("the disk of %s fails for a while", a.id)
		a.disk.arm(func(f *faults) { f.fails = c.mix.fails })
		a.disk.armAfter(3*beat, func(f *faults) { f.fails = 0 })
	case 'f':
		c.event("the disk of %s fills, and has space again later", a.id)
		a.disk.fill(c.rng)
	case 'z':
		c.event("%s stands still from its next write on, for %v", a.id, a.disk.pauseNext(c.rng))
	case 'e':
		c.event("%s cuts its log", a.id)
		c.cutLogs(a)
	case 'E':
		c.strandTail()
	case 'p':
		c.event("everything loses power")
		for _, n := range c.nodes {
			c.crash(n)
		}
	case 's':
		c.event("each write of %s stalls", a.id)
		a.disk.arm(func(f *faults) { f.stalls, f.longest = 1, 2*beat })
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
	leader.disk.arm(func(f *faults) { f.stalls, f.longest = 1, 2*beat })
	followers := c.others(leader)
	hear, deaf := followers[:len(followers)/2], followers[len(followers)/2:]
	c.cut(leader, deaf)
	time.Sleep(beat / 2)
	c.crash(leader)
	c.net.Heal()
	for _, n := range hear {
		c.cut(n, c.nodes)
	}
}

// others returns all nodes but one.
func (c *cluster) others(n *node) []*node {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(other *node) bool { return other == n })
}

// cut cuts the links between a node and others, both ways.
func (c *cluster) cut(n *node, others []*node) {
	for _, other := range others {
		for _, link := range [][2]string{{n.id, other.id}, {other.id, n.id}} {
			c.net.Change(link[0], link[1], func(l *simnet.Link) { l.Cut = true })
		}
	}
}

// strandTail isolates the leader with a tail that no other node has. Another one leads, and
// all others cut their logs, as for a purge, at an index within that tail or a little behind
// it. In half of the cases a third one leads then. At last the network is whole.
func (c *cluster) strandTail() {
	old := c.leader()
	if old == nil || c.isDown(old) {
		return
	}
	c.event("%s is isolated with a tail, and the others cut their logs", old.id)
	c.net.Heal()
	others := c.others(old)
	c.cut(old, others)
	for i := range 1 + c.rng.IntN(maxTail) {
		_ = old.raft.Apply(fmt.Appendf(nil, "%d in the tail at %v", i, time.Since(c.began)), writeTimeout)
	}
	var next *node
	for range 10 {
		time.Sleep(beat / 2)
		if next = c.leader(); next != nil && next != old {
			break
		}
	}
	if next == nil || next == old {
		return
	}
	for i := range c.rng.IntN(maxTail) {
		_ = c.put(next.raft, fmt.Sprintf("%d behind the tail at %v", i, time.Since(c.began)))
	}
	c.cutLogs(others...)
	if c.rng.IntN(2) == 0 {
		c.transfer(others[c.rng.IntN(len(others))])
		time.Sleep(beat)
	}
	c.net.Heal()
}

// maxTail bounds the entries of a tail that no other node has.
const maxTail = 8

// cutLogs cuts the logs of nodes behind the entries that they have applied, as for a purge.
func (c *cluster) cutLogs(nodes ...*node) {
	for _, n := range nodes {
		if c.isDown(n) {
			continue
		}
		r, index := n.raft, n.machine.position().Index
		if err := within(writeTimeout, func() error { return r.CutLog(context.Background(), index) }); err != nil {
			c.event("%s does not cut its log: %v", n.id, err)
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
		err := within(writeTimeout, change.Error)
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
