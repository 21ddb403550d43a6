package delivery

import (
	"context"
	"crypto/cipher"
	"crypto/x509"
	"log/slog"
	"math"
	"net"
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
	"github.com/commons-cluster/commons/node/push"
)

// Config is what a Service needs.
type Config struct {
	ServerID  string
	Version   string // of the program, which is part of what it calls itself
	PublicURL string // base of the addresses that receivers are shown; "" where none is known
	Machine   *fsm.Machine
	Client    *http.Client // for the private ports of other nodes
	Logger    *slog.Logger

	// Check returns the problem with a receiver's address; "" if there is none.
	Check func(rawURL string) (problem string)
	// Members returns the live nodes; nothing is sent to their addresses.
	Members func() []cluster.Member
	// Resolver resolves names; nil is the system's.
	Resolver *net.Resolver
	// What tests need: see push.Config.
	Port      uint16
	Roots     *x509.CertPool
	AllowNets []netip.Prefix

	// Work ends with the node. Go runs a function that the node waits for when it ends.
	Work context.Context //nolint:containedctx // attempts outlive the leadership that began them
	Go   func(func())

	Boot command.BootID // of the commands that Propose replicates
	// Propose replicates a command of the node itself, and ProposeAsLeader one that only a
	// leader may propose.
	Propose, ProposeAsLeader func(context.Context, command.Payload) error
	// Stamp returns the timestamp for a log entry now, and Now the corrected time.
	Stamp func() int64
	Now   func() time.Time
	// LeaderID returns the leader as this node knows it, "" for none.
	LeaderID func() string
	// Leading reports whether this node leads and takes writes.
	Leading func() bool
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
	makeEvent     func(v *fsm.View, d *fsm.Delivery) ([]byte, error) // event; tests let it fail
	signing       atomic.Pointer[cipher.AEAD]                        // seals the signing keys, once the data key is known
	ownNames      atomic.Pointer[map[string][]netip.Addr]            // where the names lead that nodes advertise
	warnNoBase    sync.Once                                          // that events hold no whole addresses
}

// New returns the deliveries of a node whose state is open.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, attempts: newAttempts(), metrics: newMetrics(), verifying: make(chan struct{}, maxVerifying), verifications: push.NewQuota(cfg.Now)}
	agent := "Commons/" + cfg.Version
	if cfg.PublicURL != "" {
		agent += " (+" + cfg.PublicURL + "/docs)"
	}
	s.receivers = push.NewClient(push.Config{
		Check: cfg.Check, Own: s.ownAddress, UserAgent: agent,
		Now:      cfg.Now, // receivers hold the times of messages against their own clocks
		Resolver: cfg.Resolver, Port: cfg.Port, Roots: cfg.Roots, AllowNets: cfg.AllowNets,
	})
	s.makeEvent = s.event
	return s
}

// Run keeps the addresses of the service's own names up to date, until ctx ends.
func (s *Service) Run(ctx context.Context) { s.followOwnNames(ctx) }

// Lead maintains the signing key and sends due deliveries, for as long as this node
// leads.
func (s *Service) Lead(ctx context.Context) {
	var workers sync.WaitGroup
	workers.Go(func() { s.keepSigningKey(ctx) })
	s.deliver(ctx)
	workers.Wait()
}

// SetDataKey makes the cluster's data key known.
func (s *Service) SetDataKey(key []byte) error {
	sealer, err := newSigningSealer(key)
	if err == nil {
		s.signing.Store(&sealer)
	}
	return err
}

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
	// Known labels are shown from the start, as 0.
	m.attempts.WithLabelValues(outcomePassed)
	m.verifications.WithLabelValues(outcomePassed)
	m.ended.WithLabelValues(fsm.DeliveryDelivered.String(), outcomePassed)
	for _, reason := range []string{fsm.ReasonQueueFull, fsm.ReasonHookOff, fsm.ReasonHookGone, fsm.ReasonHidden} {
		m.ended.WithLabelValues(fsm.DeliveryDropped.String(), reason)
	}
	return m
}

func (m *metrics) attempted(a push.Answer) {
	m.attempts.WithLabelValues(outcomeOf(a.Reason)).Inc()
	m.seconds.Observe(a.Took.Seconds())
}

func (m *metrics) verified(r push.Reason) { m.verifications.WithLabelValues(outcomeOf(r)).Inc() }

// outcomeOf is the label of a reason: of statuses only the first digit counts.
func outcomeOf(r push.Reason) string {
	if r == "" {
		return outcomePassed
	}
	if status, ok := strings.CutPrefix(string(r), push.StatusPrefix); ok && status != "" {
		return push.StatusPrefix + status[:1] + "xx"
	}
	return string(r)
}

// outcomeText is the text of a reason in the log.
func outcomeText(r push.Reason) string {
	if r == "" {
		return outcomePassed
	}
	return string(r)
}

// Ended counts and logs deliveries that have ended, on the node that leads. Deliveries
// that are dropped because an agent removed its notify_url are not logged.
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
