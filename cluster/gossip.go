package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Gossip spreads the addresses and metadata of members. It never changes the Raft
// configuration.
type Gossip struct {
	cfg       GossipConfig
	logger    *slog.Logger
	keyring   *memberlist.Keyring
	transport *gossipTransport
	own       string // advertised host:port; the host may be a name
	lines     Throttle
	changed   chan struct{}
	dirty     chan struct{}

	list    atomic.Pointer[memberlist.Memberlist] // nil before the advertised name has an address
	problem atomic.Pointer[string]                // of the advertised name, or nil
	moving  chan struct{}                         // full while list is replaced, and after the end

	mu        sync.Mutex
	advertise netip.AddrPort // invalid before the name has an address
	delegate  *delegate      // of list
	meta      Meta
	encoded   []byte
	members   map[string]Member    // alive, by server id
	settled   map[string]time.Time // addresses not to be tried again before that time
	listed    map[string]bool      // the join addresses, as looked up last
	stranger  stranger             // the newest member of another cluster at a join address

	unsubscribe func()
	stop        context.Context
	cancel      context.CancelFunc
	wg          sync.WaitGroup
	ended       sync.Once
}

// StartGossip opens gossip and searches for other members in the background until it is
// closed. An advertised name that does not resolve is tried on in the background. Without a secret file it fails for an address that is not loopback.
func StartGossip(cfg GossipConfig) (*Gossip, error) {
	encoded, err := checkGossipConfig(&cfg)
	if err != nil {
		return nil, err
	}
	keys := cfg.Secrets.GossipKeys()
	keyring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	g := &Gossip{
		cfg: cfg, logger: cfg.Logger, keyring: keyring,
		changed: make(chan struct{}, 1), dirty: make(chan struct{}, 1), moving: make(chan struct{}, 1),
		meta: cfg.Meta, encoded: encoded,
		members: map[string]Member{cfg.Meta.ServerID: {Meta: cfg.Meta}}, settled: make(map[string]time.Time),
	}
	g.stop, g.cancel = context.WithCancel(context.Background())
	if err := g.open(); err != nil {
		g.cancel()
		return nil, fmt.Errorf("gossip: %w", err)
	}
	g.unsubscribe = cfg.Secrets.subscribe(func() {
		if err := updateKeyring(keyring, cfg.Secrets.GossipKeys()); err != nil {
			g.logger.Error("gossip keys not updated", "error", err)
		}
	})
	g.wg.Go(g.publishLoop)
	g.wg.Go(g.joinLoop)
	return g, nil
}

// Members returns the live members of this cluster, including this node, ordered by
// server id.
func (g *Gossip) Members() []Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Member, 0, len(g.members))
	for _, m := range g.members {
		if sameCluster(g.meta.ClusterID, m.ClusterID) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b Member) int { return strings.Compare(a.ServerID, b.ServerID) })
	return out
}

// Member returns a live member by its server id.
func (g *Gossip) Member(serverID string) (Member, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, ok := g.members[serverID]
	return m, ok && sameCluster(g.meta.ClusterID, m.ClusterID)
}

// Changed receives a value after a change of the members or their metadata. Changes in
// quick succession send one value.
func (g *Gossip) Changed() <-chan struct{} { return g.changed }

// Meta returns this node's metadata.
func (g *Gossip) Meta() Meta {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.meta
}

// SetMeta replaces this node's metadata, except for the server id, and sends it to the others
// in the background. If meta is invalid, SetMeta keeps the old metadata.
func (g *Gossip) SetMeta(meta Meta) error {
	self := g.cfg.Meta.ServerID
	if meta.ServerID != self {
		return fmt.Errorf("gossip metadata: server id %q is not this node's, %q", meta.ServerID, self)
	}
	encoded, err := meta.Encode()
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.meta, g.encoded = meta, encoded
	if m, ok := g.members[self]; ok {
		m.Meta = meta
		g.members[self] = m
	}
	g.mu.Unlock()
	notify(g.changed)
	notify(g.dirty)
	return nil
}

func (g *Gossip) publishLoop() {
	for {
		select {
		case <-g.stop.Done():
			return
		case <-g.dirty:
		}
		list := g.list.Load()
		if list == nil {
			continue // it begins with the newest metadata
		}
		if err := list.UpdateNode(updateTimeout); err != nil {
			g.logger.Debug("gossip metadata not sent to all in time; it spreads with the next exchange", "error", err)
		}
	}
}

