// Command soak runs three nodes for a long time at a small steady load, with all that an
// operator does to them at short intervals, and fails if what they hold grows: memory,
// descriptors, goroutines, files. scripts/soak.sh builds and runs it.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/commons-cluster/commons/scripts/bench"
	"github.com/commons-cluster/commons/scripts/harness"
)

// The load, and the time between two acts of the operator.
const (
	writeRate    = 50               // a second
	readRate     = 50               // a second, of each kind of read
	connections  = 8                // of each kind of request
	restartEvery = 5 * time.Minute  // of one node; the next time it is another's turn
	purgeEvery   = 10 * time.Minute // of one entry
	purgeAfter   = 2 * time.Minute  // so that each node is restarted at the same distance from a purge
)

// settings are those of the cluster. scripts/soak.sh builds a binary whose retention counts minutes
// for days.
var settings = []string{
	"retention=10d", "daily-bytes=0", "sender-bytes=0", "write-rate=0",
	"backup.every=5m", "backup.keep=3",
}

const (
	rowEvery    = restartEvery     // of the table: the least of its samples, which garbage and compactions do not lift
	sampleEvery = 10 * time.Second // at most
)

// soak is one run.
type soak struct {
	run     *harness.Run
	cluster *harness.Cluster
	begun   time.Time

	mu     sync.Mutex
	series map[string]*series // what was measured, by its name
	failed uint64             // requests without a good answer
}

func main() {
	length := flag.Duration("for", 100*time.Minute, "how long to run")
	harness.Main("soak", func(r *harness.Run) {
		s := &soak{run: r, series: map[string]*series{}}
		s.play(*length)
	})
}

func (s *soak) play(length time.Duration) {
	s.cluster = s.run.NewCluster("main", 3)
	s.cluster.Start()
	store := s.run.Path("store")
	harness.Must(os.Mkdir(store, 0o700))
	s.operate(append([]string{"settings", "set", "--yes", "backup.url=file://" + store}, settings...)...)
	if last := s.cluster.Nodes[len(s.cluster.Nodes)-1]; s.cluster.Leader() != last { // a leader needs more than others
		s.operate("raft", "transfer-leader", last.Name)
	}
	s.begun = time.Now()
	ctx, cancel := context.WithTimeout(s.run.Ctx, length)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx) // ends with the first that fails
	work := func(do func(ctx context.Context)) {
		group.Go(func() error { return harness.Try(func() { do(ctx) }) })
	}
	work(func(ctx context.Context) { s.load(ctx, bench.Write, writeRate) })
	for _, mode := range []bench.Mode{bench.List, bench.Search, bench.Home, bench.Poll} {
		work(func(ctx context.Context) { s.load(ctx, mode, readRate) })
	}
	work(s.sample)
	work(s.restart)
	work(s.purge)
	err := group.Wait()
	grew := s.report(length)
	harness.Must(errors.Join(err, s.run.Ctx.Err()))
	if grew > 0 {
		harness.Failf("%d measurements grow by more than %.0f %% over the last half", grew, 100*tolerated)
	}
}

// operate runs a command of an operator at the node that is never restarted.
func (s *soak) operate(args ...string) {
	harness.Got(harness.Operate(s.run.Ctx, s.cluster.Nodes[len(s.cluster.Nodes)-1:], args...))
}

// load sends requests at a rate, and notes their p99 for each row.
func (s *soak) load(ctx context.Context, mode bench.Mode, rate float64) {
	for ctx.Err() == nil {
		report, err := bench.Run(ctx, bench.Options{
			Mode: mode, URLs: s.cluster.URLs(), Connections: connections, Rate: rate, Duration: rowEvery,
		})
		if ctx.Err() != nil {
			return // the last row is not whole
		}
		harness.Must(err)
		s.mu.Lock()
		s.failed += report.Errors
		s.mu.Unlock()
		s.note(string(mode)+" p99 ms", report.Latency[string(mode)].P99, false)
		if mode == bench.Write {
			fmt.Printf("%v: p99 of writes %.1f ms\n", time.Since(s.begun).Round(time.Minute), report.Latency[string(mode)].P99)
		}
	}
}

