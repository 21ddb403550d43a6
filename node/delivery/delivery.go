package delivery

import (
	"context"
	"crypto/cipher"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

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

	// Check returns what is wrong with a receiver's address, "" for nothing.
	Check func(rawURL string) (problem string)
	// Members returns the live nodes, whose addresses are not sent to.
	Members func() []cluster.Member
	// Resolver looks names up; nil is the system's.
	Resolver *net.Resolver
	// What tests need: see push.Config.
	Port      uint16
	Roots     *x509.CertPool
	AllowNets []netip.Prefix

	// Work ends with the node, and Go runs what the node waits for at its end.
	Work context.Context //nolint:containedctx // attempts outlive the leadership that began them
	Go   func(func())

	Boot command.BootID // of the commands that Propose replicates
	// Propose replicates a command of the node's own, and ProposeAsLeader one that only
	// a leader may.
	Propose, ProposeAsLeader func(context.Context, command.Payload) error
	// Stamp returns the time that a log entry would have now, and Now the corrected time.
	Stamp func() int64
	Now   func() time.Time
	// LeaderID returns the leader as this node knows it, "" for none.
	LeaderID func() string
	// Leading reports whether this node leads and takes writes.
	Leading func() bool
	// UntilAnotherLeads returns a context that ends when somebody else leads.
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

// Run keeps what is known of the service's own names up to date, until ctx ends.
func (s *Service) Run(ctx context.Context) { s.followOwnNames(ctx) }

// Lead keeps a key to sign with and sends what is due, for as long as this node leads.
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
