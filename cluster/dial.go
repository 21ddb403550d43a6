package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// minAttempt is the least share of a dial's time that one address gets, as long
// as there is time left.
const minAttempt = 500 * time.Millisecond

type dialTargetKey struct{}

// DialTarget returns the server id that a PortConfig.DialContext is called for.
func DialTarget(ctx context.Context) string {
	id, _ := ctx.Value(dialTargetKey{}).(string)
	return id
}

// streamLayer is raft.StreamLayer over a port: a listener for the Raft connections of
// verified peers, and a way to dial other nodes. Closing it leaves the port open.
type streamLayer struct {
	*handoff
	port *Port
}

// Dial connects to the server with that id. The timeout covers name lookup,
// connecting and the handshake, over all addresses of the server.
func (s *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.port.stop, timeout)
	defer cancel()
	tc, err := s.port.dial(ctx, string(address), ProtocolRaft, nil)
	if err != nil {
		return nil, err
	}
	return tc, nil
}

// dial connects to a server, trying all addresses of its host name until one
// proves to be that server.
func (p *Port) dial(ctx context.Context, serverID, protocol string, via any) (*tls.Conn, error) {
	addr, ok := p.cfg.Resolve(serverID)
	if !ok {
		return nil, fmt.Errorf("dial %s: no address known", serverID)
	}
	host, port, err := splitAddr(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", serverID, err)
	}
	ips, err := lookupIPs(ctx, p.cfg.LookupHost, host)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", serverID, err)
	}
	ctx = context.WithValue(ctx, dialTargetKey{}, serverID)
	var problems []error
	for i, ip := range ips {
		tc, err := p.dialOne(ctx, netip.AddrPortFrom(ip, port), serverID, protocol, via, len(ips)-i)
		if err == nil {
			return tc, nil
		}
		problems = append(problems, err)
		if ctx.Err() != nil {
			break
		}
	}
	err = fmt.Errorf("dial %s: %w", serverID, errors.Join(problems...))
	p.logDialFailure(serverID, err)
	return nil, err
}

// dialOne tries one address. left counts the addresses still to be tried, this
// one included; the remaining time is shared among them.
func (p *Port) dialOne(ctx context.Context, to netip.AddrPort, serverID, protocol string, via any, left int) (*tls.Conn, error) {
	if p.cfg.Secrets.LoopbackOnly() && !to.Addr().IsLoopback() {
		return nil, fmt.Errorf("%s is not a loopback address, and there is no secret file", to)
	}
	if deadline, ok := ctx.Deadline(); ok {
		share := max(time.Until(deadline)/time.Duration(left), minAttempt)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share)
		defer cancel()
	}
	raw, err := p.cfg.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	c := p.conns.add(raw, false)
	if c == nil {
		_ = raw.Close() // shutting down
		return nil, net.ErrClosed
	}
	tc, err := p.clientHandshake(ctx, c, serverID, protocol, via)
	if err != nil {
		_ = c.Close() // not the server that was meant
		return nil, fmt.Errorf("%s: %w", to, err)
	}
	return tc, nil
}

func (p *Port) clientHandshake(ctx context.Context, c *conn, serverID, protocol string, via any) (*tls.Conn, error) {
	keys := p.cfg.Secrets.current.Load()
	own, err := p.creds.certificate(keys)
	if err != nil {
		return nil, err
	}
	var peer verifiedPeer
	tc := clientTLS(c, own, keys, protocol, func(cs tls.ConnectionState) (err error) {
		if peer, err = p.creds.verifyPeer(cs, keys); err != nil {
			return err
		}
		if peer.serverID != serverID {
			return fmt.Errorf("server %s is there, not %s", peer.serverID, serverID)
		}
		if cs.NegotiatedProtocol != protocol {
			return fmt.Errorf("server %s does not speak %s", serverID, protocol)
		}
		return nil
	})
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, &handshakeError{err}
	}
	ok := p.conns.establish(c, func(c *conn) {
		c.peer, c.cluster, c.protocol, c.via = serverID, peer.clusterID, protocol, via
		c.peerKeyID, c.ownKeyID = peer.keyID, keys.first().id
	})
	if !ok {
		return nil, net.ErrClosed
	}
	// This node may have become part of a cluster since the check above.
	if err := p.creds.checkCluster(peer.peerIdentity); err != nil {
		return nil, &handshakeError{err}
	}
	return tc, nil
}

// clientTLS is the client's side of a connection between nodes.
func clientTLS(raw net.Conn, own *tls.Certificate, keys *keyset, protocol string, verify func(tls.ConnectionState) error) *tls.Conn {
	return tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS13,
		// Unlike Certificates this sends it to servers that would not accept
		// it too: they can then log whom they rejected, and why.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil },
		RootCAs:              keys.pool,
		ServerName:           certDNSName,
		NextProtos:           []string{protocol},
		VerifyConnection:     verify,
	})
}

// handshakeError is a failed TLS handshake, in an operator's words.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return explain(e.err) }
func (e *handshakeError) Unwrap() error { return e.err }

