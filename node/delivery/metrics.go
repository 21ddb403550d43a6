package delivery

import (
	"log/slog"
	"math"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/node/push"
)

// outcomePassed is the outcome of an attempt or a check that did not fail.
const outcomePassed = "ok"

// metrics measures what is sent to receivers.
type metrics struct {
	attempts      *prometheus.CounterVec
	ended         *prometheus.CounterVec
	verifications *prometheus.CounterVec
	seconds       prometheus.Histogram
}

func newMetrics() *metrics {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "commons", Subsystem: "push", Name: "attempts_total",
			Help: "Attempts of this node to deliver to receivers, by what came of them.",
		}, []string{"outcome"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "commons", Subsystem: "push", Name: "deliveries_total",
			Help: "Deliveries that came to their end while this node led, by status and by the last reason.",
		}, []string{"status", "reason"}),
		verifications: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "commons", Subsystem: "push", Name: "verifications_total",
			Help: "Checks of receivers by this node, by what came of them.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "commons", Subsystem: "push", Name: "attempt_seconds",
			Help:    "How long receivers took.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
	}
	// What is known beforehand is shown from the start, as 0.
	m.attempts.WithLabelValues(outcomePassed)
	m.ended.WithLabelValues(fsm.DeliveryDelivered.String(), outcomePassed)
	for _, reason := range []string{fsm.ReasonQueueFull, fsm.ReasonHookOff, fsm.ReasonHookGone} {
		m.ended.WithLabelValues(fsm.DeliveryDropped.String(), reason)
	}
	return m
}

func (m *metrics) attempted(a push.Answer) {
	m.attempts.WithLabelValues(outcomeOf(a.Reason)).Inc()
	m.seconds.Observe(a.Took.Seconds())
}

func (m *metrics) verified(r push.Reason) { m.verifications.WithLabelValues(outcomeOf(r)).Inc() }

// outcomeOf is the label of a reason: statuses are distinguished by their first
// digit alone.
func outcomeOf(r push.Reason) string {
	if r == "" {
		return outcomePassed
	}
	if status, ok := strings.CutPrefix(string(r), push.StatusPrefix); ok && status != "" {
		return push.StatusPrefix + status[:1] + "xx"
	}
	return string(r)
}

// outcomeText is what the log says of a reason.
func outcomeText(r push.Reason) string {
	if r == "" {
		return outcomePassed
	}
	return string(r)
}

// Ended measures and logs deliveries that came to their end, on the node
// that leads. What an agent drops by taking its notify_url back is no news.
func (s *Service) Ended(ended []fsm.DeliveryEnd) {
	if s.cfg.Leading() { // else another one does it, or the log is applied again after a start
		s.metrics.end(s.cfg.Logger, ended)
	}
}

func (m *metrics) end(logger *slog.Logger, ended []fsm.DeliveryEnd) {
	for i := range ended {
		e := &ended[i]
		m.ended.WithLabelValues(e.Status.String(), outcomeOf(push.Reason(e.Reason))).Inc()
		switch log := logger.With("id", e.ID, "agent", e.AgentKey, "attempts", e.Attempts, "reason", e.Reason); {
		case e.Gone:
			log.Info("a receiver is gone; its notify_url was removed")
		case e.Status == fsm.DeliveryFailed:
			log.Warn("a delivery was given up")
		case e.Reason == fsm.ReasonQueueFull:
			log.Warn("a delivery was dropped: too many wait for its receiver")
		}
	}
}

// Collectors are the measurements of what is sent to receivers.
func (s *Service) Collectors() []prometheus.Collector {
	m := s.metrics
	return []prometheus.Collector{
		m.attempts, m.ended, m.verifications, m.seconds,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "commons", Subsystem: "push", Name: "sending", Help: "Deliveries that this node is sending to receivers.",
		}, func() float64 { return float64(s.attempts.sending()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "commons", Subsystem: "push", Name: "waiting",
			Help: "Deliveries that wait for their turn or for their next attempt, in the whole cluster.",
		}, s.waitingDeliveries),
	}
}

func (s *Service) waitingDeliveries() float64 {
	v := s.cfg.Machine.View()
	defer v.Release()
	waiting, err := v.WaitingDeliveries()
	if err != nil {
		return math.NaN()
	}
	return float64(waiting)
}
