package api

import (
	"net"
	"net/netip"
	"strings"
)

// clients finds out from which address a request came.
type clients struct{ trusted []netip.Prefix }

// address returns the client's address: the peer's, or, where the peer is a
// trusted proxy, the rightmost address of X-Forwarded-For that is none. What
// stands further left was written by the client itself and is never looked at.
func (c *clients) address(peer net.Addr, forwarded [][]byte) netip.Addr {
	addr := peerAddress(peer)
	if !c.trusts(addr) {
		return addr
	}
	var hops []string
	for _, line := range forwarded {
		hops = append(hops, strings.Split(string(line), ",")...)
	}
	for i := len(hops) - 1; i >= max(0, len(hops)-maxForwarded); i-- {
		hop, ok := parseHop(hops[i])
		if !ok {
			return addr
		}
		addr = hop
		if !c.trusts(addr) {
			return addr
		}
	}
	return addr
}

func (c *clients) trusts(addr netip.Addr) bool {
	for _, prefix := range c.trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// peerAddress is the address of a connection's other end; the zero address where
// it has none.
func peerAddress(peer net.Addr) netip.Addr {
	if tcp, isTCP := peer.(*net.TCPAddr); isTCP {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// parseHop reads one element of X-Forwarded-For: an address, perhaps with a port.
func parseHop(hop string) (netip.Addr, bool) {
	hop = strings.TrimSpace(hop)
	if addr, err := netip.ParseAddr(strings.Trim(hop, "[]")); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if addrPort, err := netip.ParseAddrPort(hop); err == nil {
		return addrPort.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}
