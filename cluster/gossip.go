package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Member is a live node of this cluster, or one that belongs to none yet.
type Member struct {
	Meta
	GossipAddr string // IP:port
}

// Gossip spreads who is there. It decides nothing.
type Gossip struct {
	cfg       GossipConfig
	logger    *slog.Logger
	list      *memberlist.Memberlist
	keyring   *memberlist.Keyring
	advertise netip.AddrPort
	lines     throttle
	changed   chan struct{}
	dirty     chan struct{}

	mu        sync.Mutex
	meta      Meta
	encoded   []byte
	members   map[string]Member     // alive, by server id
	lost      map[string]lostMember // members that went, by server id, to be looked for again
	settled   map[string]time.Time  // addresses not to be tried again before that time
	listed    map[string]bool       // the join addresses, as looked up last
	strangers map[string]stranger   // members of another cluster at join addresses, by address

	unsubscribe func()
	stop        context.Context
	cancel      context.CancelFunc
	wg          sync.WaitGroup
	closeMu     sync.Mutex
	closed      bool
}

// StartGossip opens gossip and begins to look for the others in the background,
// forever. Errors: a bad configuration or Meta, an address that cannot be bound,
// or one that is not loopback while there is no secret file.
func StartGossip(cfg GossipConfig) (*Gossip, error) {
	encoded, err := checkGossipConfig(&cfg)
	if err != nil {
		return nil, err
	}
	keyring, err := newKeyring(cfg.Secrets.GossipKeys())
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	g := &Gossip{
		cfg: cfg, logger: cfg.Logger, keyring: keyring,
		changed: make(chan struct{}, 1), dirty: make(chan struct{}, 1),
		meta: cfg.Meta, encoded: encoded,
		members: make(map[string]Member), lost: make(map[string]lostMember), settled: make(map[string]time.Time),
		strangers: make(map[string]stranger),
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
	g.wg.Add(2)
	go g.publishLoop()
	go g.joinLoop()
	return g, nil
}

// open binds the sockets and starts memberlist on them.
func (g *Gossip) open() error {
	conf := memberlist.DefaultLANConfig()
	conf.Logger = slog.NewLogLogger(gossipLog{g}, slog.LevelInfo)
	transport, bound, err := g.bind(conf)
	if err != nil {
		return err
	}
	if err := g.create(conf, transport, bound); err != nil {
		discardTransport(transport)
		return err
	}
	return nil
}

func (g *Gossip) create(conf *memberlist.Config, transport *gossipTransport, bound net.Addr) error {
	advertise, err := g.resolveAdvertise(bound)
	if err != nil {
		return err
	}
	g.advertise = advertise
	conf.Name = g.cfg.Name
	conf.Transport = transport
	conf.AdvertiseAddr, conf.AdvertisePort = advertise.Addr().String(), int(advertise.Port())
	conf.BindPort = int(advertise.Port())
	conf.Keyring = g.keyring
	conf.Delegate, conf.Events = (*delegate)(g), (*delegate)(g)
	conf.Alive, conf.Merge, conf.Conflict = (*delegate)(g), (*delegate)(g), (*delegate)(g)
	conf.TCPTimeout = gossipStreamTimeout
	conf.ProbeInterval, conf.ProbeTimeout = g.cfg.ProbeInterval, g.cfg.ProbeTimeout
	conf.SuspicionMult, conf.SuspicionMaxTimeoutMult = suspicionMult, suspicionMaxTimeoutMult
	conf.AwarenessMaxMultiplier = awarenessMaxMultiplier
	conf.GossipInterval, conf.GossipToTheDeadTime = gossipInterval, gossipToTheDeadTime
	conf.PushPullInterval = g.cfg.PushPullInterval
	conf.DeadNodeReclaimTime = g.cfg.ReclaimTime
	conf.EnableCompression = false // the messages are small
	conf.MsgpackUseNewTimeFormat = true
	list, err := memberlist.Create(conf)
	if err != nil {
		return err
	}
	g.list = list
	return nil
}

// bind opens TCP and UDP on one port. A free port for one may be taken for the
// other, hence several attempts when any port will do.
func (g *Gossip) bind(conf *memberlist.Config) (*gossipTransport, net.Addr, error) {
	host, port, err := splitAddr(g.cfg.Bind)
	if err != nil {
		return nil, nil, err
	}
	if host == "" {
		host = netip.IPv4Unspecified().String()
	}
	ctx, cancel := context.WithTimeout(g.stop, lookupTimeout)
	defer cancel()
	ips, err := lookupIPs(ctx, g.cfg.LookupHost, host)
	if err != nil {
		return nil, nil, err
	}
	attempts := 1
	if port == 0 {
		attempts = autoPortAttempts
	}
	for range attempts {
		var transport *memberlist.NetTransport
		transport, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{ips[0].String()}, BindPort: int(port), Logger: conf.Logger,
		})
		if err == nil {
			bound := netip.AddrPortFrom(ips[0], uint16(transport.GetAutoBindPort())) // a port fits
			return newGossipTransport(transport), net.TCPAddrFromAddrPort(bound), nil
		}
	}
	return nil, nil, err
}

