package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"
)

// Network opens the connections of a node or of an operator's program. A nil function
// means the system's network; tests replace all three.
type Network struct {
	Listen      func(ctx context.Context, network, addr string) (net.Listener, error)
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// Packets returns gossip's transport at an address.
	Packets func(addr netip.AddrPort) (memberlist.NodeAwareTransport, error)
}

// WithDefaults returns n with the system's TCP listener and dialer for its nil functions.
func (n Network) WithDefaults(keepAlive net.KeepAliveConfig) Network {
	if n.Listen == nil {
		n.Listen = (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen
	}
	if n.DialContext == nil {
		n.DialContext = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	}
	return n
}

const minAttempt = 500 * time.Millisecond // the minimum time for one address of a dial, as long as time is left

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
	return s.port.dial(ctx, string(address), ProtocolRaft, nil)
}

// dial tries all addresses of a server's host name until one proves to be that server.
func (p *Port) dial(ctx context.Context, serverID, protocol string, via any) (net.Conn, error) {
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

// dialOne tries one address. left is the number of untried addresses, this one
// included; they share the remaining time.
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
	raw, err := p.cfg.Network.DialContext(ctx, "tcp", to.String())
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

// logDialFailure logs failures that an operator has to correct: a wrong secret, cluster
// or server. The caller reports servers that are down.
func (p *Port) logDialFailure(serverID string, err error) {
	var failed *handshakeError
	if p.stop.Err() != nil || !errors.As(err, &failed) || isBrokenOff(failed) {
		return
	}
	if suppressed, ok := p.dialFails.Allow(serverID + " " + failed.Error()); ok {
		p.logger.Warn("did not connect to a server", "server", serverID, "reason", err, "suppressed", suppressed)
	}
}
