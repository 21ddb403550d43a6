package simulation

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/memdir"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/nodetest"
)

var (
	firstSeed = flag.Uint64("seed", 0, "the first seed; 0 means the known ones, and those from 1 on")
	times     = flag.Int("times", 0, "how often to run the seed; 0 runs it and those that follow it, for -for")
	runFor    = flag.Duration("for", 2*time.Second, "how long to start further seeds, in CPU time; by the clock at most four times as long")
	length    = flag.Duration("length", 0, "virtual time of a run with faults; 0 means half a minute with whole nodes, and a minute without")
	verbose   = flag.Bool("log", false, "write the logs of all nodes to stderr")
)

// known is a seed that has found a bug.
type known struct {
	seed uint64
	bug  string
}

// found and foundByNodes are the seeds of TestSimulation and of TestNodes that have found
// something.
var (
	found = []known{
		{18, "a heartbeat sets the stored term back behind a vote"},
		{416, "a server gets a vote before it has the configuration: no leader"},
		{51000832, "a snapshot of a node's own ends after a newer one was installed (in one of 500 runs)"},
	}
	foundByNodes = []known{}
)

// TestSimulation runs clusters of Raft with the faults of several seeds. A failure shows the
// seed and the events of its run.
func TestSimulation(t *testing.T) {
	longtest.SkipShort(t, "the steps test and simulation run it")
	t.Parallel()
	dir := memdir.TempDir(t)
	runs := 0
	seeds(t, found, func(seed uint64, o *journal) {
		runs++
		simulate(t, seed, o, filepath.Join(dir, strconv.Itoa(runs)))
	})
}

// seeds makes runs with the seeds that the flags choose, until one finds a problem.
func seeds(t *testing.T, known []known, simulate func(seed uint64, o *journal)) {
	t.Helper()
	began, before, runs := time.Now(), spent(), 0
	run := func(seed uint64) {
		runs++
		hangs := time.AfterFunc(hangAfter, func() {
			debug.SetTraceback("all")
			panic(fmt.Sprintf("seed %d: virtual time stands still; a goroutine waits for a mutex that is held over a wait, or runs in a loop", seed))
		})
		defer hangs.Stop()
		o := &journal{}
		defer func() { // also if the run has ended the test
			if o.found() > 0 || t.Failed() {
				t.Fatalf("seed %d failed, after %d runs, %v, %v of CPU: -seed %d -times 20 runs it again\n%s", seed, runs, time.Since(began), spent()-before, seed, o)
			}
		}()
		leaving(func() { simulate(seed, o) })
	}
	if *times > 0 {
		for range *times {
			run(*firstSeed)
		}
		return
	}
	if *firstSeed == 0 {
		for _, k := range known {
			run(k.seed)
		}
	}
	for seed := max(*firstSeed, 1); spent()-before < *runFor && time.Since(began) < 4**runFor; seed++ {
		run(seed)
	}
	t.Logf("%d runs, %v, %v of CPU", runs, time.Since(began), spent()-before)
}

// spent returns the CPU time of the process.
func spent() time.Duration {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // cannot fail
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// leaving makes a run that may leave goroutines behind. Raft's goroutines that wait for an
// end of its main goroutine, or for an answer that never comes, do not end.
func leaving(simulate func()) {
	defer func() {
		if r := recover(); r != nil && !strings.Contains(fmt.Sprint(r), "main bubble goroutine has exited") {
			panic(r)
		}
	}()
	simulate()
}

// hangAfter is the time after which a run hangs. It takes a second or two on an idle machine.
const hangAfter = 8 * time.Minute

// simulate makes one run.
func simulate(t *testing.T, seed uint64, o *journal, dir string) {
	t.Helper()
	must.Do(t, os.Mkdir(dir, 0o700))
	defer func() { _ = os.RemoveAll(dir) }() // the directory above is removed, too
	nodetest.VirtualSeed(t, seed, func(t *testing.T) {
		t.Helper()
		c := must.Get(newCluster(seed, o, dir))(t)
		stop := make(chan struct{})
		var workers sync.WaitGroup
		workers.Go(func() { c.watch(stop) })
		workers.Go(func() { c.reconcile(stop) })
		for client := range clients {
			workers.Go(func() { c.write(client, stop) })
		}
		c.breakThings(cmp.Or(*length, raftLength))
		if c.found() == 0 {
			c.settle()
		}
		close(stop)
		workers.Wait()
		if c.found() == 0 {
			c.lastWrite()
		}
		time.Sleep(writeTimeout)
		if c.found() == 0 {
			c.checkEnd()
		}
		c.close()
		if testing.Verbose() {
			t.Logf("seed %d: %d acknowledged, %d failed, %d terms, %d applied", seed, len(c.acked), c.failed, len(c.leaders), len(c.applied))
		}
	})
}
