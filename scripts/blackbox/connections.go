package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/bench"
	"github.com/commons-cluster/commons/scripts/harness"
)

// Limits for thousands of waiting calls.
const (
	waiters      = 5000
	waitersMB    = 300  // RssAnon of the node that holds them
	filesForRest = 1000 // that a process opens in addition to one for each waiter
)

// measure measures, and must see no error.
func measure(o bench.Options) *bench.Report {
	o.Size = 1000
	report, err := bench.Run(context.Background(), o)
	harness.Must(err)
	if report.Errors != 0 {
		harness.Failf("report %+v", report)
	}
	return report
}

// benchRuns measures for a moment, and fails if there is an error.
func benchRuns(c *harness.Cluster) {
	report := measure(bench.Options{Mode: bench.Mixed, URLs: c.URLs(), Connections: 16, Fill: 200, Duration: 2 * time.Second})
	fmt.Printf("   %.0f mixed requests a second\n", report.RequestsPerSecond)
}

// thousandsWait has thousands of agents wait at home on one node, and wakes some of them
// all the time.
func thousandsWait(c *harness.Cluster) {
	if !filesFor(waiters) {
		return
	}
	node := c.Nodes[0]
	report := measure(bench.Options{Mode: bench.Wait, URLs: []string{node.URL}, Connections: waiters, Duration: 2 * time.Second, PID: node.PID()})
	wake := report.Latency["wake"]
	fmt.Printf("   %d calls held in %.0f MB, woken after %.1f ms (p50), %.1f ms (p99)\n", report.Held, report.PeakRSSAnonMB, wake.P50, wake.P99)
	if report.Held < waiters*99/100 || report.PeakRSSAnonMB > waitersMB || wake.P50 == 0 {
		harness.Failf("wanted %d calls held in %d MB, and some of them woken", waiters, waitersMB)
	}
}

// filesFor reports whether a process may open that many connections here, and prints a
// note if it may not.
func filesFor(conns uint64) bool {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Max < conns+filesForRest {
		fmt.Printf("   left out: a process may open %d files here\n", files.Max)
		return false
	}
	return true
}

const (
	slowConns = 5000
	// slowPause is the pause between two bytes of a request that never ends.
	slowPause = time.Second
	// slowClosed is how long the node may take to close such a connection, and
	// slowPatience what a busy machine may add.
	slowClosed   = 10 * time.Second
	slowPatience = 20 * time.Second
)

// slowClients has thousands of clients that send a request byte by byte, and looks
// at what the others see meanwhile. The node has to close all of them.
func slowClients(c *harness.Cluster) {
	if !c.Run.Long || !filesFor(slowConns) {
		return
	}
	node := c.Nodes[0]
	list := func() *bench.Report {
		return measure(bench.Options{Mode: bench.List, URLs: []string{node.URL}, Connections: 16, Duration: 5 * time.Second})
	}
	alone := list()
	ctx, cancel := context.WithTimeout(context.Background(), slowClosed+slowPatience)
	defer cancel()
	var wg sync.WaitGroup
	lasted, failed := make([]time.Duration, slowConns), make([]error, slowConns)
	for i := range slowConns {
		wg.Go(func() { lasted[i], failed[i] = dribble(ctx, node.HTTP) })
	}
	beside := list()
	wg.Wait()
	harness.Must(errors.Join(failed...))
	fmt.Printf("   %d slow connections, the last closed after %.1f s; lists took %.2f ms (p99), beside them %.2f ms\n",
		slowConns, slices.Max(lasted).Seconds(), alone.Latency["list"].P99, beside.Latency["list"].P99)
}

// dribble sends a request byte by byte until the other side closes the connection,
// and returns how long that took. It fails when ctx ends first.
func dribble(ctx context.Context, addr string) (time.Duration, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	start := time.Now()
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn) // to the end of the connection
		close(closed)
	}()
	tick := time.NewTicker(slowPause)
	defer tick.Stop()
	const request = "GET /api/entries HTTP/1.1\r\nX-Long: "
	for sent := 0; ; sent++ {
		if _, err := conn.Write([]byte{(request + "a")[min(sent, len(request))]}); err != nil {
			return time.Since(start), nil
		}
		select {
		case <-tick.C:
		case <-closed:
			return time.Since(start), nil
		case <-ctx.Done():
			return 0, fmt.Errorf("a slow connection was still open after %v", time.Since(start).Round(time.Second))
		}
	}
}
