package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// Limits for thousands of waiting calls.
const (
	waiters      = 5000
	waitersMB    = 300  // RssAnon of the node that holds them
	filesForRest = 1000 // that a process opens in addition to one for each waiter
)

// measured is the part of a `commons bench` report that is checked.
type measured struct {
	Requests, Errors  uint64
	RequestsPerSecond float64
	Held              int64
	PeakRSSAnonMB     float64
	LatencyMs         map[string]struct{ P50, P99 float64 }
}

// measure runs `commons bench`, which must see no error.
func measure(c *harness.Cluster, mode string, args ...string) (m measured) {
	code, out, errs := c.Run.Command(nil, append([]string{"bench", mode, "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &m); err != nil || code != 0 {
		harness.Failf("exit code %d, %s%s", code, out, errs)
	}
	if m.Requests == 0 || m.Errors != 0 {
		harness.Failf("report %s", out)
	}
	return m
}

// benchRuns measures for a moment, and fails if there is an error.
func benchRuns(c *harness.Cluster) {
	report := measure(c, "mixed", "--fill", "200", "--duration", "2s", "--url", strings.Join(c.URLs(), ","))
	fmt.Printf("   %.0f mixed requests a second\n", report.RequestsPerSecond)
}

// thousandsWait has thousands of agents wait at home on one node, and wakes some of them
// all the time.
func thousandsWait(c *harness.Cluster) {
	if !filesFor(waiters) {
		return
	}
	node := c.Nodes[0]
	report := measure(c, "wait", "--connections", strconv.Itoa(waiters), "--duration", "2s", "--url", node.URL, "--pid", strconv.Itoa(node.PID()))
	wake := report.LatencyMs["wake"]
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
	list := func() measured {
		return measure(c, "list", "--connections", "16", "--duration", "5s", "--url", node.URL)
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
		slowConns, slices.Max(lasted).Seconds(), alone.LatencyMs["list"].P99, beside.LatencyMs["list"].P99)
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
