package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/fsm/command"
)

// recorder is a server that keeps what it was asked.
type recorder struct {
	mu     sync.Mutex
	bodies map[string]int // of publications
	paths  map[string]int // of reads
	conns  atomic.Int64
	answer http.HandlerFunc
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

func options(mode Mode, urls ...string) Options {
	return Options{Mode: mode, URLs: urls, Connections: 4, Duration: 600 * time.Millisecond, Size: 200}
}

func TestWriteSendsUniqueBodiesOverKeptConnections(t *testing.T) {
	first, firstURL := newRecorder(t, nil)
	second, secondURL := newRecorder(t, nil)
	report, err := Run(t.Context(), options(Write, firstURL, secondURL))
	if err != nil {
		t.Fatal(err)
	}
	sent := uint64(0)
	for _, r := range []*recorder{first, second} {
		r.mu.Lock()
		for body, times := range r.bodies {
			sent++
			if times != 1 || len(body) != 200 {
				t.Fatalf("body %q of %d bytes was sent %d times", body, len(body), times)
			}
		}
		r.mu.Unlock()
		if n := r.conns.Load(); n != 2 {
			t.Errorf("%d connections to one of two nodes, want 2 of 4", n)
		}
	}
	// The last request of each connection may be cut off by the end.
	if report.Statuses["201"] == 0 || report.Statuses["201"] > sent || sent > report.Statuses["201"]+4 {
		t.Errorf("reported %v, the servers saw %d", report.Statuses, sent)
	}
	if report.Errors != 0 || report.Latency["write"].Requests != report.Requests {
		t.Errorf("report %+v", report)
	}
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
			report, err := Run(t.Context(), options(tc.mode, base))
			if err != nil {
				t.Fatal(err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if (len(r.bodies) > 0) != tc.writes || (len(r.paths) > 0) != tc.reads {
				t.Errorf("%d different writes, %d different reads", len(r.bodies), len(r.paths))
			}
			found := tc.query == ""
			for path := range r.paths {
				u, err := url.ParseRequestURI(path)
				if err != nil || u.Path != "/api/entries" || u.Query().Get("limit") != "50" {
					t.Errorf("asked for %q: %v", path, err)
				}
				found = found || strings.Contains(path, tc.query)
			}
			if !found {
				t.Errorf("no request with %q", tc.query)
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
		r, base := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
			tag := `W/"` + req.URL.Path + `"`
			w.Header().Set("ETag", tag)
			if req.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
			}
		})
		report, err := Run(t.Context(), options(mode, base))
		if err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		for path := range r.paths {
			if !strings.HasPrefix(path, "/api/home?for=bench-") && (mode == Home || path != "/api/entries?limit=50") {
				t.Errorf("%s asked for %q", mode, path)
			}
		}
		if mode == Poll && (len(r.paths) != 5 || report.Statuses["200"] != 8 || report.Statuses["304"] == 0) || mode == Home && (len(r.paths) != 4 || report.Statuses["304"] > 0) {
			t.Errorf("%s: %v, %v", mode, r.paths, report.Statuses)
		}
		r.mu.Unlock()
	}
}

func TestFillComesFirst(t *testing.T) {
	r, base := newRecorder(t, nil)
	o := options(List, base)
	o.Fill = 123
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bodies) != 123 {
		t.Errorf("%d entries filled in, want 123", len(r.bodies))
	}
	if report.Statuses["201"] != 0 {
		t.Errorf("the filling was measured: %v", report.Statuses)
	}
}

func TestErrorsAreCountedByStatus(t *testing.T) {
	var n atomic.Int64
	_, base := newRecorder(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	report, err := Run(t.Context(), options(List, base))
	if err != nil {
		t.Fatal(err)
	}
	if report.Statuses["429"] == 0 || report.Errors != report.Statuses["429"] {
		t.Errorf("report %+v", report)
	}
	var text bytes.Buffer
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "status 429: ") || !strings.Contains(text.String(), "rate limits are on") {
		t.Errorf("text:\n%s", &text)
	}
}

func TestADeadNodeIsLeftForALivingOne(t *testing.T) {
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	r, base := newRecorder(t, nil)
	report, err := Run(t.Context(), options(List, dead.URL, base))
	if err != nil {
		t.Fatal(err)
	}
	if report.Failures["refused"] != 2 {
		t.Errorf("failures %v, want one refusal for each of the two connections", report.Failures)
	}
	if n := r.conns.Load(); n != 4 {
		t.Errorf("%d connections at the living node, want all 4", n)
	}
}

func TestNothingAnswered(t *testing.T) {
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	_, err := Run(t.Context(), options(Write, dead.URL))
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v", err)
	}
}

func TestBrokenServers(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"broken connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"malformed": func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			fmt.Fprint(c, "HELLO I AM NOT HTTP\r\n\r\n")
			c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, base := newRecorder(t, answer)
			report, err := Run(t.Context(), options(List, base))
			if err == nil || report.Failures[name] == 0 {
				t.Errorf("error %v, report %+v", err, report)
			}
		})
	}
}

