package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

const moveTimeout = 500 * time.Millisecond // for the notice to the others that an address is given up

// open opens gossip's sockets and starts memberlist, if the advertised name has an address
// already.
func (g *Gossip) open() error {
	transport, bound, err := g.bind()
	if err != nil {
		return err
	}
	g.transport = transport
	if g.own, err = AdvertiseAddr(g.cfg.Advertise, bound); err == nil {
		err = checkHostPort("advertised", g.own)
	}
	if err == nil {
		err = g.renew()
	}
	if err != nil {
		discardTransport(transport)
	}
	return err
}

// bind opens TCP and UDP on one port. A port that is free for TCP may be in use for
// UDP, so bind tries several ports if the caller did not choose one.
func (g *Gossip) bind() (*gossipTransport, net.Addr, error) {
	host, port, err := splitAddr(g.cfg.Bind)
	if err != nil {
		return nil, nil, err
	}
	if host == "" {
		host = netip.IPv4Unspecified().String()
	}
	ips, err := g.lookup(host)
	if err != nil {
		return nil, nil, err
	}
	if g.cfg.Network.Packets != nil {
		addr := netip.AddrPortFrom(ips[0], port)
		transport, err := g.cfg.Network.Packets(addr)
		if err != nil {
			return nil, nil, err
		}
		return newGossipTransport(transport), net.TCPAddrFromAddrPort(addr), nil
	}
	attempts := 1
	if port == 0 {
		attempts = autoPortAttempts
	}
	for range attempts {
		var transport *memberlist.NetTransport
		transport, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{ips[0].String()}, BindPort: int(port), Logger: slog.NewLogLogger(gossipLog{slog.DiscardHandler, g}, slog.LevelInfo),
		})
		if err == nil {
			bound := netip.AddrPortFrom(ips[0], uint16(transport.GetAutoBindPort())) // a port fits
			return newGossipTransport(transport), net.TCPAddrFromAddrPort(bound), nil
		}
	}
	return nil, nil, err
}

func (g *Gossip) lookup(host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(g.stop, lookupTimeout)
	defer cancel()
	return lookupIPs(ctx, g.cfg.LookupHost, host)
}

// lookupOwn returns the addresses that other nodes may be given for this one. memberlist
// accepts only IP addresses.
func (g *Gossip) lookupOwn() ([]netip.AddrPort, error) {
	host, port, err := splitAddr(g.own)
	if err != nil {
		return nil, err
	}
	ips, err := g.lookup(host)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		if g.cfg.Secrets.LoopbackOnly() && !ip.IsLoopback() {
			return nil, fmt.Errorf("%s is not a loopback address, and there is no secret file", ip)
		}
		addrs[i] = netip.AddrPortFrom(ip, port)
	}
	return addrs, nil
}

// renew looks up the advertised name. It starts memberlist once the name has an address, and
// again at another address when the name no longer has the one in use: memberlist cannot
// change the address of a living member. A name that does not resolve is no error.
func (g *Gossip) renew() error {
	addrs, err := g.lookupOwn()
	select {
	case g.moving <- struct{}{}:
		defer func() { <-g.moving }()
	case <-g.stop.Done():
	}
	if g.stop.Err() != nil {
		return nil
	}
	if err != nil {
		g.noteUnresolved(err)
		return nil
	}
	g.problem.Store(nil)
	switch list := g.list.Load(); {
	case list == nil:
	case slices.Contains(addrs, g.address()):
		return nil
	default:
		g.logger.Warn("the gossip address to advertise has changed", "address", g.own, "former", g.address(), "now", addrs[0])
		g.retire(list)
	}
	return g.begin(addrs[0])
}

// noteUnresolved keeps and logs the problem of the advertised name.
func (g *Gossip) noteUnresolved(err error) {
	consequence := "this node takes no part in gossip until it is"
	if g.list.Load() != nil {
		consequence = "gossip keeps the address " + g.address().String()
	}
	problem := fmt.Sprintf("its gossip address, %s, cannot be resolved, and %s: %v", g.own, consequence, err)
	g.problem.Store(&problem)
	if suppressed, ok := g.lines.Allow("advertise"); ok {
		g.logger.Warn("the gossip address to advertise cannot be resolved, trying on", "address", g.own, "consequence", consequence, "error", err, "suppressed", suppressed)
	}
}

// retire ends a memberlist. Its members are searched for again.
func (g *Gossip) retire(list *memberlist.Memberlist) {
	// The others accept another address only of a member that left, or that has been dead for a while.
	if err := list.Leave(moveTimeout); err != nil {
		g.logger.Debug("not all other nodes were notified", "error", err)
	}
	_ = list.Shutdown() // cannot fail: the transport stays open
	g.list.Store(nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delegate.retired = true
	maps.DeleteFunc(g.members, func(id string, _ Member) bool { return id != g.cfg.Meta.ServerID })
	clear(g.settled)
}

// begin starts memberlist at an address.
func (g *Gossip) begin(at netip.AddrPort) error {
	d := &delegate{Gossip: g}
	g.mu.Lock()
	g.advertise, g.delegate = at, d
	g.mu.Unlock()
	conf := memberlist.DefaultLANConfig()
	conf.Logger = slog.NewLogLogger(gossipLog{slog.DiscardHandler, g}, slog.LevelInfo)
	conf.Name = g.cfg.Meta.ServerID
	conf.Transport = lentTransport{g.transport}
	conf.AdvertiseAddr, conf.AdvertisePort = at.Addr().String(), int(at.Port())
	conf.BindPort = int(at.Port())
	conf.Keyring = g.keyring
	conf.Delegate, conf.Events = d, d
	conf.Alive, conf.Merge, conf.Conflict = d, d, d
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
	g.list.Store(list)
	notify(g.dirty) // the metadata may have changed since Create read it
	return nil
}

// address returns the advertised address, invalid before the name has one.
func (g *Gossip) address() netip.AddrPort {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.advertise
}

// Addr returns the advertised gossip address, IP:port, or the name while it has no address yet.
func (g *Gossip) Addr() string {
	if at := g.address(); at.IsValid() {
		return at.String()
	}
	return g.own
}

// AddressProblem returns the reason why the advertised name has no address, and the
// consequence, or "".
func (g *Gossip) AddressProblem() string {
	if problem := g.problem.Load(); problem != nil {
		return *problem
	}
	return ""
}

// lentTransport is the transport of one memberlist. Its sockets stay open for the next one.
type lentTransport struct{ *gossipTransport }

func (lentTransport) Shutdown() error { return nil }

// discardTransport shuts down a transport that memberlist does not read. It reads the
// channels, because the listeners block on them.
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
