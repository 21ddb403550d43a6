// Compose runs docker-compose.cluster.yml for real: it publishes through the
// balancer without a pause while containers are killed, paused, restarted, wiped,
// recreated under new addresses and joined by two more, and checks what clients
// were promised. Everything that it starts it removes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// Deadlines of what is waited for. The balancer waits 75 s for a node where a call
// waits.
const (
	callTimeout    = 80 * time.Second
	commandTimeout = 3 * time.Minute
	cleanupTimeout = 2 * time.Minute
)

// How long a node is paused: longer than maxGap, and than gossip needs to miss it.
const (
	shortPause = 25 * time.Second
	longPause  = 60 * time.Second
)

// exitSkipped says that nothing was run, because nothing could be.
const exitSkipped = 77

var errNoEngine = errors.New("no container engine")

func main() {
	keep := flag.Bool("keep", false, "leave the containers of a failed run")
	long := flag.Bool("long", false, "pause nodes for "+longPause.String()+" instead of "+shortPause.String()+", and restart five as well as three")
	flag.Parse()
	pause := shortPause
	if *long {
		pause = longPause
	}
	err := run(*keep, pause)
	switch {
	case errors.Is(err, errNoEngine):
		fmt.Println("compose: skipped:", err)
		os.Exit(exitSkipped)
	case err != nil:
		fmt.Fprintln(os.Stderr, "compose: FAILED:", err)
		os.Exit(1)
	}
}

func run(keep bool, pause time.Duration) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := newProject(ctx, pause)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			p.showLogs()
			if keep {
				fmt.Fprintln(os.Stderr, "compose: the containers are kept in project", p.name)
				return
			}
		}
		err = errors.Join(err, p.remove())
	}()
	p.load = newLoad(p)
	defer p.load.Stop()
	return harness.Play(ctx, p, "", []harness.Scenario[*project]{
		{Name: "three nodes come up behind the balancer", Run: comeUp},
		{Name: "the leader's container is killed", Run: killLeader},
		{Name: "the leader's container is paused", Run: pauseLeader},
		{Name: "a follower's container is paused", Run: pauseFollower},
		{Name: "the manual: look, move the leadership", Run: look},
		{Name: "the manual: restart or upgrade", Run: restartEach},
		{Name: "the manual: replace a disk", Run: replaceDisk},
		{Name: "all containers end, and are recreated under new addresses", Run: recreateAll},
		{Name: "the manual: grow to five", Run: growToFive},
		{Name: "measurements are collected", Run: measure},
		{Name: "the manual: change the secret", Run: changeSecret},
		{Name: "everything that was acknowledged is there", Run: verifyAll},
		{Name: "the manual: shrink", Run: shrink},
		{Name: "the manual: back up and restore", Run: restoreBackup},
		{Name: "the manual: go on with one node", Run: goOnWithOne},
		{Name: "the manual has no other procedures", Run: allFollowed},
	}...)
}