// logDialFailure logs what an operator has to correct: a wrong secret, cluster or
// server. That a server is down is for the caller to report.
func (p *Port) logDialFailure(serverID string, err error) {
	var failed *handshakeError
	if p.stop.Err() != nil || !errors.As(err, &failed) || isBrokenOff(failed) {
		return
	}
	if suppressed, ok := p.dialFails.allow(serverID + " " + failed.Error()); ok {
		p.logger.Warn("did not connect to a server", "server", serverID, "reason", err, "suppressed", suppressed)
	}
}

// operatorName begins the name that an operator's program shows to nodes.
const operatorName = "operator-"

// OperatorClient returns an HTTP client for the private port of whichever node
// listens at addr (host:port): the host of its URLs stands for nothing. It is
// for programs that are no nodes and have the cluster's secret. Without a secret
// file only loopback addresses are allowed. It has no timeout but the request's
// context; answers are those of one node as long as connections are kept.
func OperatorClient(secrets *Secrets, addr string) (*http.Client, error) {
	host, port, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	if host == "" || port == 0 {
		return nil, fmt.Errorf("address %q needs a host and a port", addr)
	}
	if secrets.LoopbackOnly() {
		if err := CheckLoopback(addr); err != nil {
			return nil, err
		}
	}
	creds := &credentials{serverID: operatorName + newSuffix(), clusterID: func() string { return "" }, now: time.Now}
	return newClient(newHTTP2(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialOperator(ctx, network, joinAddr(host, port), secrets.current.Load(), creds)
	})), nil
}

// dialOperator connects to any node of the secret's cluster.
func dialOperator(ctx context.Context, network, addr string, keys *keyset, creds *credentials) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	own, err := creds.certificate(keys)
	if err != nil {
		return nil, err
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tc := clientTLS(raw, own, keys, ProtocolHTTP, func(cs tls.ConnectionState) error {
		_, err := creds.verifyPeer(cs, keys)
		return err
	})
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(&handshakeError{err}, raw.Close())
	}
	return tc, nil
}

// MaxConnsPerPeer bounds the connections that one server may hold to this one.
// Raft pools a few and HTTP/2 needs one or two.
const MaxConnsPerPeer = 256

// conn is the raw side of one connection of the private port. TLS runs over it,
// so closing it ends whatever uses the connection at once.
type conn struct {
	net.Conn
	set     *connSet
	inbound bool

	// Set under set.mu when the handshake is done.
	peer      string // server id
	cluster   string // the peer's cluster id, as its certificate says; "" for none
	protocol  string
	peerKeyID string // secret of the peer's certificate
	ownKeyID  string // secret of our certificate
	via       any    // HTTP transport that it belongs to
}

func (c *conn) Close() error {
	c.set.remove(c)
	return c.Conn.Close()
}

// connSet knows every connection of a port.
type connSet struct {
	mu      sync.Mutex
	conns   map[*conn]struct{}
	inbound map[string]int // established, by server id
	closed  bool
}

func newConnSet() *connSet {
	return &connSet{conns: make(map[*conn]struct{}), inbound: make(map[string]int)}
}

// add tracks a raw connection, or returns nil when the set is closed.
func (s *connSet) add(raw net.Conn, inbound bool) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	c := &conn{Conn: raw, set: s, inbound: inbound}
	s.conns[c] = struct{}{}
	return c
}

// establish records the peer of a connection. It reports false when the peer has too
// many connections or the connection is closed by now.
func (s *connSet) establish(c *conn, note func(*conn)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.conns[c]; !ok {
		return false
	}
	note(c)
	if !c.inbound {
		return true
	}
	if s.inbound[c.peer] >= MaxConnsPerPeer {
		c.peer = "" // was not counted
		return false
	}
	s.inbound[c.peer]++
	return true
}

func (s *connSet) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.conns[c]; !ok {
		return
	}
	delete(s.conns, c)
	if !c.inbound || c.peer == "" {
		return
	}
	if s.inbound[c.peer]--; s.inbound[c.peer] == 0 {
		delete(s.inbound, c.peer)
	}
}

// closeIf closes the established connections that match and returns how many.
func (s *connSet) closeIf(match func(*conn) bool) int {
	s.mu.Lock()
	var found []*conn
	for c := range s.conns {
		if c.peer != "" && match(c) {
			found = append(found, c)
		}
	}
	s.mu.Unlock()
	for _, c := range found {
		_ = c.Close() // it is gone either way
	}
	return len(found)
}

// has reports whether an established connection matches.
func (s *connSet) has(match func(*conn) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.peer != "" && match(c) {
			return true
		}
	}
	return false
}

// close closes all connections and takes no more.
func (s *connSet) close() {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // it is gone either way
	}
}

// newcomers bounds the connections whose peer is not known yet. When there are too
// many the oldest is closed: a real peer is through in milliseconds, so those that
// linger are the ones to lose.
type newcomers struct {
	most int

	mu   sync.Mutex
	open []net.Conn // oldest first
}

func (n *newcomers) begin(c net.Conn) {
	n.mu.Lock()
	var oldest net.Conn
	if len(n.open) >= n.most {
		oldest = n.open[0]
		n.open = slices.Delete(n.open, 0, 1)
	}
	n.open = append(n.open, c)
	n.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // a stranger's
	}
}

func (n *newcomers) end(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.open, c); i >= 0 {
		n.open = slices.Delete(n.open, i, i+1)
	}
}
