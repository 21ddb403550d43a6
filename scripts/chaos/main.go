// Command chaos breaks a cluster on purpose while recorded clients work with it, checks
// every answer against what was promised, and writes a report. It starts three voters
// and a reader as processes on this machine, with proxies between them that cut
// connections, delay data and limit the bandwidth, or uses containers of the compose
// file. It uses only the flags and interfaces of the product.
// scripts/chaos.sh builds and runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the commons binary")
	flag.StringVar(&o.later, "later", "", "a later version of the binary, for the scenario '"+laterVersion+"'")
	flag.StringVar(&o.dir, "dir", "", "directory for data and logs")
	flag.StringVar(&o.out, "out", "", "directory for the report")
	flag.Uint64Var(&o.seed, "seed", 1, "what the random plan, and what clients do, depends on")
	flag.DurationVar(&o.random, "random", 0, "play a random plan of this length in place of a scenario")
	flag.StringVar(&o.only, "scenario", "", "names of scenarios, with commas between; list shows them; default: all")
	flag.DurationVar(&o.pause, "pause", 20*time.Millisecond, "pause of each of the 24 clients after each call")
	flag.Float64Var(&o.least, "least", enoughWrites, "writes a second before the first fault, below which a run is void")
	flag.StringVar(&o.network, "network", proxied, "what stands between nodes: "+proxied+"; "+spaced+" with a switch that loses packets, too; or "+contained+" of "+composeFile)
	flag.IntVar(&o.voters, "voters", voters, "voters; containers can be "+strconv.Itoa(voters)+" or "+strconv.Itoa(manyVoters))
	long := flag.Duration("long", 0, "play all there is in all networks, and then random plans until so much time is over; arguments are a command that runs one of them apart")
	flag.IntVar(&o.kills, "kills", 0, "kill the leader so many times, in place of a scenario")
	flag.BoolVar(&o.keep, "keep", false, "leave the containers of a failed run")
	flag.Func("set", "name=value of a flag of commons serve; may be repeated", func(text string) error {
		o.flags = append(o.flags, text)
		if !strings.Contains(text, "=") {
			return errors.New("want name=value")
		}
		return nil
	})
	flag.Parse()
	if o.only == "list" {
		fmt.Println(strings.Join(slices.Sorted(maps.Keys(scenarios)), "\n"))
		return
	}
	if err := o.problem(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *long > 0 {
		err = o.runLong(ctx, *long, flag.Args())
	} else {
		err = o.runAll(ctx)
	}
	stop()
	if errors.Is(err, errSkipped) {
		fmt.Println(err)
		os.Exit(exitSkipped)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: FAILED:", err)
		os.Exit(1)
	}
}
