package bench

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"
)

// What the requests look like.
const (
	channels       = 8
	listLimit      = 50
	titleWords     = 5
	mixedPeriod    = 10 // requests of Mixed after which its pattern repeats
	mixedSearches  = 2
	mixedWrites    = 1
	reconnectAfter = 20 * time.Millisecond
)

// Limits of one exchange.
const (
	dialTimeout     = 5 * time.Second
	exchangeTimeout = 30 * time.Second
	readBuffer      = 64 << 10
)

// toolRejected names the failure of a tool that answered with an error.
const toolRejected = "rejected by the tool"

// worker is one connection and what it measured.
type worker struct {
	options Options
	targets []*url.URL
	at      int // index of the target in use
	run     string
	number  int           // of the connection
	sent    int           // requests so far
	left    *atomic.Int64 // writes left to do by all; nil: until the context ends
	texts   *writer

	client   *fasthttp.HostClient // of the target in use, with one connection; nil before the first and after a failure
	request  fasthttp.Request
	response fasthttp.Response

	latencies map[string]*hdrhistogram.Histogram // by what was sent
	statuses  map[int]uint64
	failures  map[string]uint64

	url, body, text []byte // reused
}

func newWorker(o Options, targets []*url.URL, run string, number int, left *atomic.Int64) *worker {
	return &worker{
		options: o, targets: targets, at: number % len(targets), run: run, number: number, left: left,
		texts:     newWriter(uint64(time.Now().UnixNano()) + uint64(number)),
		latencies: map[string]*hdrhistogram.Histogram{},
		statuses:  map[int]uint64{},
		failures:  map[string]uint64{},
	}
}

func (w *worker) loop(ctx context.Context) {
	defer w.hangUp()
	for ctx.Err() == nil {
		if w.left != nil && w.left.Add(-1) < 0 {
			return
		}
		w.step(ctx)
	}
}

// step sends one request and notes its outcome.
func (w *worker) step(ctx context.Context) {
	if !w.connect(ctx) {
		return
	}
	mode := w.next()
	success := ""
	if mode == Write {
		success = publications[w.surface()].success
	}
	name := string(mode)
	if s := w.surface(); mode == Write && s != HTTP {
		name += " by " + string(s)
	}
	w.prepare(mode)
	took, answered := w.exchange(ctx)
	if !answered {
		return
	}
	w.sent++
	status := w.response.StatusCode()
	if status < firstErrorStatus && success != "" && !bytes.HasSuffix(w.response.Body(), []byte(success)) {
		w.failures[toolRejected]++
		return
	}
	w.note(name, took)
	w.statuses[status]++
}

// connect reports whether there is a connection now. The connection is closed when
// ctx ends, which cuts off an exchange that is under way.
func (w *worker) connect(ctx context.Context) bool {
	if w.client == nil {
		w.client = w.newClient(ctx)
	}
	if w.client.ConnsCount() > 0 {
		return true
	}
	c, err := w.client.AcquireConn(0, false)
	if err != nil {
		w.failed(ctx, err)
		return false
	}
	w.client.ReleaseConn(c)
	return true
}

// newClient returns a client of the target in use. net/http's costs about as much as
// the servers measured here.
func (w *worker) newClient(ctx context.Context) *fasthttp.HostClient {
	target, port := w.targets[w.at], w.targets[w.at].Port()
	if port == "" {
		port = target.Scheme
	}
	buffer, timeout := readBuffer, exchangeTimeout
	if w.options.Mode == Wait {
		buffer, timeout = waitBuffer, waitTimeout
	}
	return &fasthttp.HostClient{
		Addr: net.JoinHostPort(target.Hostname(), port), IsTLS: target.Scheme == "https", Name: "commons-bench",
		Dial:     func(addr string) (net.Conn, error) { return dial(ctx, addr) },
		MaxConns: 1, MaxIdemponentCallAttempts: 1, DisablePathNormalizing: true,
		ReadBufferSize: buffer, ReadTimeout: timeout, WriteTimeout: exchangeTimeout,
	}
}

// boundConn is closed when a context ends.
type boundConn struct {
	net.Conn
	unbind func() bool
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &boundConn{Conn: c, unbind: context.AfterFunc(ctx, func() { c.Close() })}, nil
}

// Close hangs up.
func (c *boundConn) Close() error {
	c.unbind()
	return c.Conn.Close()
}

// exchange sends the request at w.url, a POST where w.body is not empty, and reads the
// response. It returns how long that took, and whether there was a response.
func (w *worker) exchange(ctx context.Context) (took time.Duration, answered bool) {
	w.request.Reset()
	w.request.SetRequestURIBytes(w.url)
	w.request.Header.Set("Accept", "application/json")
	if len(w.body) > 0 {
		w.request.Header.SetMethod(http.MethodPost)
		w.request.Header.SetContentType("application/json")
		w.request.SetBodyRaw(w.body)
	}
	start := time.Now()
	if err := w.client.Do(&w.request, &w.response); err != nil {
		w.failed(ctx, err)
		return 0, false
	}
	return time.Since(start), true
}

// note notes a latency.
func (w *worker) note(name string, took time.Duration) {
	if w.latencies[name] == nil {
		w.latencies[name] = newHistogram()
	}
	record(w.latencies[name], took)
}

// failed notes a transport error and turns to the next node after a moment.
func (w *worker) failed(ctx context.Context, err error) {
	w.hangUp()
	if ctx.Err() != nil {
		return
	}
	w.failures[errorKind(err)]++
	w.at = (w.at + 1) % len(w.targets)
	select {
	case <-ctx.Done():
	case <-time.After(reconnectAfter):
	}
}

func (w *worker) hangUp() {
	if w.client != nil {
		w.client.CloseIdleConnections()
		w.client = nil
	}
}

// next is the kind of the next request.
func (w *worker) next() Mode {
	if w.options.Mode != Mixed {
		return w.options.Mode
	}
	switch at := (w.sent + w.number) % mixedPeriod; {
	case at < mixedWrites:
		return Write
	case at < mixedWrites+mixedSearches:
		return Search
	}
	return List
}

// prepare makes the next request.
func (w *worker) prepare(mode Mode) {
	if mode == Write {
		w.address(w.publish(w.surface()))
		return
	}
	w.body = w.body[:0]
	w.address("/api/entries?")
	if mode == Search {
		w.url = append(append(w.url, "q="...), w.texts.word()...)
		w.url = append(append(append(w.url, '+'), w.texts.word()...), '&')
	}
	w.url = strconv.AppendInt(append(w.url, "limit="...), listLimit, 10)
	if w.texts.random.IntN(2) == 0 {
		w.url = append(append(w.url, "&channel="...), w.channel()...)
	}
}

// address makes the address of the next request: a path at the node in use.
func (w *worker) address(path string) {
	target := w.targets[w.at]
	w.url = append(append(append(w.url[:0], target.Scheme...), "://"...), target.Host...)
	w.url = append(append(w.url, target.Path...), path...)
}

func (w *worker) channel() string {
	return "bench-" + strconv.Itoa(w.texts.random.IntN(channels))
}
