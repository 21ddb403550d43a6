package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/internal/must"
)

// recorder is a server that records its requests.
type recorder struct {
	mu     sync.Mutex
	bodies map[string]int // of publications
	paths  map[string]int // of reads
	conns  atomic.Int64
	served atomic.Int64 // requests
	answer http.HandlerFunc
}

// seen returns the number of different bodies and paths.
func (r *recorder) seen() (bodies, paths int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.bodies), len(r.paths)
}

// sawPath reports whether a path with this part was read.
func (r *recorder) sawPath(part string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(slices.Collect(maps.Keys(r.paths)), func(path string) bool { return strings.Contains(path, part) })
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	if req.Method == http.MethodPost {
		var entry struct{ Body, Title, Channel, Agent string }
		if err := json.NewDecoder(req.Body).Decode(&entry); err != nil {
			entry.Body = "undecodable: " + err.Error()
		}
		r.bodies[entry.Body]++
	} else {
		r.paths[req.URL.RequestURI()]++
	}
	r.mu.Unlock()
	r.served.Add(1)
	if r.answer != nil {
		r.answer(w, req)
		return
	}
	if req.Method == http.MethodPost {
		w.WriteHeader(http.StatusCreated)
	}
	fmt.Fprint(w, `{"entries":[]}`)
}

func newRecorder(t *testing.T, answer http.HandlerFunc) (*recorder, string) {
	t.Helper()
	r := &recorder{bodies: map[string]int{}, paths: map[string]int{}, answer: answer}
	server := httptest.NewUnstartedServer(r)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			r.conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return r, server.URL
}

// testDuration ends a measurement in a test that runUntil does not end.
const testDuration = time.Minute

func options(mode Mode, urls ...string) Options {
	return Options{Mode: mode, URLs: urls, Connections: 4, Duration: testDuration}
}

// runUntil measures until enough reports true, so that a test does not depend on the
// speed of the machine.
func runUntil(t *testing.T, o Options, enough func() bool) (*Report, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil && !enough() {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	return Run(ctx, o)
}

// mustRun is runUntil for a measurement that succeeds.
func mustRun(t *testing.T, o Options, enough func() bool) *Report {
	t.Helper()
	report := must.Get(runUntil(t, o, enough))(t)
	return report
}

// repeated is a number of requests of which one connection has sent at least two: its
// first one is in the report.
const repeated = 5

func TestWriteSendsUniqueBodiesOverKeptConnections(t *testing.T) {
	first, firstURL := newRecorder(t, nil)
	second, secondURL := newRecorder(t, nil)
	report := mustRun(t, options(Write, firstURL, secondURL), func() bool {
		return first.conns.Load() == 2 && second.conns.Load() == 2 && first.served.Load()+second.served.Load() > 20
	})
	sent := uint64(0)
	for _, r := range []*recorder{first, second} {
		r.mu.Lock()
		for body, times := range r.bodies {
			sent++
			if times != 1 || len(body) != bodySize {
				t.Fatalf("body %q of %d bytes was sent %d times", body, len(body), times)
			}
		}
		r.mu.Unlock()
		check.Equal(t, r.conns.Load(), 2, "connections to one of two nodes")
	}
	// The last request of each connection may be cut off by the end.
	if report.Statuses["201"] == 0 || report.Statuses["201"] > sent || sent > report.Statuses["201"]+4 {
		t.Errorf("reported %v, the servers saw %d", report.Statuses, sent)
	}
	check.Equal(t, report.Errors, 0, "report %+v: errors", report)
	check.Equal(t, report.Latency["write"].Requests, report.Requests, "report %+v: requests", report)
}

func TestModes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode          Mode
		writes, reads bool
		query         string
	}{
		{Write, true, false, ""},
		{List, false, true, "?limit=50"},
		{Search, false, true, "?q="},
		{Mixed, true, true, "?q="},
	} {
		t.Run(string(tc.mode), func(t *testing.T) {
			r, base := newRecorder(t, nil)
			report := mustRun(t, options(tc.mode, base), func() bool {
				bodies, paths := r.seen()
				return r.served.Load() >= repeated && (bodies > 0 || !tc.writes) && (paths > 0 || !tc.reads) && (!tc.reads || r.sawPath(tc.query))
			})
			r.mu.Lock()
			defer r.mu.Unlock()
			if (len(r.bodies) > 0) != tc.writes || (len(r.paths) > 0) != tc.reads {
				t.Errorf("%d different writes, %d different reads", len(r.bodies), len(r.paths))
			}
			for path := range r.paths {
				u, err := url.ParseRequestURI(path)
				if err != nil || u.Path != "/api/entries" || u.Query().Get("limit") != "50" {
					t.Errorf("asked for %q: %v", path, err)
				}
			}
			if _, ok := report.Latency[all]; ok != (tc.mode == Mixed) {
				t.Errorf("latencies %v", report.Latency)
			}
		})
	}
}

