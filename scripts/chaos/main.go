// Command chaos breaks a cluster on purpose while recorded clients work with it, checks
// every answer against what was promised, and writes a report. It starts three voters
// and a reader as processes on this machine, with proxies between them that cut
// connections, delay data and hold it back as if packets were lost, or uses containers of
// the compose file. It uses only the flags and interfaces of the product.
// scripts/chaos.sh builds and runs it.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/scripts/harness"
)

func main() {
	o := options{pause: usualPause}
	flag.StringVar(&o.later, "later", "", "a later version of the binary, for the scenario '"+laterVersion+"'")
	flag.Uint64Var(&o.seed, "seed", 1, "what the random plan, and what clients do, depends on")
	flag.DurationVar(&o.random, "random", 0, "play a random plan of this length in place of a scenario")
	flag.Func("scenario", "names of scenarios, with commas between; list shows them; default: all", func(names string) error {
		if names == "list" {
			fmt.Println(strings.Join(slices.Sorted(maps.Keys(scenarios)), "\n"))
			os.Exit(0)
		}
		o.only = names
		return nil
	})
	flag.Float64Var(&o.least, "least", enoughWrites, "writes a second before the first fault, below which a run is void")
	flag.IntVar(&o.voters, "voters", voters, "voters of a cluster of processes")
	flag.IntVar(&o.kills, "kills", 0, "kill the leader so many times, in place of a scenario")
	harness.Main("chaos", o.runAll)
}
