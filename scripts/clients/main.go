// Clients plays one list of scenarios with the clients in Python and JavaScript against three
// real nodes (the tests of api/client hold the same for Go), visits them as newcomers who know only the address, and runs a program that is built from a generated client
// (scripts/clients/author).
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"

	"github.com/commons-cluster/commons/scripts/harness"
)

const nodes = 3

func main() {
	author := flag.String("author", "", "a program to run with the addresses of the nodes")
	source := flag.String("source", ".", "directory of the module, to build the bot in Go in")
	harness.Main("clients", func(r *harness.Run) {
		env := &environment{run: r, cluster: r.NewCluster("main", nodes), source: *source}
		env.startWithReceiver()
		if *author != "" {
			cmd := exec.CommandContext(r.Ctx, *author, env.cluster.URLs()...)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			harness.Must(cmd.Run())
		}
		harness.Play(r, &visitor{cluster: env.cluster, index: "0"}, newcomers...)
		for _, l := range []*language{
			{name: "python", env: env, command: []string{"python3"}, file: "commons.py", adapter: "adapter.py", section: "python"},
			{name: "javascript", env: env, command: []string{"node"}, file: "commons.mjs", adapter: "adapter.mjs", section: "js"},
		} {
			fmt.Fprintf(os.Stdout, "== %s\n", l.name)
			l.install()
			harness.Play(r, l, scenarios...)
		}
		harness.Play(r, env, bots...)
	})
}
