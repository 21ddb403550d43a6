// Package bench measures a running cluster over HTTP. In a closed loop, each connection
// sends its next request when the last one is answered. In an open loop, requests are due
// at a rate.
package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// Bounds of the options.
const (
	MaxConnections = 10_000
	MinSize        = 40   // bytes of a body; room for what makes it unique
	MaxSize        = 5000 // bytes of a body; the service takes no more characters
)

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
	Wait   Mode = "wait"   // wait at home for entries to one agent each, while a few others write to them
)

// Options are the flags of `commons bench`.
type Options struct {
	Mode        Mode          `arg:"" enum:"write,list,search,home,poll,mixed,wait" help:"What to send: write, list, search, home, poll (lists and homes with the entity tag of the answer before), mixed (seven lists, two searches and one write of ten) or wait (home calls that are held, and writes that wake them)."`
	URLs        []string      `name:"url" sep:"," default:"http://127.0.0.1:8080" placeholder:"URL" help:"Nodes that the connections are divided among."`
	Connections int           `name:"connections" default:"64" placeholder:"N" help:"Connections, each with one request under way."`
	Duration    time.Duration `name:"duration" default:"10s" placeholder:"DURATION" help:"How long to measure."`
	Rate        float64       `name:"rate" default:"0" placeholder:"N" help:"Requests a second, due whether or not earlier ones are answered; they wait for a connection if need be. 0: each connection sends when its last request is answered."`
	Size        int           `name:"size" default:"1000" placeholder:"BYTES" help:"Bytes of a written body."`
	Fill        int           `name:"fill" default:"0" placeholder:"N" help:"Entries to publish before measuring."`
	Surfaces    []Surface     `name:"surface" sep:"," default:"http" placeholder:"SURFACE" help:"How to write: http, a2a or mcp; several in turn with commas."`
	PID         int           `name:"pid" default:"0" placeholder:"PID" help:"Report the most memory that this process takes."`
	AllowRemote bool          `name:"allow-remote" help:"Load nodes on other machines, too."`
}

// Validate returns nil, or all problems joined.
func (o Options) Validate() error {
	_, err := o.targets()
	var problems []error
	if o.Connections < 1 || o.Connections > MaxConnections {
		problems = append(problems, fmt.Errorf("--connections: %d is not between 1 and %d", o.Connections, MaxConnections))
	}
	if o.Duration <= 0 {
		problems = append(problems, fmt.Errorf("--duration: %v is not above zero", o.Duration))
	}
	if o.Rate < 0 || o.Rate > 0 && o.Mode == Wait {
		problems = append(problems, fmt.Errorf("--rate: %v is below zero, or the mode is %s, which has none", o.Rate, Wait))
	}
	if o.Size < MinSize || o.Size > MaxSize {
		problems = append(problems, fmt.Errorf("--size: %d is not between %d and %d", o.Size, MinSize, MaxSize))
	}
	if o.Fill < 0 {
		problems = append(problems, fmt.Errorf("--fill: %d is below zero", o.Fill))
	}
	if o.PID != 0 {
		if _, err := anonymousMemory(o.PID); err != nil {
			problems = append(problems, fmt.Errorf("--pid: the memory of %d cannot be read: %w", o.PID, err))
		}
	}
	return errors.Join(append(problems, o.surfaceProblem(), err)...)
}

func (o Options) targets() ([]*url.URL, error) {
	var targets []*url.URL
	var problems []error
	if len(o.URLs) == 0 {
		problems = append(problems, errors.New("--url: name at least one node"))
	}
	for _, raw := range o.URLs {
		u, err := url.Parse(raw)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("--url: %w", err))
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			problems = append(problems, fmt.Errorf("--url: %q is not http://host:port", raw))
		case !o.AllowRemote && !loopback(u.Hostname()):
			problems = append(problems, fmt.Errorf("--url: %s is not on this machine; --allow-remote loads it anyway", raw))
		default:
			targets = append(targets, u)
		}
	}
	return targets, errors.Join(problems...)
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// Run measures until the duration is over or ctx ends. It fails if the options are invalid,
// or if no request was answered.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	targets, _ := o.targets() // Validate has checked them
	// Marks of different runs differ, so that bodies never repeat.
	run := "bench-" + strconv.FormatInt(time.Now().UnixMicro(), 36) + strconv.Itoa(os.Getpid())
	if o.Fill > 0 {
		fill := o
		fill.Mode, fill.Rate = Write, 0
		if err := fill.fill(ctx, targets, run+"f"); err != nil {
			return nil, err
		}
	}
	watching, stop := context.WithCancel(context.Background())
	defer stop()
	memory := make(chan float64, 1)
	go func() { memory <- peakMemory(watching, o.PID) }()
	report, err := o.measure(ctx, targets, run)
	if err != nil {
		return nil, err
	}
	stop()
	report.PeakRSSAnonMB = <-memory
	if report.Requests == 0 {
		return report, fmt.Errorf("no request was answered: %s", report.firstError())
	}
	return report, nil
}

func (o Options) measure(ctx context.Context, targets []*url.URL, run string) (*Report, error) {
	if o.Mode == Wait {
		return o.wait(ctx, targets, run)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Duration)
	defer cancel()
	start := time.Now()
	workers := o.start(ctx, targets, run, nil)
	return summarize(o, workers, time.Since(start)), nil
}

// fill publishes o.Fill entries and fails when one of them is rejected.
func (o Options) fill(ctx context.Context, targets []*url.URL, run string) error {
	var left atomic.Int64
	left.Store(int64(o.Fill))
	report := summarize(o, o.start(ctx, targets, run, &left), time.Second)
	if report.Errors > 0 {
		return fmt.Errorf("filling with %d entries: %s", o.Fill, report.firstError())
	}
	return ctx.Err()
}

// start runs all connections to their end. left bounds their requests; nil means no bound.
func (o Options) start(ctx context.Context, targets []*url.URL, run string, left *atomic.Int64) []*worker {
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
	var transport *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &certificate):
		return "certificate"
	case errors.As(err, &transport), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, fasthttp.ErrConnectionClosed):
		return "broken connection"
	}
	return "malformed"
}
