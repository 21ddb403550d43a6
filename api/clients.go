package api

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/op"
)

// maxForwarded is the number of hops of an X-Forwarded-For that are checked.
const maxForwarded = 32

// clients determines the address of a request's client.
type clients struct {
	trusted   []netip.Prefix
	operators []netip.Prefix // may read /metrics; nil means loopback and private addresses
}

// measure reports whether a client may read /metrics.
func (c *clients) measure(addr netip.Addr) bool {
	if c.operators == nil {
		return addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast()
	}
	return within(c.operators, addr)
}

// origin returns the peer's address or, if the peer is a trusted proxy, the rightmost untrusted
// address of X-Forwarded-For. The client itself wrote the addresses further left. forwarded
// reports whether the request has the header Forwarded (RFC 7239), which is not read.
func (c *clients) origin(peer net.Addr, forwardedFor [][]byte, forwarded bool) op.Origin {
	from := op.Origin{Addr: peerAddress(peer)}
	trusted := c.trusts(from.Addr)
	if !trusted || len(forwardedFor) == 0 {
		from.Proxied = !trusted && len(forwardedFor) > 0 || forwarded
		return from
	}
	var hops []string
	for _, line := range forwardedFor {
		hops = append(hops, strings.Split(string(line), ",")...)
	}
	for i := len(hops) - 1; i >= max(0, len(hops)-maxForwarded); i-- {
		hop, ok := parseHop(hops[i])
		if !ok {
			from.Proxied = true
			return from
		}
		from.Addr = hop
		if !c.trusts(from.Addr) {
			return from
		}
	}
	return from
}

func (c *clients) trusts(addr netip.Addr) bool { return within(c.trusted, addr) }

// within reports whether an address is in one of the networks.
func within(nets []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// peerAddress returns the address of a connection's peer, or the zero address.
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

// maxHost is the longest host name with a port, in bytes.
const maxHost = 262

// withoutEmptyPort removes the colon of an empty port, which RFC 9110 permits.
func withoutEmptyPort(host string) string { return strings.TrimSuffix(host, ":") }

// validHost reports whether a Host header consists of a host and perhaps a port, so that it is
// safe in a URL.
func validHost(host string) bool {
	if host == "" || len(host) > maxHost {
		return false
	}
	if _, err := netip.ParseAddrPort(host); err == nil {
		return true
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		_, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && strings.HasSuffix(inner, "]")
	}
	name, port, hasPort := strings.Cut(host, ":")
	if name == "" || hasPort && (port == "" || len(port) > len("65535") || strings.Trim(port, "0123456789") != "") {
		return false
	}
	return strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

// CheckPublicURL returns an error if a base of URLs is invalid.
func CheckPublicURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", !validHost(u.Host):
		return errors.New("must be http:// or https:// and a host, such as https://commons.example")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.ForceQuery, u.Fragment != "", u.User != nil:
		return errors.New("must end after the host: the service is served at the root of it")
	}
	return nil
}
