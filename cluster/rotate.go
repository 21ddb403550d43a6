package cluster

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

const drainCheckInterval = 250 * time.Millisecond

// rotatingTransport is an HTTP/2 transport that starts afresh when the secrets
// change: requests that run end on the connections they have.
type rotatingTransport struct {
	port    *Port
	current atomic.Pointer[http.Transport]
}

func newRotatingTransport(p *Port) *rotatingTransport {
	t := &rotatingTransport{port: p}
	t.current.Store(p.newTransport())
	return t
}

// RoundTrip sends one request over TLS; other schemes are refused.
func (t *rotatingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		if r.Body != nil {
			_ = r.Body.Close() // as RoundTripper demands
		}
		return nil, errors.New("private port: URLs are https://<server id>/path")
	}
	return t.current.Load().RoundTrip(r)
}

// CloseIdleConnections serves http.Client.CloseIdleConnections.
func (t *rotatingTransport) CloseIdleConnections() { t.current.Load().CloseIdleConnections() }

// rotate gives new requests new connections and lets the old ones run out.
func (t *rotatingTransport) rotate() {
	old := t.current.Swap(t.port.newTransport())
	lastDial := time.Now().Add(DialTimeout) // one may be under way
	t.port.wg.Go(func() {
		tick := time.NewTicker(drainCheckInterval)
		defer tick.Stop()
		for time.Now().Before(lastDial) || t.port.conns.has(func(c *conn) bool { return c.via == old }) {
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
// requests end, Raft's at once (it redials), and whatever a removed secret
// still holds open after RotationGrace.
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
	p.grace = time.AfterFunc(p.graceFor, p.closeUnaccepted)
}

// closeUnaccepted closes the connections of peers whose secret is gone.
func (p *Port) closeUnaccepted() {
	keys := p.cfg.Secrets.current.Load()
	if n := p.conns.closeIf(func(c *conn) bool { return !keys.accepts(c.peerKeyID) }); n > 0 {
		p.logger.Info("closed connections under a secret that is no longer accepted", "count", n)
	}
}

// stopRotation makes the port closing for good.
func (p *Port) stopRotation() {
	p.rotationMu.Lock()
	defer p.rotationMu.Unlock()
	p.cancel()
	if p.grace != nil {
		p.grace.Stop()
	}
}
