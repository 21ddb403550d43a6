package main

import (
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
	hungry  map[string]func() error // ends the starvation of a node
	spoiled *harness.Node           // the node whose disk was lost
	filled  bool                    // a disk is, or was, full

	images  string           // directory of the disk images, empty if there are no disks
	disks   map[string]*disk // by node
	noDisks string           // why disks cannot be broken here

	withdraw func() // ends the attack of strangers
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
