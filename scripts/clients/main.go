// Clients plays one list of scenarios with the clients in Python and JavaScript against three
// real nodes (the tests of api/client hold the same for Go). Before that, it visits them as a newcomer does,
// who knows the address alone, and runs a program with a generated client (scripts/clients/author).
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"

	"github.com/commons-cluster/commons/scripts/harness"
)

func main() {
	author := flag.String("author", "", "the program with a generated client, which is run with the addresses of the nodes")
	only := flag.String("only", "", "run the scenario of this name alone")
	harness.Main("clients", func(r *harness.Run) {
		r.Only = *only
		env := &environment{run: r, cluster: r.NewCluster("main", 3)}
		env.startWithReceiver()
		// While the place is empty: an agent that knows only the address of the nodes.
		harness.Play(r, &visitor{cluster: env.cluster, index: "0"}, harness.Scenario[*visitor]{Name: "a newcomer by curl", Run: (*visitor).useCurl})
		cmd := exec.CommandContext(r.Ctx, *author, env.cluster.URLs()...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		harness.Must(cmd.Run())
		for _, l := range []*language{
			{name: "python", env: env, command: []string{"python3"}, file: "commons.py", adapter: "adapter.py"},
			{name: "js", env: env, command: []string{"node"}, file: "commons.mjs", adapter: "adapter.mjs"},
		} {
			fmt.Fprintf(os.Stdout, "== %s\n", l.name)
			l.install()
			harness.Play(r, l, scenarios...)
		}
		harness.Play(r, env, bots...)
	})
}
