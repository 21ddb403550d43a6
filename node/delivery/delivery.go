package delivery

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/node/loop"
	"github.com/commons-cluster/commons/node/push"
)

// Config is the configuration of a Service.
type Config struct {
	ServerID  string
	Version   string // of the program, which is part of the User-Agent
	PublicURL string // base of the addresses in events; empty if it is not known
	Machine   *fsm.Machine
	Client    *http.Client // for the private ports of other nodes
	Logger    *slog.Logger
	Push      push.Config // without Own, UserAgent and Now, which follow from this

	// Secret returns the secret of a receiver by its salt. Known is closed once it can.
	Secret func(salt string) []byte
	Known  <-chan struct{}

	// Members returns the live nodes, which are never receivers.
	Members func() []cluster.Member
	// Work ends with the node. Go runs a function that the node waits for when it ends.
	Work context.Context //nolint:containedctx // attempts outlive the leadership that began them
	Go   func(func())

	Boot    command.BootID                               // of the commands that Propose replicates
	Propose func(context.Context, command.Payload) error // replicates a command of the node itself
	// Stamp returns the timestamp for a log entry now, and Now the corrected time.
	Stamp    func() int64
	Now      func() time.Time
	LeaderID func() string // according to this node, or ""
	Leading  func() bool   // whether this node leads and takes writes
	// UntilAnotherLeads returns a context that ends when another server leads.
	UntilAnotherLeads func(ctx context.Context, leader string) (context.Context, context.CancelFunc)
}

// Service is one node's part in deliveries. Its methods are safe for concurrent use.
type Service struct {
	cfg           Config
	receivers     *push.Client
	verifications *push.Quota
	verifying     chan struct{} // holds one token per receiver that is being asked
	attempts      *attempts
	metrics       *metrics
	makeEvent     func(v *view.View, d *outbox.Delivery) ([]byte, error) // event; tests let it fail
	ownNames      atomic.Pointer[map[string][]netip.Addr]                // addresses of the names that nodes advertise
	warnNoBase    sync.Once                                              // guards the warning about events without whole addresses
}

// New returns the deliveries of a node whose state is open.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, attempts: newAttempts(), metrics: newMetrics(), verifying: make(chan struct{}, maxVerifying), verifications: push.NewQuota(time.Now)}
	agent := "Commons/" + cfg.Version
	if cfg.PublicURL != "" {
		agent += " (+" + cfg.PublicURL + "/docs)"
	}
	cfg.Push.Own, cfg.Push.UserAgent = s.ownAddress, agent
	cfg.Push.Now = cfg.Now // receivers hold the times of messages against their own clocks
	s.receivers = push.NewClient(cfg.Push)
	s.makeEvent = s.event
	return s
}

// Run keeps the addresses of the service's own names up to date, until ctx ends. During a dial
// there is no time to resolve them.
func (s *Service) Run(ctx context.Context) { loop.Every(ctx, ownNamesInterval, s.lookUpOwnNames) }

// Lead sends due deliveries for as long as this node leads, once it can sign them.
func (s *Service) Lead(ctx context.Context) {
	select {
	case <-s.cfg.Known:
		s.deliver(ctx)
	case <-ctx.Done():
	}
}

const outcomePassed = "ok" // the outcome of an attempt or a check that did not fail

type metrics struct {
	attempts      *prometheus.CounterVec
	ended         *prometheus.CounterVec
	verifications *prometheus.CounterVec
	seconds       prometheus.Histogram
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		opts := prometheus.CounterOpts{Namespace: "commons", Subsystem: "push", Name: name, Help: help}
		return prometheus.NewCounterVec(opts, labels)
	}
	m := &metrics{
		attempts: counter("attempts_total",
			"Attempts of this node to deliver to receivers, by what came of them.", "outcome"),
		ended: counter("deliveries_total",
			"Deliveries that came to their end while this node led, by status and by the last reason.",
			"status", "reason"),
		verifications: counter("verifications_total",
			"Checks of receivers by this node, by what came of them.", "outcome"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "commons", Subsystem: "push", Name: "attempt_seconds",
			Help:    "How long receivers took.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
	}
	// Known labels are shown from the start, as 0.
	m.attempts.WithLabelValues(outcomePassed)
	m.verifications.WithLabelValues(outcomePassed)
	m.ended.WithLabelValues(outbox.DeliveryDelivered.String(), outcomePassed)
	for _, reason := range []string{outbox.ReasonQueueFull, outbox.ReasonHookOff, outbox.ReasonHookGone, outbox.ReasonHidden} {
		m.ended.WithLabelValues(outbox.DeliveryDropped.String(), reason)
	}
	return m
}

// outcomeOf returns the label of a reason: of statuses only the first digit.
func outcomeOf(r push.Reason) string {
	if status, ok := strings.CutPrefix(string(r), push.StatusPrefix); ok && status != "" {
		return push.StatusPrefix + status[:1] + "xx"
	}
	return outcomeText(r)
}

// outcomeText returns the text of a reason in the log.
func outcomeText(r push.Reason) string { return cmp.Or(string(r), outcomePassed) }

// Ended counts and logs deliveries that have ended, on the node that leads. Deliveries
// that are dropped because an agent removed its notify_url are not logged.
func (s *Service) Ended(ended []outbox.DeliveryEnd) {
	if !s.cfg.Leading() { // another node does it, or the log is applied again after a start
		return
	}
	for i := range ended {
		e := &ended[i]
		s.metrics.ended.WithLabelValues(e.Status.String(), outcomeOf(push.Reason(e.Reason))).Inc()
		switch log := s.cfg.Logger.With("id", e.ID, "agent", e.AgentKey, "attempts", e.Attempts, "reason", e.Reason); {
		case e.Gone:
			log.Info("a receiver is gone; its notify_url was removed")
		case e.Status == outbox.DeliveryFailed:
			log.Warn("a delivery was given up")
		case e.Reason == outbox.ReasonQueueFull:
			log.Warn("a delivery was dropped: too many wait for its receiver")
		}
	}
}

// Collectors returns the metrics.
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
