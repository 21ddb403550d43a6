package cluster

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

const drainCheckInterval = 250 * time.Millisecond

// rotatingTransport is an HTTP/2 transport that opens new connections when the secrets
// change: running requests end on the connections they have.
type rotatingTransport struct {
	port    *Port
	current atomic.Pointer[http.Transport]
}

// RoundTrip sends one request over TLS; other schemes are rejected.
func (t *rotatingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		if r.Body != nil {
			_ = r.Body.Close() // as RoundTripper demands
		}
		return nil, errors.New("private port: URLs are https://<server id>/path")
	}
	return t.current.Load().RoundTrip(r)
}

func (t *rotatingTransport) CloseIdleConnections() { t.current.Load().CloseIdleConnections() }

// rotate uses new connections for new requests. Old connections close after their
// requests.
func (t *rotatingTransport) rotate() {
	old := t.current.Swap(t.port.newTransport())
	lastDial := time.Now().Add(t.port.cfg.DialTimeout) // one may be under way
	t.port.wg.Go(func() {
		tick := time.NewTicker(drainCheckInterval)
		defer tick.Stop()
		for time.Now().Before(lastDial) || len(t.port.conns.matching(func(c *conn) bool { return c.via == old })) > 0 {
			old.CloseIdleConnections()
			select {
			case <-t.port.stop.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// secretsChanged moves connections over to the new secrets: HTTP/2 as its
// requests end, Raft's immediately (it redials). After RotationGrace it closes the
// connections that were verified with a removed secret.
func (p *Port) secretsChanged() {
	p.rotationMu.Lock()
	defer p.rotationMu.Unlock()
	if p.stop.Err() != nil {
		return
	}
	p.rotor.rotate()
	keys := p.cfg.Secrets.current.Load()
	p.conns.closeIf(func(c *conn) bool {
		return !c.inbound && c.protocol == ProtocolRaft && (c.ownKeyID != keys.first().id || !keys.accepts(c.peerKeyID))
	})
	if p.grace != nil {
		p.grace.Stop()
	}
	p.grace = time.AfterFunc(p.graceFor, func() {
		keys := p.cfg.Secrets.current.Load()
		if n := p.conns.closeIf(func(c *conn) bool { return !keys.accepts(c.peerKeyID) }); n > 0 {
			p.logger.Info("closed connections under a secret that is no longer accepted", "count", n)
		}
	})
}

func (p *Port) stopRotation() {
	p.rotationMu.Lock()
	defer p.rotationMu.Unlock()
	p.cancel()
	if p.grace != nil {
		p.grace.Stop()
	}
}
