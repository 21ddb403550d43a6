package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/commons-cluster/commons/internal/simnet"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/offline"
)

// Faults that a run of whole nodes draws from, by letter. A letter that stands twice is
// twice as likely.
const (
	allNodeFaults  = "iihhhcorrdttkkgTmMbpswvvuulfz"
	moveNodeFaults = "iitthhrgg" // leadership moves while nodes are away
	diskNodeFaults = "kkTTmmMMbspgtuuff"
	confNodeFaults = "wwllvhhikt"
	stopNodeFaults = "zzztthhikv"
)

// maxChanges bounds the changes of a state until the power goes off, and maxNames those of
// the metadata of its snapshots. A snapshot makes about 200, of which 8 are of metadata.
const maxChanges, maxNames = 400, 16

func drawNodesMix(rng *rand.Rand) mix {
	m := drawMix(rng)
	m.pause = pick(rng, 500*time.Millisecond, 2*time.Second, 4*time.Second)
	m.logBytes = pick[int64](rng, 16<<10, 64<<10, 1<<30)
	m.faults = pick(rng, allNodeFaults, allNodeFaults, moveNodeFaults, diskNodeFaults, confNodeFaults, stopNodeFaults)
	m.gather = pick(rng, time.Second, 5*time.Second, time.Minute)
	m.clocks = pick(rng, 1, 1, 2)
	return m
}

// fault causes one fault at node a, or between a and b.
func (c *nodes) fault(letter byte, a, b int) {
	change := func(from, to int, change func(*simnet.Link)) {
		c.Net().Change(c.Nodes[from].Host(), c.Nodes[to].Host(), change)
	}
	cut := func(l *simnet.Link) { l.Cut = true }
	name, other := c.Nodes[a].Config.NodeID, c.Nodes[b].Config.NodeID
	switch letter {
	case 'i':
		c.event("%s is isolated", name)
		for _, j := range c.Others(a) {
			change(a, j, cut)
			change(j, a, cut)
		}
	case 'h':
		c.event("the network is whole")
		c.Net().Heal()
	case 'c':
		c.event("%s and %s are cut off from each other", name, other)
		change(a, b, cut)
		change(b, a, cut)
	case 'o':
		c.event("messages from %s to %s are held", name, other)
		change(a, b, cut)
	case 'r':
		c.event("connections of %s and %s break", name, other)
		c.Net().Reset(c.Nodes[a].Host(), c.Nodes[b].Host())
	case 'd':
		c.event("messages from %s to %s are slow, and some are lost", name, other)
		change(a, b, func(l *simnet.Link) { l.Max, l.Loss, l.Rate = time.Second, 0.1, 64<<10 })
	case 't':
		_, err := operate[admin.ServerRef](c, a, admin.PathTransfer, admin.ServerRef{ID: c.Nodes[b].ServerID()})
		c.event("%s asks that %s leads: %v", name, other, err)
	case 'k':
		c.event("%s loses power", name)
		c.crash(a)
	case 'p':
		c.event("everything loses power")
		all := c.Others(-1)
		c.crash(all...)
	case 'T':
		c.event("%s loses power in its next write", name)
		c.life(a).arm(func(f *faults) { f.tear = true })
	case 'm':
		changes := 1 + c.rng.IntN(maxChanges)
		c.event("%s loses power after %d changes of its state", name, changes)
		c.life(a).arm(func(f *faults) { f.cut, f.onlyNames = changes, false })
	case 'M':
		changes := 1 + c.rng.IntN(maxNames)
		c.event("%s loses power after %d changes of its snapshots", name, changes)
		c.life(a).arm(func(f *faults) { f.cut, f.onlyNames = changes, true })
	case 'b':
		c.event("the disk of %s fails for a while", name)
		c.life(a).arm(func(f *faults) { f.fails = c.mix.fails })
		c.life(a).armAfter(3*beat, func(f *faults) { f.fails = 0 })
	case 'f':
		c.event("the disk of %s fills, and has space again later", name)
		c.life(a).fill(c.rng)
	case 'z':
		c.event("%s stands still from its next write on, for %v", name, c.life(a).pauseNext(c.rng))
	case 's':
		c.event("each write of %s stalls", name)
		c.life(a).arm(func(f *faults) { f.stalls, f.longest = 1, 2*beat })
	case 'g':
		c.event("%s is asked to end", name)
		c.stop(a)
	case 'u':
		c.event("%s is upgraded", name)
		c.stop(a)
		c.Nodes[a].Config.Tuning.Format = after
	case 'v':
		c.setClock(a, pick(c.rng, time.Hour, -time.Hour, 0))
	case 'w':
		c.wipe(a)
	case 'l':
		c.depart(a)
	}
}

// setClock sets the clock of a node. No more clocks are wrong at once than the run allows. The
// median of three clocks of which two are wrong is wrong.
func (c *nodes) setClock(a int, off time.Duration) {
	others := 0
	for _, i := range c.Others(a) {
		if c.hosts[i].clock.counts() {
			others++
		}
	}
	if others >= c.mix.clocks {
		return
	}
	c.event("the clock of %s is off by %v", c.Nodes[a].Config.NodeID, off)
	c.hosts[a].clock.off.Store(int64(off))
	c.anyTime = c.anyTime || others > 0 && off != 0
}

// wipe replaces the disk of a node that follows, if all nodes run and vote: two empty
// disks of three would be a loss.
func (c *nodes) wipe(a int) {
	if !c.allVote() || c.Nodes[a].Status().Role == "leader" {
		return
	}
	c.event("%s gets an empty disk", c.Nodes[a].Config.NodeID)
	c.crash(a)
	c.wipeDisk(a)
}

// depart has a node leave the cluster for good, if all nodes run and vote. It comes back as
// a new server, of the later version: the others may have raised the format without it.
func (c *nodes) depart(a int) {
	if !c.allVote() {
		return
	}
	began := time.Now()
	_, err := operate[admin.ServerRef](c, a, admin.PathLeave, nil)
	c.event("%s leaves: %v", c.Nodes[a].Config.NodeID, err)
	switch {
	case err == nil:
		c.stop(a) // if it does not end yet
	case time.Since(began) < writeTimeout:
		return
	default:
		c.crash(a) // it would leave later
		if offline.CheckNotLeft(c.Nodes[a].DataDir()) == nil {
			return
		}
	}
	c.wipeDisk(a)
	c.Nodes[a].Config.Tuning.Format = after
}

// wipeDisk deletes everything a node that is down has kept.
func (c *nodes) wipeDisk(a int) {
	c.Wipe(a)
	c.hosts[a].state = c.emptyState(&c.Nodes[a].Config)
}

// allVote reports whether every node runs, and says that all of them vote.
func (c *nodes) allVote() bool {
	ids := make([]string, 0, len(c.Nodes))
	for i := range c.Nodes {
		if c.life(i).ended.Load() != nil {
			return false
		}
		ids = append(ids, c.Nodes[i].ServerID())
	}
	slices.Sort(ids)
	return !slices.ContainsFunc(c.Nodes, func(nd *nodetest.Node) bool {
		return !slices.Equal(slices.Sorted(slices.Values(nd.Status().Voters)), ids)
	})
}
