package bench

import (
	"bytes"
	"context"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
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

// toolRefused names the failure of a tool that answered with an error.
const toolRefused = "refused by the tool"

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
	conn    *conn

	latencies map[string]*hdrhistogram.Histogram // by what was sent
	statuses  map[int]uint64
	failures  map[string]uint64

	path, body, text, request []byte // reused
}

func newWorker(o Options, targets []*url.URL, run string, number int, left *atomic.Int64) *worker {
	w := &worker{
		options: o, targets: targets, at: number % len(targets), run: run, number: number, left: left,
		texts:     newWriter(uint64(time.Now().UnixNano()) + uint64(number)),
		latencies: map[string]*hdrhistogram.Histogram{},
		statuses:  map[int]uint64{},
		failures:  map[string]uint64{},
	}
	return w
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
	w.prepare(mode)
	success := ""
	if mode == Write {
		success = publications[w.surface()].success
	}
	w.conn.keep = success != ""
	start := time.Now()
	status, keep, err := w.conn.exchange(w.request)
	if err != nil {
		w.failed(ctx, err)
		return
	}
	took := time.Since(start)
	name := string(mode)
	if s := w.surface(); mode == Write && s != HTTP {
		name += " by " + string(s)
	}
	w.sent++
	if status < firstErrorStatus && success != "" && !bytes.HasSuffix(w.conn.body, []byte(success)) {
		w.failures[toolRefused]++
	} else {
		w.note(name, took)
		w.statuses[status]++
	}
	if !keep {
		w.hangUp()
	}
}

// connect reports whether there is a connection now.
func (w *worker) connect(ctx context.Context) bool {
	if w.conn != nil {
		return true
	}
	buffer := readBuffer
	if w.options.Mode == Wait {
		buffer = waitBuffer
	}
	c, err := dial(ctx, w.targets[w.at], buffer)
	if err != nil {
		w.failed(ctx, err)
		return false
	}
	w.conn = c
	return true
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
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
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
	w.path = append(w.path[:0], w.targets[w.at].Path...)
	if mode == Write {
		w.path = append(w.path, w.publish(w.surface())...)
		w.request = w.conn.appendRequest(w.request[:0], string(w.path), w.body)
		return
	}
	w.path = append(w.path, "/api/entries"...)
	switch mode {
	case Search:
		w.path = append(w.path, "?q="...)
		w.path = append(w.path, w.texts.word()...)
		w.path = append(w.path, '+')
		w.path = append(w.path, w.texts.word()...)
		w.path = append(w.path, '&')
	default:
		w.path = append(w.path, '?')
	}
	w.path = append(w.path, "limit="...)
	w.path = strconv.AppendInt(w.path, listLimit, 10)
	if w.texts.random.IntN(2) == 0 {
		w.path = append(w.path, "&channel="...)
		w.path = append(w.path, w.channel()...)
	}
	w.request = w.conn.appendRequest(w.request[:0], string(w.path), nil)
}

func (w *worker) channel() string {
	return "bench-" + strconv.Itoa(w.texts.random.IntN(channels))
}
