package health

import (
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// proxyMemory is how long a proxy that is not trusted is shown after its last request, and
// the time between two lines in the log.
const proxyMemory = time.Hour

// untrustedProxyText is the warning about a proxy that is not trusted.
const untrustedProxyText = "%s passes requests and names their clients in X-Forwarded-For or Forwarded, which this node does not use: " +
	"no address proves a name, and all clients share one limit of writes. If it is your balancer, add it to --trusted-proxies and let it send X-Forwarded-For"

// publicProxy stands for a proxy with a public address: it may be a client that sends the
// header itself, and addresses of clients are not kept.
const publicProxy = "a public address"

// proxies remembers the newest request of a proxy that is not trusted. The zero value is
// ready. Instants are times since the node started.
type proxies struct {
	mu     sync.Mutex
	name   string // empty before the first request
	at     time.Duration
	logged time.Duration
}

// add notes a request at an instant. It returns the proxy to log, or "" if a line was
// logged within proxyMemory.
func (p *proxies) add(at time.Duration, peer netip.Addr) (log string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.name == ""
	p.name, p.at = publicProxy, at
	if peer.IsLoopback() || peer.IsPrivate() || peer.IsLinkLocalUnicast() {
		p.name = peer.String()
	}
	if !first && at < p.logged+proxyMemory {
		return ""
	}
	p.logged = at
	return p.name
}

// newest returns the proxy of the newest request if that came within proxyMemory before an
// instant, or "".
func (p *proxies) newest(at time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at >= p.at+proxyMemory {
		return ""
	}
	return p.name
}

// NoteProxy notes a request that names its client in a header which the node does not use.
func (h *Health) NoteProxy(peer netip.Addr) {
	if name := h.proxies.add(h.sinceStart(), peer); name != "" {
		h.cfg.Logger.Warn("a proxy is not trusted", "problem", fmt.Sprintf(untrustedProxyText, name))
	}
}
