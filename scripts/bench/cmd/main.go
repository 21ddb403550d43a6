// The command of package bench: `bench MODE [flag ...]` prints its report as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/bench"
)

func main() {
	var o bench.Options
	flags := flag.NewFlagSet("bench write|list|search|home|poll|mixed|static", flag.ExitOnError)
	urls := flags.String("url", "http://127.0.0.1:8080", "nodes that the connections are divided among, separated by commas")
	flags.IntVar(&o.Connections, "connections", 64, "connections, each with one request under way")
	flags.DurationVar(&o.Duration, "duration", 10*time.Second, "how long to measure")
	flags.Float64Var(&o.Rate, "rate", 0, "requests a second, due whether or not earlier ones are answered; 0: each connection sends when its last request is answered")
	flags.IntVar(&o.Fill, "fill", 0, "entries to publish before measuring")
	flags.BoolVar(&o.MCP, "mcp", false, "write by the tool interface")
	flags.IntVar(&o.PID, "pid", 0, "report the most memory that this process takes")
	listen := flags.String("listen", "", "of static: answer everything at this address with what is at --url now")
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		flags.Usage()
		os.Exit(2)
	}
	_ = flags.Parse(os.Args[2:]) // exits
	o.Mode, o.URLs = bench.Mode(os.Args[1]), strings.Split(*urls, ",")
	if o.Mode == "static" {
		fmt.Fprintln(os.Stderr, "bench:", bench.ServeStatic(*listen, *urls))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := bench.Run(ctx, o)
	if report != nil {
		_ = json.NewEncoder(os.Stdout).Encode(report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to be stopped
	}
}
