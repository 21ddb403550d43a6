package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// ProtocolHTTP is the ALPN name of HTTP/2 on the private port.
	ProtocolHTTP = "h2"
	// ProtocolRaft is the ALPN name of Raft's stream on the private port.
	ProtocolRaft = "commons-raft"

	// HandshakeTimeout bounds an incoming handshake, and how long a finished
	// one waits for the protocol's server to take it.
	HandshakeTimeout = 5 * time.Second
	// MaxHandshakes bounds the incoming handshakes at any time.
	MaxHandshakes = 256
	// DialTimeout bounds one HTTP/2 dial over all addresses of a server.
	DialTimeout = 2 * time.Second
	// RotationGrace is how long connections outlive the secret that they were
	// verified with.
	RotationGrace = 10 * time.Second

	keepAliveIdle     = 5 * time.Second
	keepAliveInterval = 2 * time.Second
	keepAliveCount    = 3
	minAcceptBackoff  = 5 * time.Millisecond
	maxAcceptBackoff  = time.Second
)

// PortConfig configures a private port: its addresses and trusted peers.
type PortConfig struct {
	// Addr is the host:port to listen on; port 0 picks a free one.
	Addr string
	// Advertise is what others dial, completed as AdvertiseAddr says.
	Advertise string
	// ServerID is this node's server id.
	ServerID string
	// ClusterID returns the id of this node's cluster, "" while it has none.
	// It is called at each handshake. nil means always "".
	ClusterID func() string
	// Secrets key the certificates.
	Secrets *Secrets
	// Resolve returns the host:port of a server's private port. It is called
	// at each dial.
	Resolve func(serverID string) (addr string, ok bool)
	// Logger receives rejections and failures; nil discards them.
	Logger *slog.Logger
	// MaxRequestBytes bounds an HTTP request body; 0 means
	// DefaultMaxRequestBytes.
	MaxRequestBytes int64

	// DialContext replaces the TCP dialler. Its addresses are IP:port, and
	// DialTarget returns the server that is meant. For tests that cut links.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// LookupHost replaces the host name lookup, for tests.
	LookupHost func(ctx context.Context, host string) ([]string, error)
	// Gate rejects incoming connections of the servers for which it returns
	// false, for tests that cut links. See CloseConns for those that exist.
	Gate func(serverID string) bool
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
	rejected  throttle
	dialFails throttle

	http   *handoff
	raft   *handoff
	client *http.Client
	rotor  *rotatingTransport

	serverMu sync.Mutex
	server   *http.Server

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
// HandshakeTimeout for Serve or the stream layer's Accept. Errors: a bad
// configuration, an address that cannot be bound, or one that is not loopback
// while there is no secret file.
func Listen(cfg PortConfig) (*Port, error) {
	if err := checkPortConfig(&cfg); err != nil {
		return nil, err
	}
	if cfg.Secrets.LoopbackOnly() {
		if err := checkAllLoopback(cfg.LookupHost, cfg.Addr, cfg.Advertise); err != nil {
			return nil, fmt.Errorf("private port: %w", err)
		}
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive()}
	ln, err := lc.Listen(context.Background(), "tcp", cfg.Addr)
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
	p.wg.Add(1)
	go p.acceptLoop()
	return p, nil
}

func checkPortConfig(cfg *PortConfig) error {
	var problems []error
	if !ValidServerID(cfg.ServerID) {
		problems = append(problems, fmt.Errorf("server id %q is not valid", cfg.ServerID))
	}
	if cfg.Secrets == nil {
		problems = append(problems, errors.New("secrets are missing"))
	}
	if cfg.Resolve == nil {
		problems = append(problems, errors.New("the resolver is missing"))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("private port: %w", err)
	}
	if cfg.ClusterID == nil {
		cfg.ClusterID = func() string { return "" }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.MaxRequestBytes = cmp.Or(cfg.MaxRequestBytes, DefaultMaxRequestBytes)
	if cfg.DialContext == nil {
		cfg.DialContext = (&net.Dialer{KeepAliveConfig: keepAlive()}).DialContext
	}
	if cfg.LookupHost == nil {
		cfg.LookupHost = net.DefaultResolver.LookupHost
	}
	return nil
}

func checkAllLoopback(lookup lookupFunc, addrs ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	var problems []error
	for _, addr := range addrs {
		if addr == "" {
			continue
		}
		host, port, err := splitAddr(addr)
		if err == nil {
			err = checkLoopback(ctx, lookup, joinAddr(host, port))
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}
}

// Addr is the bound address.
func (p *Port) Addr() net.Addr { return p.listener.Addr() }

// AdvertiseAddr is the host:port that others dial.
func (p *Port) AdvertiseAddr() string { return p.advertise }

// StreamLayer is Raft's side of the port. Its addresses are server ids.
func (p *Port) StreamLayer() raft.StreamLayer { return &streamLayer{p.raft, p} }

// CloseConns closes every connection with a server, in both directions.
func (p *Port) CloseConns(serverID string) {
	p.conns.closeIf(func(c *conn) bool { return c.peer == serverID })
}

// Joined closes every connection whose peer has not shown that it belongs to the cluster
// that this node has just joined: connections that were allowed while the node had no
// cluster are not allowed any more. Members of the cluster can connect again.
func (p *Port) Joined(clusterID string) {
	p.conns.closeIf(func(c *conn) bool { return c.cluster != clusterID })
}

// Shutdown stops taking connections, lets running HTTP requests end until the
// context does, then closes everything. Give leadership away before.
func (p *Port) Shutdown(ctx context.Context) error {
	p.serverMu.Lock()
	server := p.server
	p.serverMu.Unlock()
	var err error
	if server != nil {
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
		p.serverMu.Lock()
		server := p.server
		p.serverMu.Unlock()
		if server != nil {
			err = errors.Join(err, server.Close())
		}
		p.conns.close()
		p.client.CloseIdleConnections()
		p.wg.Wait()
	})
	return err
}

func (p *Port) acceptLoop() {
	defer p.wg.Done()
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
		p.wg.Add(1)
		go p.admit(c)
	}
}

// admit shakes hands with an incoming connection and passes it on.
func (p *Port) admit(c *conn) {
	defer p.wg.Done()
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
		_ = tc.Close() // nobody serves it
	}
}

