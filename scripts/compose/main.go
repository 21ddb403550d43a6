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
)

// Deadlines of what is waited for, with room for a machine that does more.
const (
	readyTimeout   = 60 * time.Second
	replaceTimeout = 90 * time.Second
	commandTimeout = 3 * time.Minute
	cleanupTimeout = 2 * time.Minute
	pollEvery      = 100 * time.Millisecond
)

// How long a node is paused: longer than maxGap, and than gossip needs to miss it.
const (
	shortPause = 25 * time.Second
	longPause  = 60 * time.Second
)

// exitSkipped tells the caller that nothing was run, because nothing could be.
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
	l := newLoad(p)
	defer l.stop()
	for _, s := range []struct {
		name string
		run  func(*project, *load) error
	}{
		{"three nodes come up behind the balancer", comeUp},
		{"the leader's container is killed", killLeader},
		{"the leader's container is paused", pauseLeader},
		{"a follower's container is paused", pauseFollower},
		{"the manual: look, move the leadership", look},
		{"the manual: restart or upgrade", restartEach},
		{"the manual: replace a disk", replaceDisk},
		{"all containers end, and are recreated under new addresses", recreateAll},
		{"the manual: grow to five", growToFive},
		{"measurements are collected", measure},
		{"the manual: change the secret", changeSecret},
		{"everything that was acknowledged is there", verifyAll},
		{"the manual: shrink", shrink},
		{"the manual: back up and restore", restoreBackup},
		{"the manual: go on with one node", goOnWithOne},
		{"the manual has no other procedures", allFollowed},
	} {
		fmt.Printf("-- %s\n", s.name)
		start := time.Now()
		if err := s.run(p, l); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("ok %s (%.1f s)\n", s.name, time.Since(start).Seconds())
	}
	return nil
}
