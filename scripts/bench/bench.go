// Package bench measures a running cluster over HTTP. In a closed loop, each connection
// sends its next request when the last one is answered. In an open loop, requests are due
// at a rate.
package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// bodySize is the size of a written body in bytes.
const bodySize = 1000

// Mode names the requests that the connections send.
type Mode string

// The modes.
const (
	Write  Mode = "write"  // publish entries
	List   Mode = "list"   // read the newest 50 of all entries or of one channel
	Search Mode = "search" // search two words, sometimes within one channel
	Home   Mode = "home"   // read the home of one agent for each connection; Fill with as many connections writes as these agents
	Poll   Mode = "poll"   // by turns a list of 50 and home, each with the entity tag of the answer before
	Mixed  Mode = "mixed"  // of ten requests seven lists, two searches and one write
)

// Options select a measurement.
type Options struct {
	Mode        Mode
	URLs        []string // nodes that the connections are divided among
	Connections int
	Duration    time.Duration
	Rate        float64 // requests a second in an open loop; 0 means a closed loop
	Fill        int     // entries to publish before measuring
	MCP         bool    // write by the tool interface
	PID         int     // process whose memory is reported, or 0
}

// targets returns host and port of each node.
func (o Options) targets() (targets []string, err error) {
	for _, raw := range o.URLs {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" || u.Port() == "" {
			return nil, fmt.Errorf("%q is not http://host:port", raw)
		}
		targets = append(targets, u.Host)
	}
	if len(targets) == 0 || o.Connections < 1 || o.Duration <= 0 {
		return nil, errors.New("bench needs nodes, connections and a duration")
	}
	return targets, nil
}

// Run measures until the duration is over or ctx ends. It fails if no request was answered.
func Run(ctx context.Context, o Options) (*Report, error) {
	targets, err := o.targets()
	if err != nil {
		return nil, err
	}
	// Marks of different runs differ, so that bodies never repeat.
	run := "bench-" + strconv.FormatInt(time.Now().UnixMicro(), 36) + strconv.Itoa(os.Getpid())
	if o.Fill > 0 {
		fill := o
		fill.Mode, fill.Rate = Write, 0
		var left atomic.Int64
		left.Store(int64(o.Fill))
		filled := summarize(fill, fill.start(ctx, targets, run+"f", &left), time.Second)
		if filled.Errors > 0 {
			return nil, fmt.Errorf("filling with %d entries: %v, %v", o.Fill, filled.Statuses, filled.Failures)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	watching, stop := context.WithCancel(context.Background())
	defer stop()
	memory := make(chan float64, 1)
	go func() { memory <- peakMemory(watching, o.PID) }()
	measured, end := context.WithTimeout(ctx, o.Duration)
	defer end()
	start := time.Now()
	workers := o.start(measured, targets, run, nil)
	report := summarize(o, workers, time.Since(start))
	stop()
	report.PeakRSSAnonMB = <-memory
	if report.Requests == 0 {
		return report, fmt.Errorf("no request was answered: %v", report.Failures)
	}
	return report, nil
}

// start runs all connections to their end. left bounds their requests; nil means no bound.
func (o Options) start(ctx context.Context, targets []string, run string, left *atomic.Int64) []*worker {
	workers := make([]*worker, o.Connections)
	var group sync.WaitGroup
	for i := range workers {
		workers[i] = newWorker(o, targets, run, i, left)
		group.Go(func() { workers[i].loop(ctx) })
	}
	group.Wait()
	return workers
}

func errorKind(err error) string {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	}
	return "broken connection"
}