// TestHomeAndPoll: each connection asks for a home of its own, and a poll has the tag of
// the answer before.
func TestHomeAndPoll(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Home, Poll} {
		var fresh, returned atomic.Int64
		var seen sync.Map // a connection and a path whose tag came back: the bench has counted the answer
		r, base := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
			tag := `W/"` + req.URL.Path + `"`
			w.Header().Set("ETag", tag)
			if req.Header.Get("If-None-Match") != tag {
				fresh.Add(1)
				return
			}
			w.WriteHeader(http.StatusNotModified)
			if _, again := seen.LoadOrStore(req.RemoteAddr+req.URL.Path, true); !again {
				returned.Add(1)
			}
		})
		report := mustRun(t, options(mode, base), func() bool {
			if _, paths := r.seen(); mode == Home {
				return paths == 4 && fresh.Load() >= repeated
			}
			return returned.Load() == 8
		})
		r.mu.Lock()
		for path := range r.paths {
			if !strings.HasPrefix(path, "/api/home?for=bench-") && (mode == Home || path != "/api/entries?limit=50") {
				t.Errorf("%s asked for %q", mode, path)
			}
		}
		if mode == Poll && (len(r.paths) != 5 || report.Statuses["200"] != 8 || report.Statuses["304"] == 0 || fresh.Load() != 8) || mode == Home && (len(r.paths) != 4 || report.Statuses["304"] > 0) {
			t.Errorf("%s: %v, %v", mode, r.paths, report.Statuses)
		}
		r.mu.Unlock()
	}
}

func TestFillComesFirst(t *testing.T) {
	r, base := newRecorder(t, nil)
	o := options(List, base)
	o.Fill = 123
	report := mustRun(t, o, func() bool {
		_, paths := r.seen()
		return paths > 0 && r.served.Load() >= 123+repeated
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	check.Equal(t, len(r.bodies), 123, "entries filled in")
	check.Equal(t, report.Statuses["201"], 0, "the filling was measured: %v", report.Statuses)
}

func TestErrorsAreCountedByStatus(t *testing.T) {
	var n atomic.Int64
	_, base := newRecorder(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	report := mustRun(t, options(List, base), func() bool { return n.Load() >= 4*repeated })
	if report.Statuses["429"] == 0 || report.Errors != report.Statuses["429"] {
		t.Errorf("report %+v", report)
	}
}

func TestADeadNodeIsLeftForALivingOne(t *testing.T) {
	dead := "http://" + must.Get(freeport.Addr())(t)
	r, base := newRecorder(t, nil)
	report := mustRun(t, options(List, dead, base), func() bool { return r.conns.Load() == 4 && r.served.Load() >= repeated })
	check.Equal(t, report.Failures["refused"], 2, "refusals of %v", report.Failures)
	check.Equal(t, r.conns.Load(), 4, "connections at the living node")
}

func TestEveryShapeOfResponseIsRead(t *testing.T) {
	big := strings.Repeat("x", 200_000)
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		kept   bool
	}{
		"length": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "short") }, true},
		"empty":  {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "0") }, true},
		"chunked": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, big)
			w.(http.Flusher).Flush()
			fmt.Fprint(w, big)
		}, true},
		"trailer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			fmt.Fprint(w, big)
			w.Header().Set("X-Sum", "1")
		}, true},
		"close": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			fmt.Fprint(w, big)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, base := newRecorder(t, tc.answer)
			targets := must.Get(options(List, base).targets())(t)
			w := newWorker(options(List), targets, "bench-run", 0, nil)
			defer w.hangUp()
			for range 3 {
				w.step(t.Context(), time.Time{})
			}
			conns := map[bool]int64{true: 1, false: 3}[tc.kept]
			if w.statuses[http.StatusOK] != 3 || len(w.failures) > 0 || r.conns.Load() != conns {
				t.Fatalf("statuses %v, failures %v, %d connections, want %d", w.statuses, w.failures, r.conns.Load(), conns)
			}
		})
	}
}

