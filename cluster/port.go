package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Names, limits and times of the private port.
const (
	// The ALPN names of HTTP/2 and of Raft's stream on the private port.
	ProtocolHTTP = "h2"
	ProtocolRaft = "commons-raft"

	// HandshakeTimeout bounds an incoming handshake, and the wait for the protocol's
	// server to accept the connection afterwards.
	HandshakeTimeout   = 5 * time.Second
	MaxHandshakes      = 256             // incoming, at any time
	defaultDialTimeout = 2 * time.Second // of one HTTP/2 dial, over all addresses of a server
	// RotationGrace is the time that connections stay open after the secret that
	// verified them was removed.
	RotationGrace = 10 * time.Second

	keepAliveIdle     = 5 * time.Second
	keepAliveInterval = 2 * time.Second
	keepAliveCount    = 3
	minAcceptBackoff  = 5 * time.Millisecond
	maxAcceptBackoff  = time.Second
)

// PortConfig configures a private port: its addresses and trusted peers.
type PortConfig struct {
	Addr      string // host:port to listen on; port 0 picks a free one
	Advertise string // for other nodes, completed by AdvertiseAddr
	ServerID  string
	// ClusterID returns the id of this node's cluster, empty before it has one. It is
	// called at each handshake.
	ClusterID func() string
	Secrets   *Secrets
	// Resolve returns the host:port of a server's private port, at each dial.
	Resolve func(serverID string) (addr string, ok bool)
	Logger  *slog.Logger
	// DialTimeout and PingTimeout are the times after which a node that does not answer
	// counts as dead: for an HTTP/2 connection, and for a ping on one. 0 means
	// defaultDialTimeout and defaultPingTimeout.
	DialTimeout, PingTimeout time.Duration

	// Network replaces the system's network, for tests. DialContext gets addresses of the
	// form IP:port.
	Network Network
	// LookupHost replaces the host name lookup, for tests.
	LookupHost func(ctx context.Context, host string) ([]string, error)
}

// Port is the private port of a node: one TCP listener with mutual TLS that
// serves HTTP/2 and Raft's stream, and the way to other nodes' ports.
type Port struct {
	cfg       PortConfig
	logger    *slog.Logger
	listener  net.Listener
	advertise string
	creds     *credentials
	conns     *connSet
	pending   newcomers
	rejected  Throttle
	dialFails Throttle

	http   *handoff
	raft   *handoff
	client *http.Client
	rotor  *rotatingTransport

	server atomic.Pointer[http.Server]

	unsubscribe func()
	rotationMu  sync.Mutex
	grace       *time.Timer // under rotationMu
	graceFor    time.Duration

	stop      context.Context
	cancel    context.CancelFunc
	closeOnce sync.Once
	wg        sync.WaitGroup
}

// Listen opens the private port. Connections are taken immediately and wait up to
// HandshakeTimeout for Serve or the stream layer's Accept. Without a secret file it fails for
// an address that is not loopback.
func Listen(cfg PortConfig) (*Port, error) {
	cfg.setDefaults()
	if cfg.Secrets.LoopbackOnly() {
		if err := checkAllLoopback(cfg.LookupHost, cfg.Addr, cfg.Advertise); err != nil {
			return nil, fmt.Errorf("private port: %w", err)
		}
	}
	ln, err := cfg.Network.Listen(context.Background(), "tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("private port: %w", err)
	}
	advertise, err := AdvertiseAddr(cfg.Advertise, ln.Addr())
	if err != nil {
		_ = ln.Close() // the error above is the one to report
		return nil, fmt.Errorf("private port: %w", err)
	}
	p := &Port{
		cfg:       cfg,
		logger:    cfg.Logger,
		listener:  ln,
		advertise: advertise,
		creds:     &credentials{serverID: cfg.ServerID, clusterID: cfg.ClusterID, now: time.Now},
		conns:     newConnSet(),
		pending:   newcomers{most: MaxHandshakes},
		graceFor:  RotationGrace,
		http:      newHandoff(ln.Addr()),
		raft:      newHandoff(serverAddr(cfg.ServerID)),
	}
	p.stop, p.cancel = context.WithCancel(context.Background())
	p.rotor = &rotatingTransport{port: p}
	p.rotor.current.Store(p.newTransport())
	p.client = newClient(p.rotor)
	p.unsubscribe = cfg.Secrets.subscribe(p.secretsChanged)
	p.wg.Go(p.acceptLoop)
	return p, nil
}

