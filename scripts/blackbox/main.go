// Blackbox runs real nodes as processes on this machine and checks the program without
// faults: the command line, the examples of the documents, and thousands of connections.
// scripts/blackbox.sh also runs the scenarios of scripts/chaos with what clients are
// promised during faults and the procedures of operators.
package main

import "github.com/commons-cluster/commons/scripts/harness"

const clusterSize = 3

func main() { harness.Main("blackbox", runAll) }

func runAll(r *harness.Run) {
	// Each of these starts nodes of its own.
	harness.Play(r, r, []harness.Scenario[*harness.Run]{
		{Name: "command line", Run: commandLine},
		{Name: "data directory is guarded", Run: guardedDirectory},
	}...)
	c := r.StartCluster()
	harness.Play(r, c, []harness.Scenario[*harness.Cluster]{
		{Name: "publish and list on every node", Run: publishAndList},
		{Name: "examples of the README", Run: readmeExamples},
		{Name: "commands for operators", Run: operatorCommands},
		{Name: "bench", Run: benchRuns},
		{Name: "thousands wait at home", Run: thousandsWait},
		{Name: "thousands of slow connections", Run: slowClients},
	}...)
	c.Terminate()
}
