package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/scripts/harness"
)

// The shape of the requests.
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

// rejected names the latency of requests at a rate that were answered with an error. It is
// not comparable with that of requests that were carried out.
const rejected = "rejected"

// toolRejected names the failure of a tool that answered with an error.
const toolRejected = "rejected by the tool"

// worker is one connection and its measurements.
type worker struct {
	options Options
	targets []string // host and port of each
	at      int      // index of the target in use
	run     string
	number  int           // of the connection
	sent    int           // requests so far
	left    *atomic.Int64 // writes left to all workers; nil means no bound
	texts   *writer

	client   *fasthttp.HostClient // of the target in use, with one connection; nil before the first and after a failure
	request  fasthttp.Request
	response fasthttp.Response

	latencies map[string]*hdrhistogram.Histogram // by kind of request
	statuses  map[int]uint64
	failures  map[string]uint64

	url, body, text []byte // reused

	tags [2]string // of the newest answers, of Poll: a list, home
}

func newWorker(o Options, targets []string, run string, number int, left *atomic.Int64) *worker {
	return &worker{
		options: o, targets: targets, at: number % len(targets), run: run, number: number, left: left,
		texts:     newWriter(uint64(time.Now().UnixNano()) + uint64(number)),
		latencies: map[string]*hdrhistogram.Histogram{}, statuses: map[int]uint64{}, failures: map[string]uint64{},
	}
}

func (w *worker) loop(ctx context.Context) {
	defer w.hangUp()
	var due time.Time        // of the next request; zero without a rate
	var period time.Duration // between two requests of a connection
	if w.options.Rate > 0 {
		period = time.Duration(float64(w.options.Connections) / w.options.Rate * float64(time.Second))
		due = time.Now().Add(period * time.Duration(w.number) / time.Duration(w.options.Connections))
	}
	for ctx.Err() == nil && (w.left == nil || w.left.Add(-1) >= 0) {
		if period > 0 && !harness.Pause(ctx, time.Until(due)) {
			return
		}
		w.step(ctx, due)
		due = due.Add(period)
	}
}

// step sends one request and records its result. At a rate, its latency counts from the
// time that it was due.
func (w *worker) step(ctx context.Context, due time.Time) {
	if !w.connect(ctx) {
		return
	}
	mode, success := w.next(), ""
	name := string(mode)
	if mode == Write && w.options.MCP {
		success = toolSuccess
	}
	w.prepare(mode)
	late := time.Duration(0)
	if !due.IsZero() {
		late = max(0, time.Since(due))
	}
	took, answered := w.exchange(ctx)
	if !answered {
		return
	}
	w.sent++
	status := w.response.StatusCode()
	if status < firstErrorStatus && !bytes.HasSuffix(w.response.Body(), []byte(success)) {
		w.failures[toolRejected]++
		return
	}
	if !due.IsZero() && status >= firstErrorStatus {
		name = rejected
	}
	if w.latencies[name] == nil {
		w.latencies[name] = newHistogram()
	}
	record(w.latencies[name], late+took)
	w.statuses[status]++
}

// connect reports whether there is a connection now. The connection is closed when
// ctx ends, which cuts off an exchange that is under way. The client is fasthttp's: net/http's
// costs about as much as the servers measured here.
func (w *worker) connect(ctx context.Context) bool {
	if w.client == nil {
		w.client = &fasthttp.HostClient{
			Addr: w.targets[w.at], Name: "commons-bench",
			Dial: func(addr string) (net.Conn, error) {
				c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
				if err == nil {
					context.AfterFunc(ctx, func() { c.Close() })
				}
				return c, err
			},
			MaxConns: 1, MaxIdemponentCallAttempts: 1, DisablePathNormalizing: true,
			ReadBufferSize: readBuffer, ReadTimeout: exchangeTimeout, WriteTimeout: exchangeTimeout,
		}
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

// exchange sends the request at w.url, a POST where w.body is not empty, and reads the
// response. It returns how long that took, and whether there was a response.
func (w *worker) exchange(ctx context.Context) (took time.Duration, answered bool) {
	w.request.Reset()
	w.request.SetRequestURIBytes(w.url)
	w.request.Header.Set("Accept", "application/json")
	tag := &w.tags[w.sent%len(w.tags)]
	if w.options.Mode == Poll && *tag != "" {
		w.request.Header.Set("If-None-Match", *tag)
	}
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
	took = time.Since(start)
	*tag = string(w.response.Header.Peek("ETag"))
	return took, true
}

// failed counts a transport error, and turns to the next node after a pause.
func (w *worker) failed(ctx context.Context, err error) {
	w.hangUp()
	if ctx.Err() != nil {
		return
	}
	w.failures[errorKind(err)]++
	w.at = (w.at + 1) % len(w.targets)
	harness.Pause(ctx, reconnectAfter)
}

func (w *worker) hangUp() {
	if w.client != nil {
		w.client.CloseIdleConnections()
		w.client = nil
	}
}

// next returns the kind of the next request.
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
		w.address(w.publish())
		return
	}
	w.body = w.body[:0]
	if mode == Home || mode == Poll && w.sent%len(w.tags) == 1 {
		w.address("/api/home?for=bench-" + strconv.Itoa(w.number))
		return
	}
	w.address("/api/entries?")
	if mode == Search {
		w.url = fmt.Appendf(w.url, "q=%s+%s&", w.texts.word(), w.texts.word())
	}
	w.url = strconv.AppendInt(append(w.url, "limit="...), listLimit, 10)
	if mode != Poll && w.texts.random.IntN(2) == 0 {
		w.url = append(append(w.url, "&channel="...), w.channel()...)
	}
}