func (cfg *PortConfig) setDefaults() {
	cfg.DialTimeout = cmp.Or(cfg.DialTimeout, defaultDialTimeout)
	cfg.PingTimeout = cmp.Or(cfg.PingTimeout, defaultPingTimeout)
	cfg.Network = cfg.Network.WithDefaults(net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount})
	if cfg.LookupHost == nil {
		cfg.LookupHost = net.DefaultResolver.LookupHost
	}
}

// AdvertiseAddr returns the host:port for other nodes.
func (p *Port) AdvertiseAddr() string { return p.advertise }

// StreamLayer returns Raft's stream layer on the port. Its addresses are server ids.
func (p *Port) StreamLayer() raft.StreamLayer { return &streamLayer{p.raft, p} }

// LastHeard returns when bytes of a server last arrived at the port, or the start of the port if the
// server was never heard.
func (p *Port) LastHeard(serverID string) time.Time { return p.conns.lastHeard(serverID) }

// Joined closes every connection that is not verified as one of the cluster that this
// node has just joined. Members of the cluster can connect again.
func (p *Port) Joined(clusterID string) {
	p.conns.closeIf(func(c *conn) bool { return c.cluster != clusterID })
}

// Shutdown stops accepting connections, waits for running HTTP requests until ctx ends,
// then closes all connections. The caller transfers leadership first.
func (p *Port) Shutdown(ctx context.Context) error {
	var err error
	if server := p.server.Load(); server != nil {
		err = server.Shutdown(ctx)
	}
	return errors.Join(err, p.Close())
}

// Close closes the listener and all connections. It is safe to call more than
// once.
func (p *Port) Close() error {
	var err error
	p.closeOnce.Do(func() {
		p.unsubscribe()
		p.stopRotation()
		err = p.listener.Close()
		_ = p.http.Close() // cannot fail
		_ = p.raft.Close() // cannot fail
		if server := p.server.Load(); server != nil {
			err = errors.Join(err, server.Close())
		}
		p.conns.close()
		p.client.CloseIdleConnections()
		p.wg.Wait()
	})
	return err
}

func (p *Port) acceptLoop() {
	backoff := time.Duration(0)
	for {
		raw, err := p.listener.Accept()
		if err != nil {
			if p.stop.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			backoff = min(max(2*backoff, minAcceptBackoff), maxAcceptBackoff)
			p.logger.Warn("private port cannot take a connection", "error", err, "retry_in", backoff)
			select {
			case <-p.stop.Done():
				return
			case <-time.After(backoff):
			}
			continue
		}
		backoff = 0
		c := p.conns.add(raw, true)
		if c == nil {
			_ = raw.Close() // shutting down
			return
		}
		p.pending.begin(c)
		p.wg.Go(func() { p.admit(c) })
	}
}

// admit performs the handshake of an incoming connection and hands it to the server of
// its protocol.
func (p *Port) admit(c *conn) {
	tc, err := p.serverHandshake(c)
	p.pending.end(c)
	if err != nil {
		_ = c.Close() // rejected
		p.logRejected(c.RemoteAddr(), err)
		return
	}
	to := p.http
	if c.protocol == ProtocolRaft {
		to = p.raft
	}
	if !to.deliver(tc, HandshakeTimeout) {
		_ = tc.Close() // no server accepted it
	}
}
