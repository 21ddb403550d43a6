// Package harness has the common parts of the programs that test a built binary from
// outside (scripts/chaos, clients and others). It starts real nodes as processes on the
// loopback address, and calls them. It uses only the flags and the interfaces of the product.
//
// Every wait has a deadline and ends with the run (Eventually). A scenario ends at the
// first error that it gives to Must, as a test does with Fatal. A node has no write limits,
// unless its flags say otherwise. After a failure WriteLogs shows the end of each node's
// log. The logs are beside the data directories, in the directory of the run. Ports come
// from freeport and stay with a node over restarts.
package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/internal/await"
)

// Deadlines of waits, with room for a busy machine.
const (
	ReadyTimeout   = 60 * time.Second // a node, or a leader
	ReplaceTimeout = 90 * time.Second // a node that takes the place of another
	ExitTimeout    = 30 * time.Second
	PollEvery      = 50 * time.Millisecond
)

// Run is one run of a test program: its binary, its directory, and every node that
// it prepared.
type Run struct {
	Ctx    context.Context
	Binary string
	Dir    string
	HTTP   *http.Client // of the calls to nodes
	Only   string       // name of the scenario to play; empty means all

	nodes  []*Node
	played bool // a scenario
}

// NewRun prepares a run. The directory is for data and logs; it is made when
// something is put into it, and stays.
func NewRun(ctx context.Context, binary, dir string) *Run {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	return &Run{Ctx: ctx, Binary: binary, Dir: dir, HTTP: &http.Client{Timeout: CallTimeout, Transport: transport}}
}

// ErrSkipped is the error of a run that this machine cannot carry out. The program exits with
// exitSkipped.
var ErrSkipped = errors.New("skipped")

const exitSkipped = 77

// Main is the main function of a program called name: it reads the flags, also those that
// the program has defined, plays a run with the binary and exits. Must and Ctrl-C end the
// run.
func Main(name string, play func(r *Run)) {
	r := NewRun(context.Background(), "", "")
	flag.StringVar(&r.Binary, "binary", "", "the commons binary")
	flag.StringVar(&r.Dir, "dir", "", "directory for data and logs")
	flag.Parse()
	if r.Binary == "" || r.Dir == "" {
		fmt.Fprintf(os.Stderr, "%s: -binary and -dir are needed; scripts/%[1]s.sh gives them\n", name)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(r.Ctx, os.Interrupt, syscall.SIGTERM)
	r.Ctx = ctx
	err := Try(func() {
		defer r.End()
		play(r)
		if r.Only != "" && !r.played {
			Failf("no scenario has the name %q", r.Only)
		}
	})
	stop()
	if errors.Is(err, ErrSkipped) {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(exitSkipped)
	}
	if err != nil {
		r.WriteLogs(os.Stderr)
		fmt.Fprintf(os.Stderr, "%s: FAILED: %v\n", name, err)
		os.Exit(1)
	}
}

// End kills whatever still runs.
func (r *Run) End() {
	for _, n := range r.nodes {
		if n.Running() {
			n.Kill()
		}
	}
}

// WriteLogs writes the end of each node's log.
func (r *Run) WriteLogs(w io.Writer) {
	for _, n := range r.nodes {
		if _, err := os.Stat(n.Log); err != nil {
			continue // never started
		}
		fmt.Fprintf(w, "-- the end of %s:\n%s\n", n.Log, n.LogTail())
	}
}

// Path is a path in the directory of this run.
func (r *Run) Path(parts ...string) string {
	return filepath.Join(append([]string{r.Dir}, parts...)...)
}

// Eventually tries until it works, see await.Until.
func (r *Run) Eventually(timeout time.Duration, try func() error) error {
	return await.Until(r.Ctx, timeout, PollEvery, try)
}

// Environment is this process's environment without the variables that configure a node.
func Environment() []string {
	var kept []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "COMMONS_") {
			kept = append(kept, v)
		}
	}
	return kept
}

// failure ends a scenario that cannot continue.
type failure struct{ error }

// Must ends the scenario that calls it in its own goroutine, unless err is nil.
func Must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Failf is Must for an error that is made here.
func Failf(format string, args ...any) { Must(fmt.Errorf(format, args...)) }

// Got is Must for a call with a result.
func Got[T any](result T, err error) T {
	Must(err)
	return result
}

// Try runs a function that calls Must, and returns the error that it failed with.
func Try(run func()) (err error) {
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case failure:
			err = failed.error
		default:
			panic(failed)
		}
	}()
	run()
	return nil
}

// Scenario is one thing to check with what all scenarios of a list share. It ends
// with Must.
type Scenario[T any] struct {
	Name string
	Run  func(T)
}

// Play runs scenarios one after the other until one fails, and prints how long each
// took. If r.Only is not empty, it runs the scenario of that name alone.
func Play[T any](r *Run, shared T, scenarios ...Scenario[T]) {
	for _, s := range scenarios {
		if r.Only != "" && r.Only != s.Name {
			continue
		}
		Must(r.Ctx.Err())
		r.played = true
		fmt.Fprintf(os.Stdout, "-- %s\n", s.Name)
		start := time.Now()
		if err := Try(func() { s.Run(shared) }); err != nil {
			Failf("%s: %w", s.Name, err)
		}
		fmt.Fprintf(os.Stdout, "ok %s (%.1f s)\n", s.Name, time.Since(start).Seconds())
	}
}

// Pause waits until a time is over or the context ends, and reports whether ctx has not ended.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}
