package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// What thousands of waiting calls are held against.
const (
	waiters      = 5000
	waitersMB    = 300  // RssAnon of the node that holds them
	filesForRest = 1000 // that a process opens beside one for each waiter
)

// measured is what is looked at of a report of `commons bench`.
type measured struct {
	Requests, Errors  uint64
	RequestsPerSecond float64
	Held              int64
	PeakRSSAnonMB     float64
	LatencyMs         map[string]struct{ P50, P99 float64 }
}

// measure runs `commons bench`, which must see no error.
func (c *cluster) measure(mode string, args ...string) (m measured, err error) {
	code, out, errs, err := c.Run.Command(nil, append([]string{"bench", mode, "--json"}, args...)...)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal([]byte(out), &m); err != nil || code != 0 {
		return m, fmt.Errorf("exit code %d, %s%s", code, out, errs)
	}
	if m.Requests == 0 || m.Errors != 0 {
		return m, fmt.Errorf("report %s", out)
	}
	return m, nil
}

// benchRuns measures for a moment, and wants no error.
func benchRuns(c *cluster) error {
	urls := make([]string, len(c.Nodes))
	for i, p := range c.Nodes {
		urls[i] = p.URL
	}
	report, err := c.measure("mixed", "--fill", "200", "--duration", "2s", "--url", strings.Join(urls, ","))
	if err != nil {
		return err
	}
	fmt.Printf("   %.0f mixed requests a second\n", report.RequestsPerSecond)
	return nil
}

// thousandsWait has thousands of agents wait at home on one node, and some of them
// woken all the time.
func thousandsWait(c *cluster) error {
	if !filesFor(waiters) {
		return nil
	}
	node := c.Nodes[0]
	report, err := c.measure("wait", "--connections", strconv.Itoa(waiters), "--duration", "2s", "--url", node.URL, "--pid", strconv.Itoa(node.PID()))
	if err != nil {
		return err
	}
	wake := report.LatencyMs["wake"]
	fmt.Printf("   %d calls held in %.0f MB, woken after %.1f ms (p50), %.1f ms (p99)\n", report.Held, report.PeakRSSAnonMB, wake.P50, wake.P99)
	if report.Held < waiters*99/100 || report.PeakRSSAnonMB > waitersMB || wake.P50 == 0 {
		return fmt.Errorf("wanted %d calls held in %d MB, and some of them woken", waiters, waitersMB)
	}
	return nil
}

// filesFor reports whether a process may open so many connections here, and says so
// where it may not.
func filesFor(conns uint64) bool {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Max < conns+filesForRest {
		fmt.Printf("   left out: a process may open %d files here\n", files.Max)
		return false
	}
	return true
}