// address sets the URL of the next request: a path at the node in use.
func (w *worker) address(path string) {
	w.url = append(append(append(w.url[:0], "http://"...), w.targets[w.at]...), path...)
}

func (w *worker) channel() string {
	return "bench-" + strconv.Itoa(w.texts.random.IntN(channels))
}

// The parts of a call of the tool that publishes: before the arguments, and after them. The
// answer to a published entry ends in toolSuccess; a rejection has no status.
const (
	toolStart   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"publish_entry","arguments":`
	toolEnd     = `}}`
	toolSuccess = `"duplicate":false}}}`
)

// publish makes the body of a publication and returns the path.
func (w *worker) publish() (path string) {
	var words [titleWords]string
	for i := range words {
		words[i] = w.texts.word()
	}
	title := strings.Join(words[:], " ")
	format := `{"body":"%s","agent":"bench-%d","channel":"%s","title":"%s","tags":["bench"]}`
	path = "/api/entries"
	if w.options.MCP {
		format, path = toolStart+format+toolEnd, "/mcp"
	}
	// A text has letters, digits, spaces, '-' and '.', which need no escaping.
	w.text = w.texts.appendText(w.text[:0], fmt.Sprintf("%s-%d-%d", w.run, w.number, w.sent))
	w.body = fmt.Appendf(w.body[:0], format, w.text, w.number, w.channel(), title)
	return path
}

// The vocabulary: words made of syllables, the lower ranks far more frequent
// than the higher ones, as in natural text.
const (
	vocabularySize = 20_000
	zipfExponent   = 1.07
	zipfOffset     = 4
	sentenceWords  = 12
	maxSyllables   = 4
	corpusBytes    = 1 << 20
)

// vocabulary is the same in every run, so that searches find the entries of earlier runs.
var vocabulary = makeVocabulary()

func makeVocabulary() []string {
	onsets := []string{"b", "br", "c", "ch", "d", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "tr", "v", "w"}
	nuclei := []string{"a", "e", "i", "o", "u", "ai", "ea", "ou"}
	codas := []string{"", "", "n", "r", "l", "s", "t", "m", "nd"}
	random := rand.New(rand.NewPCG(1, 2))
	words, known := make([]string, 0, vocabularySize), make(map[string]bool, vocabularySize)
	for len(words) < vocabularySize {
		var syllables strings.Builder
		for range 1 + random.IntN(maxSyllables) {
			for _, part := range [][]string{onsets, nuclei, codas} {
				syllables.WriteString(part[random.IntN(len(part))])
			}
		}
		if word := syllables.String(); !known[word] {
			known[word] = true
			words = append(words, word)
		}
	}
	return words
}

// corpus is the text that bodies are cut from. Drawing words for each body would cost more
// than sending it.
var corpus = sync.OnceValue(func() []byte {
	w := newWriter(1)
	text := make([]byte, 0, corpusBytes)
	for n := 1; len(text) < corpusBytes; n++ {
		text = append(text, ' ')
		at := len(text)
		text = append(text, w.word()...)
		if n%sentenceWords == 1 {
			text[at] -= 'a' - 'A'
		}
		if n%sentenceWords == 0 {
			text = append(text, '.')
		}
	}
	return text
})

// writer draws words and texts. It is not safe for concurrent use.
type writer struct {
	random *rand.Rand
	ranks  *rand.Zipf
}

func newWriter(seed uint64) *writer {
	random := rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15))
	return &writer{random: random, ranks: rand.NewZipf(random, zipfExponent, zipfOffset, vocabularySize-1)}
}

func (w *writer) word() string { return vocabulary[w.ranks.Uint64()] }

// appendText appends bodySize bytes: the mark, which makes them unique, and sentences.
func (w *writer) appendText(dst []byte, mark string) []byte {
	text := corpus()
	from := w.random.IntN(len(text) - bodySize)
	for text[from] != ' ' {
		from--
	}
	dst = append(dst, mark...)
	dst = append(dst, text[from:from+bodySize-len(mark)]...)
	if end := len(dst) - 1; dst[end] == ' ' { // surrounding white space would be trimmed away
		dst[end] = '.'
	}
	return dst
}