// resolveAdvertise gives the address as memberlist needs it: no names.
func (g *Gossip) resolveAdvertise(bound net.Addr) (netip.AddrPort, error) {
	addr, err := AdvertiseAddr(g.cfg.Advertise, bound)
	if err != nil {
		return netip.AddrPort{}, err
	}
	host, port, err := splitAddr(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ctx, cancel := context.WithTimeout(g.stop, lookupTimeout)
	defer cancel()
	ips, err := lookupIPs(ctx, g.cfg.LookupHost, host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("advertise: %w", err)
	}
	return netip.AddrPortFrom(ips[0], port), nil
}

// discardTransport shuts a transport down that memberlist did not take: its
// listeners wait for a reader.
func discardTransport(t memberlist.Transport) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = t.Shutdown() // cannot fail
	}()
	for {
		select {
		case c := <-t.StreamCh():
			_ = c.Close() // never served
		case <-t.PacketCh():
		case <-done:
			return
		}
	}
}

// Addr is the address that others send to, IP:port.
func (g *Gossip) Addr() string { return g.advertise.String() }

// Members returns the live members, this node included, ordered by server id.
// Nodes of another cluster are never among them.
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

// Changed receives a value after the members or what they say changed. Changes
// in quick succession give one value.
func (g *Gossip) Changed() <-chan struct{} { return g.changed }

// Meta returns what this node says about itself.
func (g *Gossip) Meta() Meta {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.meta
}

// SetMeta replaces what this node says about itself; the others hear of it in
// the background. The server id cannot change. A Meta that is not valid or too
// long is an error and changes nothing.
func (g *Gossip) SetMeta(meta Meta) error {
	if meta.ServerID != g.cfg.Name {
		return fmt.Errorf("gossip metadata: server id %q is not this node's, %q", meta.ServerID, g.cfg.Name)
	}
	encoded, err := meta.Encode()
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.meta, g.encoded = meta, encoded
	if self, ok := g.members[g.cfg.Name]; ok {
		self.Meta = meta
		g.members[g.cfg.Name] = self
	}
	g.mu.Unlock()
	notify(g.changed)
	notify(g.dirty)
	return nil
}

// publishLoop sends the others what SetMeta set.
func (g *Gossip) publishLoop() {
	defer g.wg.Done()
	for {
		select {
		case <-g.stop.Done():
			return
		case <-g.dirty:
		}
		if err := g.list.UpdateNode(updateTimeout); err != nil {
			g.logger.Debug("gossip metadata not sent to all in time; it spreads with the next exchange", "error", err)
		}
	}
}

// Leave notifies the others that this node goes, within the timeout, and closes.
func (g *Gossip) Leave(timeout time.Duration) error { return g.end(timeout) }

// Close stops without a word, as a crash would; the others notice by
// themselves. It is safe to call more than once.
func (g *Gossip) Close() error { return g.end(0) }

func (g *Gossip) end(leaveTimeout time.Duration) error {
	g.closeMu.Lock()
	defer g.closeMu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	g.unsubscribe()
	g.cancel()
	var err error
	if leaveTimeout > 0 {
		err = g.list.Leave(leaveTimeout)
	}
	err = errors.Join(err, g.list.Shutdown())
	g.wg.Wait()
	return err
}

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func sameCluster(a, b string) bool { return a == "" || b == "" || a == b }

// newKeyring starts a keyring with the key to encrypt with first.
func newKeyring(keys [][]byte) (*memberlist.Keyring, error) {
	return memberlist.NewKeyring(keys, keys[0])
}

// updateKeyring makes the ring hold exactly the keys, the first in use. At no
// time does it encrypt with any other than the former or the new first key.
func updateKeyring(ring *memberlist.Keyring, keys [][]byte) error {
	if err := ring.AddKey(keys[0]); err != nil {
		return err
	}
	if err := ring.UseKey(keys[0]); err != nil {
		return err
	}
	// The ring shifts its keys in place on removal while readers walk it, but
	// removing the last one moves nothing: take off all but the first, from the
	// end, then put back what stays.
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