// TestTLSIsChecked holds that https is used, and that a certificate that nobody
// vouches for is a failure of its own kind.
func TestTLSIsChecked(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	o := options(List, server.URL)
	for late := time.Now().Add(time.Minute); ; o.Duration *= 2 { // a busy machine needs its time for a handshake
		report, err := Run(t.Context(), o)
		if err == nil || len(report.Failures) != 0 || time.Now().After(late) {
			if err == nil || report.Failures["certificate"] == 0 {
				t.Errorf("error %v, report %+v", err, report)
			}
			return
		}
	}
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
			target, err := url.Parse(base)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorker(options(List), []*url.URL{target}, "bench-run", 0, nil)
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
	done := make(chan error, 1)
	go func() {
		_, err := Run(context.Background(), options(List, base))
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error, though nothing was answered")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Run does not end")
	}
}

func TestValidateListsEverything(t *testing.T) {
	bad := Options{Mode: Write, URLs: []string{"http://10.0.0.1:8080", "ftp://127.0.0.1", "http://127.0.0.1:1", "://"}, Size: 1, Fill: -1}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"10.0.0.1:8080 is not on this machine", "ftp://127.0.0.1", "missing protocol scheme", "--connections", "--duration", "--size", "--fill"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	for _, host := range []string{"http://localhost:8080", "http://127.0.0.9:1", "http://[::1]:8080"} {
		if err := options(Write, host).Validate(); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	remote := options(Write, "http://10.0.0.1:8080")
	remote.AllowRemote = true
	if err := remote.Validate(); err != nil {
		t.Error(err)
	}
}

func TestReportIsJSON(t *testing.T) {
	_, base := newRecorder(t, nil)
	report, err := Run(t.Context(), options(Mixed, base))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := report.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Requests != report.Requests || back.Latency[all] != report.Latency[all] {
		t.Errorf("%+v came back as %+v", report, back)
	}
}

// TestSurfacesTakeTurns holds that both surfaces are written to alike, each with its
// own latencies.
func TestSurfacesTakeTurns(t *testing.T) {
	var mu sync.Mutex
	keys := map[string]bool{}
	_, base := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys[req.URL.Path] = true
		fmt.Fprint(w, `{}`)
	})
	o := options(Write, base)
	o.Surfaces = []Surface{HTTP, A2A}
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	http, a2a := report.Latency["write"].Requests, report.Latency["write by a2a"].Requests
	if http == 0 || a2a == 0 || http > a2a+4 || a2a > http+4 || !keys["/api/entries"] || !keys["/a2a/v1/message:send"] {
		t.Errorf("%d by HTTP and %d by A2A to %v", http, a2a, keys)
	}
	o.Surfaces = []Surface{"mail", A2A, A2A}
	o.Mode = List
	if err := o.Validate(); err == nil || strings.Count(err.Error(), "--surface") != 3 {
		t.Errorf("%v", err)
	}
}

// TestToolsReportSuccess holds that a tool's rejection, which has no status, is counted as
// a failure, and its success as a write.
func TestToolsReportSuccess(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t, apitest.NewBackend(t))
	o := options(Write, s.URL)
	o.Duration = time.Second
	o.Surfaces = []Surface{MCP}
	report, err := Run(t.Context(), o)
	if err != nil || report.Errors > 0 || report.Latency["write by mcp"].Requests == 0 {
		t.Fatalf("%+v %v", report, err)
	}
	refusing := apitest.NewBackend(t)
	refusing.Reject = func(command.Sender, command.Payload) error { return &command.RateLimited{RetryAfter: time.Second} }
	o.URLs = []string{apitest.Start(t, refusing).URL}
	if report, err := Run(t.Context(), o); err == nil {
		t.Errorf("%+v", report)
	} else if !strings.Contains(err.Error(), toolRejected) {
		t.Error(err)
	}
}

// TestPublicationsAreWellFormed holds that what each surface sends is JSON.
func TestPublicationsAreWellFormed(t *testing.T) {
	for surface := range publications {
		w := newWorker(options(Write), []*url.URL{{Host: "x"}}, "bench-run", 3, nil)
		w.publish(surface)
		if !json.Valid(w.body) || !bytes.Contains(w.body, []byte(`"agent":"bench-3"`)) {
			t.Errorf("%s: %s", surface, w.body)
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
	o.Connections, o.Rate, o.Duration = 1, 30, 10*time.Second
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for n.Load() < 12 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	report, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Latency[rejected]; got.Requests != 1 || got.P50 < 200 {
		t.Errorf("rejected: %+v, want one that waited for most of the first", got)
	}
	if got := report.Latency["list"]; got.P50 < 50 {
		t.Errorf("%+v: those that fell due meanwhile count from then on", got)
	}
	o.Mode = Wait
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "--rate") {
		t.Error(err)
	}
}