// Leave announces the departure of this node, within the timeout, and closes Gossip.
func (g *Gossip) Leave(timeout time.Duration) error { return g.end(timeout) }

// Close stops gossip without an announcement, like a crash: the others detect the
// failure. It is safe to call more than once.
func (g *Gossip) Close() error { return g.end(0) }

func (g *Gossip) end(leaveTimeout time.Duration) error {
	var err error
	g.ended.Do(func() {
		g.unsubscribe()
		g.cancel()
		g.moving <- struct{}{} // for good
		if list := g.list.Load(); list != nil {
			if leaveTimeout > 0 {
				err = list.Leave(leaveTimeout)
			}
			err = errors.Join(err, list.Shutdown())
		}
		discardTransport(g.transport)
		g.wg.Wait()
	})
	return err
}

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// updateKeyring replaces the keys of the ring and uses the first one. At every moment
// the ring encrypts with the old or the new first key.
func updateKeyring(ring *memberlist.Keyring, keys [][]byte) error {
	if err := ring.AddKey(keys[0]); err != nil {
		return err
	}
	if err := ring.UseKey(keys[0]); err != nil {
		return err
	}
	// Removing a key shifts the keys behind it in place, while readers may iterate over
	// them. Removing the last key shifts no other: remove all but the first from the end,
	// then add the remaining ones again.
	present := ring.GetKeys()
	for _, key := range slices.Backward(present[1:]) {
		if err := ring.RemoveKey(key); err != nil {
			return err
		}
	}
	for _, key := range keys[1:] {
		if err := ring.AddKey(key); err != nil {
			return err
		}
	}
	return nil
}

const (
	// DefaultGossipPort is used when a join address names no port.
	DefaultGossipPort = 7946
	// MaxJoinAddrs bounds the join list.
	MaxJoinAddrs = 64

	defaultReclaimTime     = 5 * time.Second
	defaultSettledInterval = 30 * time.Second

	gossipInterval          = 100 * time.Millisecond
	gossipStreamTimeout     = 3 * time.Second
	gossipToTheDeadTime     = 30 * time.Second
	suspicionMult           = 3
	suspicionMaxTimeoutMult = 3
	awarenessMaxMultiplier  = 4
	updateTimeout           = 2 * time.Second
	autoPortAttempts        = 10
)

// GossipConfig configures the addresses on which gossip listens and the nodes that it
// joins.
type GossipConfig struct {
	Bind      string // host:port for TCP and UDP; port 0 picks a free one
	Advertise string // for other nodes, completed by AdvertiseAddr; a host name is resolved again and again
	// Join lists host[:port] of other nodes, at most MaxJoinAddrs. A name with several
	// addresses counts as all of them; this node's own address may be among them.
	Join []string
	// Known returns further addresses of possible members, such as
	// Book.GossipAddrs. Nil means no further addresses.
	Known   func() []string
	Secrets *Secrets // for the encryption keys
	Meta    Meta     // the node's initial metadata; see SetMeta
	Logger  *slog.Logger

	ProbeInterval    time.Duration // between probes of one member
	ProbeTimeout     time.Duration // for an answer to a probe
	PushPullInterval time.Duration // between full exchanges
	RejoinInterval   time.Duration // between attempts while somebody is missing
	// For tests, which shorten them; 0 means the default.
	ReclaimTime     time.Duration // from death until the name may have a new address
	SettledInterval time.Duration // between attempts at addresses that answered

	// Network replaces the system's network, for tests.
	Network Network
	// LookupHost replaces the host name lookup, for tests.
	LookupHost func(ctx context.Context, host string) ([]string, error)
}

func checkGossipConfig(cfg *GossipConfig) (encoded []byte, err error) {
	if cfg.LookupHost == nil {
		cfg.LookupHost = net.DefaultResolver.LookupHost
	}
	encoded, err = cfg.Meta.Encode()
	if err == nil && cfg.Secrets.LoopbackOnly() {
		err = checkAllLoopback(cfg.LookupHost, cfg.Bind, cfg.Advertise)
	}
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	cfg.ReclaimTime = cmp.Or(cfg.ReclaimTime, defaultReclaimTime)
	cfg.SettledInterval = cmp.Or(cfg.SettledInterval, defaultSettledInterval)
	return encoded, nil
}
