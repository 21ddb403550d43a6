package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"github.com/hashicorp/memberlist"
)

func (g *Gossip) open() (err error) {
	conf := memberlist.DefaultLANConfig()
	conf.Logger = slog.NewLogLogger(gossipLog{g}, slog.LevelInfo)
	transport, bound, err := g.bind(conf)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			discardTransport(transport)
		}
	}()
	advertise, err := g.resolveAdvertise(bound)
	if err != nil {
		return err
	}
	g.advertise = advertise
	conf.Name = g.cfg.Meta.ServerID
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
	g.list, err = memberlist.Create(conf)
	return err
}

// bind opens TCP and UDP on one port. A port that is free for TCP may be in use for
// UDP, so bind tries several ports if the caller did not choose one.
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
			BindAddrs: []string{ips[0].String()}, BindPort: int(port), Logger: conf.Logger,
		})
		if err == nil {
			bound := netip.AddrPortFrom(ips[0], uint16(transport.GetAutoBindPort())) // a port fits
			return newGossipTransport(transport), net.TCPAddrFromAddrPort(bound), nil
		}
	}
	return nil, nil, err
}

// resolveAdvertise returns the advertised address with its host name resolved, because
// memberlist accepts only IP addresses.
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

// discardTransport shuts down a transport after memberlist failed to start. It reads
// the channels, because the listeners block on them.
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