// restart restarts all nodes but the last, by turns, each as soon as the one before is well. The
// last runs from the beginning to the end: it shows what a process keeps.
func (s *soak) restart(ctx context.Context) {
	for i := 0; s.pauseUntil(ctx, time.Duration(i+1)*restartEvery); i++ {
		n := s.cluster.Nodes[i%(len(s.cluster.Nodes)-1)]
		n.Terminate()
		s.note(n.Name+" pages of the log", usedPages(n), true)
		n.Start()
		harness.Must(s.cluster.WaitReady(harness.ReadyTimeout, n))
	}
}

// purge erases the newest entry now and then.
func (s *soak) purge(ctx context.Context) {
	for at := purgeAfter; s.pauseUntil(ctx, at); at += purgeEvery {
		n := s.cluster.Nodes[len(s.cluster.Nodes)-1]
		var newest struct{ Entries []struct{ ID string } }
		harness.Must(n.Do("GET", "/api/entries?limit=1", nil, &newest))
		s.operate("mod", "purge", newest.Entries[0].ID, "--reason", "soak", "--yes")
	}
}

// sample measures the nodes that run.
func (s *soak) sample(ctx context.Context) {
	last := s.cluster.Nodes[len(s.cluster.Nodes)-1]
	for at := sampleEvery; s.pauseUntil(ctx, at); at += sampleEvery {
		for _, n := range s.cluster.Nodes {
			values, err := measure(n)
			if err != nil {
				if n == last {
					harness.Must(err)
				}
				continue // it is restarted
			}
			for name, value := range values {
				// A node that was restarted has taken what it needs only after a while.
				if n == last || name == diskBytes {
					s.note(n.Name+" "+name, value, true)
				}
			}
		}
	}
}

// note adds a measurement to its series. What is judged must not grow.
func (s *soak) note(name string, value float64, judged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.series[name] == nil {
		s.series[name] = &series{judged: judged, least: map[int]float64{}}
	}
	s.series[name].add(int(time.Since(s.begun)/rowEvery), value)
}

// report prints every measurement, as a table and as CSV, and returns how many grew.
func (s *soak) report(length time.Duration) (grew int) {
	rows := int(min(length, time.Since(s.begun)) / rowEvery)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "most in first half\tin last half\tgrowth over the last half\t\t")
	for _, name := range slices.Sorted(maps.Keys(s.series)) {
		one := s.series[name]
		growth, verdict := one.growth(rows/2, rows), ""
		before, most := one.largest(0, rows/2), one.largest(rows/2, rows)
		if one.judged && growth > tolerated && most > (1+tolerated)*before { // a saw rises, too
			verdict, grew = "GROWS", grew+1
		}
		fmt.Fprintf(table, "%.4g\t%.4g\t%+.1f %%\t %s\t%s\n", before, most, 100*growth, name, verdict)
	}
	_ = table.Flush()
	fmt.Printf("%d requests had no good answer\n", s.failed)
	harness.Must(s.writeCSV(rows))
	return grew
}

func (s *soak) writeCSV(rows int) error {
	w := csv.NewWriter(os.Stdout)
	names := slices.Sorted(maps.Keys(s.series))
	_ = w.Write(append([]string{"minute"}, names...))
	for i := range rows {
		line := append(make([]string, 0, 1+len(names)), strconv.Itoa(int((time.Duration(i) * rowEvery).Minutes())))
		for _, name := range names {
			cell := ""
			if value, ok := s.series[name].least[i]; ok {
				cell = strconv.FormatFloat(value, 'g', 6, 64)
			}
			line = append(line, cell)
		}
		_ = w.Write(line)
	}
	w.Flush()
	return w.Error()
}

// pauseUntil waits for an instant of the run, and reports whether it goes on. A pause after each act
// would shift the restarts against the purges, which cut the log.
func (s *soak) pauseUntil(ctx context.Context, at time.Duration) bool {
	return harness.Pause(ctx, time.Until(s.begun.Add(at)))
}
