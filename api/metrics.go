package api

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"golang.org/x/time/rate"

	"github.com/commons-cluster/commons/internal/trace"
)

// durationBuckets are the bounds of the request histogram, in seconds: reads take
// tens of microseconds, writes milliseconds, waits up to seconds.
var durationBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// metrics are the measurements of the HTTP surface.
type metrics struct {
	durations *prometheus.HistogramVec
	inFlight  prometheus.Gauge
	proxied   prometheus.Counter
	answered  atomic.Uint64
}

func newMetrics() *metrics {
	return &metrics{
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "commons_http_request_duration_seconds",
			Help:    "Time from a request's last byte to its answer, by route template.",
			Buckets: durationBuckets,
		}, []string{"route", "method", "status"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "commons_http_requests_in_flight",
			Help: "Requests that are being answered.",
		}),
		proxied: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "commons_http_proxied_total",
			Help: "Requests that name their client in a header which the node does not use, because of --trusted-proxies.",
		}),
	}
}

// observe counts one answered request. Its labels are bounded: templates, known
// methods and classes of status.
func (m *metrics) observe(route, method string, status int, took time.Duration) {
	m.answered.Add(1)
	class := string(rune('0'+status/100)) + "xx"
	m.durations.WithLabelValues(route, methodLabel(method), class).Observe(took.Seconds())
}

func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return "other"
}

// metricsFormat is Prometheus's text format.
var metricsFormat = expfmt.NewFormat(expfmt.TypeTextPlain)

// Exposition returns measurements in Prometheus's text format.
func Exposition(of prometheus.Gatherer) ([]byte, error) {
	families, err := of.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather measurements: %w", err)
	}
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, metricsFormat)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return nil, fmt.Errorf("write measurements: %w", err)
		}
	}
	return text.Bytes(), nil
}

// requestLog writes a sample of the requests: at most so many lines a second, and as many again
// for internal errors. A line contains no text that a client sent but the ids of its trace, nor
// its address.
type requestLog struct {
	log              *slog.Logger
	served, failures sample
}

// sample lets some lines pass and counts the others.
type sample struct {
	limit *rate.Limiter
	left  atomic.Uint64 // out since the last line
}

// newRequestLog returns a log of at most perSecond lines. 0 turns it off.
func newRequestLog(log *slog.Logger, perSecond int) *requestLog {
	limiter := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), perSecond) }
	return &requestLog{log: log, served: sample{limit: limiter()}, failures: sample{limit: limiter()}}
}

// take reports whether a line may be written now, and how many were left out before it.
func (s *sample) take(now time.Time) (left uint64, ok bool) {
	if !s.limit.AllowN(now, 1) {
		s.left.Add(1)
		return 0, false
	}
	return s.left.Swap(0), true
}

// write logs one request, or leaves it out.
func (l *requestLog) write(now time.Time, method, route string, status, bytes int, took time.Duration, parent trace.Parent) {
	s, line := &l.served, l.log.Info
	if status >= http.StatusInternalServerError {
		s, line = &l.failures, l.log.Warn
	}
	if left, ok := s.take(now); ok {
		fields := []any{"method", method, "route", route, "status", status, "took", took, "bytes", bytes, "leftOut", left}
		if parent != "" {
			fields = append(fields, "traceId", parent.TraceID(), "spanId", parent.SpanID())
		}
		line("request", fields...)
	}
}
