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
	"time"

	"github.com/hashicorp/memberlist"
)

// Member is a live node of this cluster, or a node that belongs to no cluster yet.
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
// or an address that is not loopback while there is no secret file.
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

// bind opens TCP and UDP on one port. A port that is free for one may be taken for
// the other, so it tries several times when any port will do.
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

// SetMeta replaces what this node says about itself; the others get it in the
// background. The server id cannot change. A Meta that is not valid or too
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

// Close stops without notifying the others, as a crash would; they notice by
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

const (
	// DefaultGossipPort is used when a join address names no port.
	DefaultGossipPort = 7946
	// MaxJoinAddrs bounds the join list.
	MaxJoinAddrs = 64

	defaultProbeInterval    = time.Second
	defaultProbeTimeout     = 500 * time.Millisecond
	defaultReclaimTime      = 5 * time.Second
	defaultPushPullInterval = 5 * time.Second
	defaultRejoinInterval   = 2 * time.Second
	defaultSettledInterval  = 30 * time.Second

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
// joins. Durations of 0 take their defaults; shorter ones serve tests.
type GossipConfig struct {
	// Name is this node's server id; it has to equal Meta.ServerID.
	Name string
	// Bind is the host:port for TCP and UDP; port 0 picks a free one.
	Bind string
	// Advertise is what others are to send to, completed as AdvertiseAddr
	// says. A host name is resolved once, at the start.
	Advertise string
	// Join lists host[:port] of other nodes. A name with several addresses
	// counts as all of them; this node's own address may be among them.
	Join []string
	// Known returns further addresses to look for members at, such as
	// Book.GossipAddrs; nil means none.
	Known func() []string
	// Secrets give the keys.
	Secrets *Secrets
	// Meta is what the node says about itself; see SetMeta.
	Meta Meta
	// Logger receives membership changes and rejections; nil discards them.
	Logger *slog.Logger

	ProbeInterval    time.Duration // between probes of one member; default 1 s
	ProbeTimeout     time.Duration // for an answer to a probe; default 500 ms
	ReclaimTime      time.Duration // from death until the name may have a new address; default 5 s
	PushPullInterval time.Duration // between full exchanges; default 5 s
	RejoinInterval   time.Duration // between attempts while somebody is missing; default 2 s
	SettledInterval  time.Duration // between attempts at addresses that answered; default 30 s

	// LookupHost replaces the host name lookup, for tests.
	LookupHost func(ctx context.Context, host string) ([]string, error)
}

func checkGossipConfig(cfg *GossipConfig) (encoded []byte, err error) {
	var problems []error
	if cfg.Name != cfg.Meta.ServerID {
		problems = append(problems, fmt.Errorf("name %q is not the server id %q of the metadata", cfg.Name, cfg.Meta.ServerID))
	}
	if len(cfg.Join) > MaxJoinAddrs {
		problems = append(problems, fmt.Errorf("%d join addresses, at most %d are allowed", len(cfg.Join), MaxJoinAddrs))
	}
	for _, addr := range cfg.Join {
		if host, _, err := splitAddr(addr); err != nil {
			problems = append(problems, fmt.Errorf("join %w", err))
		} else if host == "" {
			problems = append(problems, fmt.Errorf("join address %q has no host", addr))
		}
	}
	encoded, metaErr := cfg.Meta.Encode()
	problems = append(problems, metaErr)
	if cfg.Secrets == nil {
		problems = append(problems, errors.New("secrets are missing"))
	}
	if cfg.LookupHost == nil {
		cfg.LookupHost = net.DefaultResolver.LookupHost
	}
	if cfg.Secrets != nil && cfg.Secrets.LoopbackOnly() {
		problems = append(problems, checkAllLoopback(cfg.LookupHost, cfg.Bind, cfg.Advertise))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.ProbeInterval = cmp.Or(cfg.ProbeInterval, defaultProbeInterval)
	cfg.ProbeTimeout = cmp.Or(cfg.ProbeTimeout, defaultProbeTimeout)
	cfg.ReclaimTime = cmp.Or(cfg.ReclaimTime, defaultReclaimTime)
	cfg.PushPullInterval = cmp.Or(cfg.PushPullInterval, defaultPushPullInterval)
	cfg.RejoinInterval = cmp.Or(cfg.RejoinInterval, defaultRejoinInterval)
	cfg.SettledInterval = cmp.Or(cfg.SettledInterval, defaultSettledInterval)
	return encoded, nil
}

// gossipLog is the handler behind memberlist's logger. It passes everything on
// at debug level, and what an operator has to know as a throttled warning.
type gossipLog struct{ g *Gossip }

func (l gossipLog) Enabled(context.Context, slog.Level) bool { return true }
func (l gossipLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l gossipLog) WithGroup(string) slog.Handler            { return l }

// noteworthy are the beginnings of lines that show misconfiguration or
// strangers; memberlist's other errors are temporary, and membership changes are
// logged from its events.
var noteworthy = []string{
	"Decrypt packet failed",
	"failed to receive",
	"discarding",
	"Failed push/pull merge",
	"Received invalid msgType",
	"Was able to connect to",
	"Too many pending",
	"handler queue full",
	"Remote node state size",
	"Error accepting TCP connection",
	"Error reading UDP packet",
}

// otherKey is part of memberlist's error for a message that none of the keys can decrypt.
// memberlist passes errors on as texts.
const otherKey = "no installed keys could decrypt"

// Handle takes one line of the form "[LEVEL] memberlist: text".
func (l gossipLog) Handle(ctx context.Context, record slog.Record) error {
	_, text, found := strings.Cut(record.Message, "memberlist: ")
	if !found {
		text = record.Message
	}
	for _, kind := range noteworthy {
		if !strings.HasPrefix(text, kind) {
			continue
		}
		if strings.Contains(text, " EOF") {
			break // somebody hung up
		}
		suppressed, ok := l.g.lines.allow("memberlist " + kind + remoteHost(text))
		switch {
		case !ok:
		case strings.Contains(text, otherKey):
			l.g.logger.WarnContext(ctx, "rejected gossip that is encrypted with another key: the node that sends it, or this one, has another cluster secret; give both the same with --secret-file",
				"detail", text, "suppressed", suppressed)
		default:
			l.g.logger.WarnContext(ctx, "trouble in gossip", "detail", text, "suppressed", suppressed)
		}
		return nil
	}
	l.g.logger.DebugContext(ctx, "gossip", "detail", text)
	return nil
}

// remoteHost finds the "from=host:port" at the end of a line, without the port.
func remoteHost(text string) string {
	_, from, found := strings.Cut(text, "from=")
	if !found {
		return ""
	}
	if i := strings.LastIndexByte(from, ':'); i >= 0 {
		from = from[:i]
	}
	return from
}

const (
	logEvery    = time.Minute // per kind of line
	maxLogKinds = 256         // distinct kinds remembered
)

// throttle keeps strangers from filling the log: it lets through one line of each
// kind per logEvery.
type throttle struct {
	mu    sync.Mutex
	kinds map[string]*logKind
}

type logKind struct {
	last       time.Time
	suppressed int
}

// allow reports whether a line of the kind may be written now, and how many
// were held back since the last one.
func (t *throttle) allow(kind string) (suppressed int, ok bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds == nil {
		t.kinds = make(map[string]*logKind)
	}
	k := t.kinds[kind]
	if k == nil {
		t.makeRoom(now)
		if len(t.kinds) >= maxLogKinds {
			kind = "" // all that do not fit share one kind
			k = t.kinds[kind]
		}
	}
	if k == nil {
		t.kinds[kind] = &logKind{last: now}
		return 0, true
	}
	if now.Sub(k.last) < logEvery {
		k.suppressed++
		return 0, false
	}
	suppressed = k.suppressed
	k.last, k.suppressed = now, 0
	return suppressed, true
}

func (t *throttle) makeRoom(now time.Time) {
	if len(t.kinds) < maxLogKinds {
		return
	}
	for kind, k := range t.kinds {
		if now.Sub(k.last) >= logEvery {
			delete(t.kinds, kind)
		}
	}
}
