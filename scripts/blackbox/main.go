// Blackbox runs real nodes as processes on this machine, kills, wipes and
// restarts them under load, and checks what clients were promised: nothing
// acknowledged is lost, each request_id makes one entry, and whoever talks to a
// living node sees no error.
package main

import (
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	clusterSize   = 3
	quorumTimeout = 15 * time.Second // for a quorum after all nodes were killed
)

// bench is what the scenarios share.
type bench struct {
	run  *harness.Run
	long bool
}

// cluster is three nodes, and which of them clients talk to.
type cluster struct {
	*harness.Cluster
	bench *bench
	route *routing
	pace  time.Duration // how long the writers of a load pause after each write
}

// newCluster prepares three nodes in a directory of their own.
func (b *bench) newCluster(name string) *cluster {
	c := harness.Got(b.run.NewCluster(name, clusterSize))
	return &cluster{Cluster: c, bench: b, route: newRouting(c.Nodes)}
}

func main() { harness.Main("blackbox", runAll) }

func runAll(r *harness.Run, only string, long bool) {
	b := &bench{run: r, long: long}
	// Each of these starts nodes of its own.
	harness.Must(harness.Play(r.Ctx, b, only, []harness.Scenario[*bench]{
		{Name: "command line", Run: commandLine},
		{Name: "one node that grows to three", Run: oneNodeGrows},
		{Name: "data directory is guarded", Run: guardedDirectory},
		{Name: "writers just below their limits", Run: belowLimits},
	}...))
	c := b.newCluster("main")
	harness.Must(c.Start())
	// These use the same cluster, one after the other, and leave it healthy.
	harness.Must(harness.Play(r.Ctx, c, only, []harness.Scenario[*cluster]{
		{Name: "publish and list on every node", Run: publishAndList},
		{Name: "examples of the README", Run: readmeExamples},
		{Name: "commands for operators", Run: operatorCommands},
		{Name: "the secret is rotated", Run: secretRotated},
		{Name: "a backup is restored", Run: backupRestored},
		{Name: "bench", Run: benchRuns},
		{Name: "thousands wait at home", Run: thousandsWait},
		{Name: "thousands of slow connections", Run: slowClients},
		{Name: "leader killed under load", Run: leaderKilled},
		{Name: "leader ends gracefully under load", Run: leaderTerminated},
		{Name: "rolling restarts under load", Run: rollingRestarts},
		{Name: "leader stopped for a while under load", Run: leaderPaused},
		{Name: "all nodes killed under load", Run: allKilled},
		{Name: "wiped node replaces itself", Run: wipedNode},
		{Name: "a node that left joins again", Run: nodeThatLeft},
		{Name: "all nodes end gracefully", Run: allTerminated},
	}...))
}
