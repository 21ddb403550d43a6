package api

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"golang.org/x/time/rate"

	"github.com/commons-cluster/commons/api/wire"
)

// getLive serves GET /livez: the process runs and answers.
func getLive(c *call) error {
	return c.answerText(http.StatusOK, contentText, "ok\n")
}

// getReady serves GET /readyz: one line per check, or JSON where it is asked for.
func getReady(c *call) error {
	checks := c.srv.backend.Checks()
	status := http.StatusOK
	var lines strings.Builder
	list := make([]wire.Object, len(checks))
	var issues []wire.Issue
	for i, check := range checks {
		mark := "[+] "
		if !check.OK {
			mark = "[-] "
			status = http.StatusServiceUnavailable
			issues = append(issues, wire.Issue{check.Name, check.Detail})
		}
		lines.WriteString(mark + check.Name + ": " + check.Detail + "\n")
		list[i] = wire.Object{{"name", check.Name}, {"ok", check.OK}, {"detail", check.Detail}}
	}
	if status != http.StatusOK {
		c.out.Header.Set(fiber.HeaderRetryAfter, wire.RetryAfterUnavailable)
	}
	if !c.wantsJSON() {
		return c.answerText(status, contentText, lines.String())
	}
	var body wire.Object
	if status != http.StatusOK {
		body = (&wire.Error{Code: wire.CodeNotReady, Message: "This node does not serve yet.", Issues: issues}).Object()
	}
	body = append(body, wire.Field{"ready", status == http.StatusOK}, wire.Field{"checks", list})
	return c.answerObject(status, body)
}

// getStatus serves GET /status.
func getStatus(c *call) error {
	return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) { return wire.AppendJSON(dst, c.srv.backend.Status()), nil })
}

// getMetrics serves GET /metrics: to operators, because it tells of versions, disks,
// and how near the bounds are.
func getMetrics(c *call) error {
	if !c.srv.clients.measure(c.sender()) {
		return &wire.Error{
			Code:    wire.CodeNotFound,
			Message: "Measurements are for operators, and this address is in none of their networks: those of the flag --metrics-from of the node, by default loopback and private ones.",
			Issues:  []wire.Issue{{"path", "is not served to this address"}},
		}
	}
	c.srv.exposition(c.rctx)
	return nil
}

// wantsJSON reports whether the client asked for JSON rather than text.
func (c *call) wantsJSON() bool {
	return strings.Contains(c.header(fiber.HeaderAccept), contentJSON)
}

// answerText sets status and a body that is ready.
func (c *call) answerText(status int, contentType, body string) error {
	resp := c.out
	resp.SetStatusCode(status)
	resp.Header.SetContentType(contentType)
	resp.SetBodyString(body)
	return nil
}

// answerObject sets status and a JSON object.
func (c *call) answerObject(status int, body wire.Object) error {
	return c.answer(status, func(dst []byte) ([]byte, error) { return body.AppendJSON(dst), nil })
}

// durationBuckets are the bounds of the request histogram, in seconds: reads take
// tens of microseconds, writes milliseconds, waits up to seconds.
var durationBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// metrics are the measurements of the HTTP surface.
type metrics struct {
	durations *prometheus.HistogramVec
	inFlight  prometheus.Gauge
	panics    prometheus.Counter
	rejected  *prometheus.CounterVec
	answered  atomic.Uint64
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "commons_http_request_duration_seconds",
			Help:    "Time from a request's last byte to its answer, by route template.",
			Buckets: durationBuckets,
		}, []string{"route", "method", "status"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commons_http_requests_in_flight",
			Help: "Requests that are being answered.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "commons_http_panics_total",
			Help: "Requests whose handler panicked.",
		}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commons_http_rejected_total",
			Help: "Calls of every surface that were answered with an Error object, by its code.",
		}, []string{"code"}),
	}
	for _, code := range wire.Codes() {
		m.rejected.WithLabelValues(string(code)) // there from the start, at 0
	}
	for _, collector := range []prometheus.Collector{m.durations, m.inFlight, m.panics, m.rejected} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe counts one answered request. Its labels are bounded: templates, known
// methods and classes of status.
func (m *metrics) observe(route, method string, status int, took time.Duration) {
	m.answered.Add(1)
	m.durations.WithLabelValues(route, methodLabel(method), statusClass(status)).Observe(took.Seconds())
}

func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return "other"
}

func statusClass(status int) string {
	return string(rune('0'+status/100)) + "xx"
}

// exposition serves what a registry gathers.
func exposition(registry *prometheus.Registry) fasthttp.RequestHandler {
	return fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
}

// requestLog writes a sample of the requests: at most so many lines a second, and
// as many again for failures of ours, so that those are seen in any crowd. No line
// holds anything that a client sent, nor its address.
type requestLog struct {
	log              *slog.Logger
	served, failures sample
}

// sample lets some lines pass and counts the others.
type sample struct {
	limit *rate.Limiter
	left  atomic.Uint64 // out since the last line
}

// newRequestLog returns a log of at most perSecond lines; 0 writes none.
func newRequestLog(log *slog.Logger, perSecond int) *requestLog {
	limiter := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), perSecond) }
	return &requestLog{log: log, served: sample{limit: limiter()}, failures: sample{limit: limiter()}}
}

// take reports whether a line may be written now, and how many were left out
// before it.
func (s *sample) take(now time.Time) (left uint64, ok bool) {
	if !s.limit.AllowN(now, 1) {
		s.left.Add(1)
		return 0, false
	}
	return s.left.Swap(0), true
}

// write logs one request, or leaves it out.
func (l *requestLog) write(now time.Time, method, route string, status, bytes int, took time.Duration) {
	s, line := &l.served, l.log.Info
	if status >= http.StatusInternalServerError {
		s, line = &l.failures, l.log.Warn
	}
	if left, ok := s.take(now); ok {
		line("request", "method", method, "route", route, "status", status, "took", took, "bytes", bytes, "leftOut", left)
	}
}
