// Blackbox runs real nodes as processes on this machine, kills, wipes and
// restarts them under load, and checks what clients were promised: nothing
// acknowledged is lost, each request_id makes one entry, and whoever talks to a
// living node sees no error.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/poll"
)

// Deadlines of what is waited for.
const (
	readyTimeout   = 30 * time.Second
	quorumTimeout  = 15 * time.Second
	replaceTimeout = 60 * time.Second
	exitTimeout    = 30 * time.Second
	pollEvery      = 50 * time.Millisecond
)

// bench is what the scenarios share.
type bench struct {
	ctx    context.Context
	binary string
	dir    string
	long   bool
	nodes  []*process // everything started, to be ended
}

// scenario is one thing to check. Those that need a cluster get the same one,
// one after the other, and leave it healthy.
type scenario struct {
	name string
	run  func(*bench, *cluster) error
}

func main() {
	binary := flag.String("binary", "", "the commons binary")
	dir := flag.String("dir", "", "directory for data and logs")
	long := flag.Bool("long", false, "kill more often and load longer")
	only := flag.String("only", "", "run this scenario alone")
	flag.Parse()
	if *binary == "" || *dir == "" {
		fmt.Fprintln(os.Stderr, "blackbox: -binary and -dir are needed; scripts/blackbox.sh gives them")
		os.Exit(2)
	}
	if err := runAll(*binary, *dir, *only, *long); err != nil {
		fmt.Fprintln(os.Stderr, "blackbox: FAILED:", err)
		os.Exit(1)
	}
}

func runAll(binary, dir, only string, long bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{ctx: ctx, binary: binary, dir: dir, long: long}
	defer b.endAll()

	alone := []scenario{
		{"command line", commandLine},
		{"one node that grows to three", oneNodeGrows},
		{"data directory is guarded", guardedDirectory},
		{"writers just below their limits", belowLimits},
	}
	together := []scenario{
		{"publish and list on every node", publishAndList},
		{"examples of the README", readmeExamples},
		{"commands for operators", operatorCommands},
		{"the secret is rotated", secretRotated},
		{"a backup is restored", backupRestored},
		{"bench", benchRuns},
		{"thousands wait at home", thousandsWait},
		{"thousands of slow connections", slowClients},
		{"leader killed under load", leaderKilled},
		{"leader ends gracefully under load", leaderTerminated},
		{"rolling restarts under load", rollingRestarts},
		{"leader stopped for a while under load", leaderPaused},
		{"all nodes killed under load", allKilled},
		{"wiped node replaces itself", wipedNode},
		{"a node that left joins again", nodeThatLeft},
		{"all nodes end gracefully", allTerminated},
	}
	for _, s := range alone {
		if err := b.run(s, nil, only); err != nil {
			return err
		}
	}
	c, err := b.newCluster("main")
	if err != nil {
		return err
	}
	if err := c.startAll(); err != nil {
		return err
	}
	for _, s := range together {
		if err := b.run(s, c, only); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) run(s scenario, c *cluster, only string) error {
	if only != "" && only != s.name {
		return nil
	}
	if err := b.ctx.Err(); err != nil {
		return err
	}
	fmt.Printf("-- %s\n", s.name)
	start := time.Now()
	if err := s.run(b, c); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	fmt.Printf("ok %s (%.1f s)\n", s.name, time.Since(start).Seconds())
	return nil
}

// endAll kills whatever still runs.
func (b *bench) endAll() {
	for _, p := range b.nodes {
		if p.running() {
			p.kill()
		}
	}
}

// eventually tries until it works, the deadline passes, or the run is interrupted.
func (b *bench) eventually(timeout time.Duration, try func() error) error {
	return poll.Until(b.ctx, timeout, pollEvery, try)
}

// path is a path in the directory of this run.
func (b *bench) path(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}
