package api

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
)

// durationBuckets are the bounds of the request histogram, in seconds: reads take
// tens of microseconds, writes milliseconds, waits up to seconds.
var durationBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// metrics are the measurements of the HTTP surface.
type metrics struct {
	durations *prometheus.HistogramVec
	inFlight  prometheus.Gauge
	panics    prometheus.Counter
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
	}
	for _, collector := range []prometheus.Collector{m.durations, m.inFlight, m.panics} {
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
