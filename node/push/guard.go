package push

import (
	"net/netip"
	"syscall"

	"code.dny.dev/ssrf"
)

// httpsPort is the port of https.
const httpsPort = 443

// reserved are addresses that look public and are not: providers answer their
// customers' machines there.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's host
}

// guard decides which addresses may be connected to. It is asked about each
// address after the name was resolved and right before the connection is made,
// so that no answer of DNS can change in between.
type guard struct {
	public *ssrf.Guardian // the public internet, the ports of https
	allow  []netip.Prefix // in spite of everything else, for tests
	ports  []uint16
	own    func(netip.Addr) bool
}

func newGuard(cfg Config) *guard {
	g := &guard{ports: []uint16{httpsPort}, allow: cfg.AllowNets, own: cfg.Own}
	if cfg.Port != 0 {
		g.ports = append(g.ports, cfg.Port)
	}
	g.public = ssrf.New(ssrf.WithPorts(g.ports...))
	return g
}

// control is net.Dialer's Control.
func (g *guard) control(network, address string, raw syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return g.public.Safe(network, address, raw) // says what is wrong
	}
	addr := to.Addr().WithZone("")
	for _, p := range g.allow {
		if p.Contains(addr) {
			// The port is still looked at: with an address that is certainly public.
			return g.public.SafeAddrPort(netip.AddrPortFrom(certainlyPublic, to.Port()))
		}
	}
	for _, p := range reserved {
		if p.Contains(addr) {
			return errReserved
		}
	}
	if g.own != nil && g.own(addr.Unmap()) {
		return errOwn
	}
	return g.public.Safe(network, address, raw)
}

// certainlyPublic is an address that nobody keeps for special purposes.
var certainlyPublic = netip.AddrFrom4([4]byte{1, 1, 1, 1})
