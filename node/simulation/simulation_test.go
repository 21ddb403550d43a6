package simulation

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/memdir"
)

var (
	firstSeed = flag.Uint64("seed", 0, "the first seed; 0 means the known ones, and those from 1 on")
	times     = flag.Int("times", 0, "how often to run the seed; 0 runs it and those that follow it, for -for")
	runFor    = flag.Duration("for", 2*time.Second, "how long to start further seeds")
	length    = flag.Duration("length", time.Minute, "virtual time of a run with faults")
	verbose   = flag.Bool("log", false, "write the logs of all nodes to stderr")
)

// found are the seeds that have found something.
var found = []struct {
	seed uint64
	bug  string
}{
	{18, "a heartbeat sets the stored term back behind a vote"},
}

// TestSimulation runs clusters with the faults of several seeds. A failure shows the seed
// and the events of its run.
func TestSimulation(t *testing.T) {
	t.Parallel()
	began, runs := time.Now(), 0
	dir := memdir.TempDir(t)
	run := func(seed uint64) {
		runs++
		o := simulate(t, seed, filepath.Join(dir, strconv.Itoa(runs)))
		if len(o.problems) == 0 {
			return
		}
		var log strings.Builder
		for _, e := range o.events {
			fmt.Fprintf(&log, "%14v %s\n", e.at, e.text)
		}
		t.Fatalf("seed %d failed, after %d runs and %v: -seed %d -times 20 runs it again\n%s\n%s",
			seed, runs, time.Since(began), seed, strings.Join(o.problems[:min(len(o.problems), maxProblems)], "\n"), log.String())
	}
	switch {
	case *times > 0:
		for range *times {
			run(*firstSeed)
		}
	default:
		if *firstSeed == 0 {
			for _, f := range found {
				run(f.seed)
			}
		}
		for seed := max(*firstSeed, 1); time.Since(began) < *runFor; seed++ {
			run(seed)
		}
	}
	t.Logf("%d runs in %v", runs, time.Since(began))
}

// hangAfter is the time after which a run hangs. It takes about a second.
const hangAfter = 2 * time.Minute

// simulate makes one run.
func simulate(t *testing.T, seed uint64, dir string) (o *journal) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // the directory above is removed, too
	hangs := time.AfterFunc(hangAfter, func() {
		panic(fmt.Sprintf("seed %d: virtual time stands still; a goroutine waits for a mutex that is held over a wait, or runs in a loop", seed))
	})
	defer hangs.Stop()
	// Raft's goroutines that wait for an end of its main goroutine, or for an answer that
	// never comes, do not end. They stay behind.
	defer func() {
		if r := recover(); r != nil && !strings.Contains(fmt.Sprint(r), "main bubble goroutine has exited") {
			panic(r)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		c, err := newCluster(seed, dir)
		if err != nil {
			t.Fatal(err)
		}
		o = &c.journal
		stop := make(chan struct{})
		var workers sync.WaitGroup
		workers.Go(func() { c.watch(stop) })
		workers.Go(func() { c.reconcile(stop) })
		for client := range clients {
			workers.Go(func() { c.write(client, stop) })
		}
		c.breakThings(*length)
		if c.found() == 0 {
			c.settle()
		}
		close(stop)
		workers.Wait()
		time.Sleep(writeTimeout)
		if c.found() == 0 {
			c.checkEnd()
		}
		c.close()
		if testing.Verbose() {
			t.Logf("seed %d: %d acknowledged, %d failed, %d terms, %d applied", seed, len(c.acked), c.failed, len(c.leaders), len(c.applied))
		}
	})
	return o
}