func (p *Port) serverHandshake(c *conn) (*tls.Conn, error) {
	keys := p.cfg.Secrets.current.Load()
	own, err := p.creds.certificate(keys)
	if err != nil {
		return nil, err
	}
	var peer verifiedPeer
	tc := tls.Server(c, &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{*own},
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              keys.pool,
		NextProtos:             []string{ProtocolHTTP, ProtocolRaft},
		SessionTicketsDisabled: true, // every connection is verified afresh
		VerifyConnection: func(cs tls.ConnectionState) (err error) {
			peer, err = p.admitPeer(cs, keys)
			return err
		},
	})
	ctx, cancel := context.WithTimeout(p.stop, HandshakeTimeout)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	ok := p.conns.establish(c, func(c *conn) {
		c.peer, c.cluster, c.protocol = peer.serverID, peer.clusterID, tc.ConnectionState().NegotiatedProtocol
		c.peerKeyID, c.ownKeyID = peer.keyID, keys.first().id
	})
	if !ok {
		return nil, fmt.Errorf("server %s has %d connections already, or was cut off", peer.serverID, MaxConnsPerPeer)
	}
	// The gate may have fallen, CloseConns passed, and this node become part of a
	// cluster since the checks above.
	return tc, errors.Join(p.checkGate(peer.serverID), p.creds.checkCluster(peer.peerIdentity))
}

func (p *Port) admitPeer(cs tls.ConnectionState, keys *keyset) (verifiedPeer, error) {
	peer, err := p.creds.verifyPeer(cs, keys)
	if err != nil {
		return verifiedPeer{}, err
	}
	if cs.NegotiatedProtocol == "" {
		return verifiedPeer{}, errors.New("it names no protocol")
	}
	return peer, p.checkGate(peer.serverID)
}

func (p *Port) checkGate(serverID string) error {
	if p.cfg.Gate != nil && !p.cfg.Gate(serverID) {
		return fmt.Errorf("server %s is gated off", serverID)
	}
	return nil
}

func (p *Port) logRejected(remote net.Addr, err error) {
	if p.stop.Err() != nil {
		return
	}
	if isBrokenOff(err) {
		p.logger.Debug("a connection to the private port ended before its handshake", "remote", remote, "error", err)
		return
	}
	host, _, splitErr := net.SplitHostPort(remote.String())
	if splitErr != nil {
		host = remote.String()
	}
	reason := explain(err)
	if suppressed, ok := p.rejected.allow(host + " " + reason); ok {
		p.logger.Warn("rejected a connection to the private port", "remote", remote, "reason", reason, "suppressed", suppressed)
	}
}

// handoff is a listener that gets its connections from the port, after the handshake.
type handoff struct {
	addr net.Addr
	ch   chan net.Conn
	done chan struct{}
	once sync.Once
}

func newHandoff(addr net.Addr) *handoff {
	return &handoff{addr: addr, ch: make(chan net.Conn), done: make(chan struct{})}
}

// deliver reports whether Accept took the connection in time.
func (h *handoff) deliver(c net.Conn, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case h.ch <- c:
		return true
	case <-h.done:
		return false
	case <-timer.C:
		return false
	}
}

// Accept returns the next connection; net.ErrClosed after Close.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case <-h.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-h.ch:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return. It is safe to call more than once.
func (h *handoff) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr is the address that the protocol knows this node by.
func (h *handoff) Addr() net.Addr { return h.addr }

// serverAddr is a server id as an address: what Raft calls servers by.
type serverAddr string

func (serverAddr) Network() string  { return "commons" }
func (a serverAddr) String() string { return string(a) }

// isBrokenOff reports whether a handshake ended because the connection did, and
// not because of anything that was said: port checks and dying peers.
func isBrokenOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// explain says in an operator's words why a handshake failed.
func explain(err error) string {
	var unknownCA x509.UnknownAuthorityError
	var notTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &unknownCA):
		return "its certificate comes from another cluster secret"
	case errors.As(err, &notTLS):
		return "it does not speak TLS"
	case strings.HasSuffix(err.Error(), "tls: unknown certificate authority"), strings.HasSuffix(err.Error(), "tls: bad certificate"):
		return "it does not accept this node's certificate: another cluster secret, or another server was meant (" + err.Error() + ")"
	}
	return err.Error()
}
