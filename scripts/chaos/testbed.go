package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/commons-cluster/commons/scripts/chaos/check"
	"github.com/commons-cluster/commons/scripts/chaos/record"
	"github.com/commons-cluster/commons/scripts/harness"
)

// testbed is the cluster of one run, with what the faults need.
type testbed struct {
	o          *options
	run        *harness.Run
	cluster    *harness.Cluster // of processes
	voters     []*harness.Node
	nodes      []*harness.Node // the voters, then the reader
	links      *links          // between processes
	containers *containers     // nil for processes

	balancer *harness.Node // in front of the containers: all clients call it
	kept     []check.Entry // the entries when the clients have ended

	watch  *watch
	caller *record.Caller
	began  time.Time

	down    map[string]bool         // nodes whose process does not run at the moment
	weak    map[string]bool         // nodes that cannot take part in a majority at the moment
	undo    map[string]func() error // ends a fault, by its node, or by its name if it has none
	spoiled *harness.Node           // the node whose disk was lost
	filled  bool                    // a disk is, or was, full

	mounts  []string         // directories of file systems that were mounted: disk images, then disks
	disks   map[string]*disk // by node
	noDisks string           // why disks cannot be broken here
}

// settle waits until every node is ready, and the voters vote.
func (b *testbed) settle() {
	c := &harness.Cluster{Run: b.run, Nodes: b.voters}
	harness.Must(c.WaitReady(harness.ReplaceTimeout, b.nodes...))
	c.WaitVoters()
}

// fault is a kind of damage to nodes, and its repair. end is nil if the damage needs no repair.
type fault struct {
	process bool // the process does not run, or is stopped, meanwhile
	weakens bool // the node cannot take part in a majority meanwhile
	disk    bool // needs a voter with its own disk; one at a time
	spoils  bool // the node's data is lost; once in a run
	resizes bool // changes the number of voters meanwhile
	// interrupts the service: clients may see errors.
	interrupts bool
	begin      func(b *testbed, nodes []*harness.Node)
	end        func(b *testbed, nodes []*harness.Node)
}

func each(do func(*testbed, *harness.Node)) func(*testbed, []*harness.Node) {
	return func(b *testbed, nodes []*harness.Node) {
		for _, n := range nodes {
			do(b, n)
		}
	}
}

// repair ends the fault that b.undo has under the name of a node or an attack.
func (b *testbed) repair(key string) error {
	err := b.undo[key]()
	delete(b.undo, key)
	return err
}

// resume repairs a node. If it ended meanwhile, it is started again.
func (b *testbed) resume(n *harness.Node) {
	err := b.repair(n.Name)
	harness.Pause(b.run.Ctx, time.Second) // the node may be about to end, because its disk did not respond
	if n.Running() {
		harness.Must(err)
	} else {
		b.start(n)
	}
}

// alternate stops a node and lets it go on by turns, until the fault is repaired.
func (b *testbed) alternate(n *harness.Node, stop, goOn func() error, stopped, going time.Duration) {
	ctx, cancel := context.WithCancel(b.run.Ctx)
	ended := make(chan error)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = stop()
			harness.Pause(ctx, stopped)
			err = errors.Join(err, goOn())
			harness.Pause(ctx, going)
		}
		ended <- err
	}()
	b.undo[n.Name] = func() error { cancel(); return <-ended }
}

// release ends all faults, so that processes can end.
func (b *testbed) release() {
	for key := range b.undo {
		complain(b.repair(key))
	}
}

func (b *testbed) start(n *harness.Node) {
	n.Start()
	b.links.runs(n.Name, n.PID())
}

func (b *testbed) named(names []string) (found []*harness.Node) {
	for _, n := range b.nodes {
		if slices.Contains(names, n.Name) {
			found = append(found, n)
		}
	}
	return found
}