func TestTheEndCutsOffAHungServer(t *testing.T) {
	release := make(chan struct{})
	_, base := newRecorder(t, func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-release:
		case <-req.Context().Done():
		}
	})
	defer close(release)
	o := options(List, base)
	o.Duration = 100 * time.Millisecond
	check.Fails(Run(t.Context(), o))(t, "no error without an answer")
}

func TestOptionsOutOfBounds(t *testing.T) {
	for name, change := range map[string]func(o *Options){
		"no node":        func(o *Options) { o.URLs = nil },
		"no URL":         func(o *Options) { o.URLs = []string{"127.0.0.1:1"} },
		"no connections": func(o *Options) { o.Connections = 0 },
		"no duration":    func(o *Options) { o.Duration = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(List, "http://127.0.0.1:1")
			change(&o)
			if report, err := Run(t.Context(), o); err == nil || report != nil {
				t.Errorf("%v, %v", report, err)
			}
		})
	}
}

// TestToolsReportSuccess holds that a tool's rejection, which has no status, is counted as
// a failure, and its success as a write.
func TestToolsReportSuccess(t *testing.T) {
	for _, accepted := range []bool{true, false} {
		r, base := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/mcp" && accepted {
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"entry":{},"duplicate":false}}}`)
			}
		})
		o := options(Write, base)
		o.MCP = true
		report, err := runUntil(t, o, func() bool { return r.served.Load() > repeated })
		switch {
		case accepted && (err != nil || report.Errors > 0 || report.Latency["write"].Requests == 0):
			t.Errorf("accepted: %+v, %v", report, err)
		case !accepted && (err == nil || report.Failures[toolRejected] == 0):
			t.Errorf("rejected: %+v, %v", report, err)
		}
	}
}

// TestPublicationsAreWellFormed holds that what is sent is JSON.
func TestPublicationsAreWellFormed(t *testing.T) {
	for _, mcp := range []bool{false, true} {
		o := options(Write)
		o.MCP = mcp
		w := newWorker(o, []string{"x"}, "bench-run", 3, nil)
		w.publish()
		if !json.Valid(w.body) || !bytes.Contains(w.body, []byte(`"agent":"bench-3"`)) {
			t.Errorf("%s", w.body)
		}
	}
}

// TestRateIsKept holds that at a rate requests are due whether or not earlier ones are
// answered, that they count from when they were due, and that rejections count apart.
func TestRateIsKept(t *testing.T) {
	var n atomic.Int64
	_, base := newRecorder(t, func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) {
		case 1:
			time.Sleep(300 * time.Millisecond) // nine others fall due meanwhile
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, `{"entries":[]}`)
	})
	o := options(List, base)
	o.Connections, o.Rate = 1, 30
	report := mustRun(t, o, func() bool { return n.Load() >= 12 })
	if got := report.Latency[rejected]; got.Requests != 1 || got.P50 < 200 {
		t.Errorf("rejected: %+v, want one that waited for most of the first", got)
	}
	if got := report.Latency["list"]; got.P50 < 50 {
		t.Errorf("%+v: those that fell due meanwhile count from then on", got)
	}
}
