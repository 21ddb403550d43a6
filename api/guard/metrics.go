package guard

import "github.com/prometheus/client_golang/prometheus"

// metrics count what gave way.
type metrics struct {
	rejected  *prometheus.CounterVec // by what there is no room for
	closed    *prometheus.CounterVec // by reason
	shedWaits prometheus.Counter
}

func newMetrics() *metrics {
	return &metrics{
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commons_http_guard_rejected_total",
			Help: "Connections and calls that were rejected because an address or the node holds or has used too much, by what.",
		}, []string{"of"}),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commons_http_guard_closed_total",
			Help: "Connections that were closed to make room, by reason: idle, or an answer unread.",
		}, []string{"reason"}),
		shedWaits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "commons_http_guard_shed_waits_total",
			Help: "Waiting calls that were answered early to make room.",
		}),
	}
}

// CountRejected counts a call that was rejected because of a bound.
func (g *Guard) CountRejected(of string) { g.metrics.rejected.WithLabelValues(of).Inc() }

// Describe implements prometheus.Collector.
func (g *Guard) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(g, ch) }

// Collect implements prometheus.Collector.
func (g *Guard) Collect(ch chan<- prometheus.Metric) {
	g.metrics.rejected.Collect(ch)
	g.metrics.closed.Collect(ch)
	g.metrics.shedWaits.Collect(ch)
	held := func(name, help string, value int) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, float64(value))
	}
	g.conns.mu.Lock()
	open := len(g.conns.open) + len(g.conns.reserved)
	g.conns.mu.Unlock()
	g.waits.mu.Lock()
	waiting := g.waits.count
	g.waits.mu.Unlock()
	g.answers.mu.Lock()
	bytes := g.answers.bytes
	g.answers.mu.Unlock()
	held("commons_http_connections", "Open connections of clients.", open)
	held("commons_http_connections_max", "How many connections of clients may be open.", g.limits.Connections)
	held("commons_http_waits", "Calls that wait for news or for an index.", waiting)
	held("commons_http_waits_max", "How many calls may wait.", g.limits.waits())
	held("commons_http_answer_bytes", "Bytes of long answers that are being sent.", bytes)
	held("commons_http_answer_bytes_max", "How many bytes of long answers may be on their way.", g.limits.AnswerBytes)
}
