package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// DefaultMaxRequestBytes bounds a request body when no other bound is configured.
	DefaultMaxRequestBytes = 4 << 20
	// MaxStreams bounds the concurrent requests on one connection.
	MaxStreams = 1024

	httpReadTimeout   = 30 * time.Second // one request's body
	httpWriteTimeout  = 60 * time.Second // one response; handlers may extend theirs
	httpServerIdle    = 5 * time.Minute  // longer than the client's, so that the client closes
	httpClientIdle    = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	streamWindowBytes = 1 << 20
	connWindowBytes   = 4<<20 - 1

	// A client pings a connection that has been silent this long; together
	// with the ping's own timeout, a dead peer is noticed within 2 s.
	clientPingAfter   = time.Second
	clientPingTimeout = 900 * time.Millisecond
	serverPingAfter   = 5 * time.Second
	serverPingTimeout = 5 * time.Second
	writeStallTimeout = 5 * time.Second
)

type peerKey struct{}

// PeerID returns the verified server id of the node that sent a request of the
// private port, "" for a context of anything else.
func PeerID(ctx context.Context) string {
	return peerOf(ctx).serverID
}

// Serve answers HTTP/2 requests of other nodes until the port is closed. It
// returns nil then. Request bodies are cut off at MaxRequestBytes. It may be
// called once.
func (p *Port) Serve(h http.Handler) error {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	server := &http.Server{
		Handler:           http.MaxBytesHandler(h, p.cfg.MaxRequestBytes),
		Protocols:         &protocols,
		ReadHeaderTimeout: HandshakeTimeout,
		ReadTimeout:       httpReadTimeout,
		WriteTimeout:      httpWriteTimeout,
		IdleTimeout:       httpServerIdle,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(p.logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          MaxStreams,
			MaxReceiveBufferPerStream:     streamWindowBytes,
			MaxReceiveBufferPerConnection: connWindowBytes,
			SendPingTimeout:               serverPingAfter,
			PingTimeout:                   serverPingTimeout,
			WriteByteTimeout:              writeStallTimeout,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, connPeer(c))
		},
	}
	p.serverMu.Lock()
	if p.server != nil {
		p.serverMu.Unlock()
		return errors.New("private port: Serve was called before")
	}
	p.server = server
	p.serverMu.Unlock()
	if err := server.Serve(p.http); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// connPeer is the peer of an accepted connection.
func connPeer(c net.Conn) peerIdentity {
	tc, ok := c.(*tls.Conn)
	if !ok {
		return peerIdentity{}
	}
	under, ok := tc.NetConn().(*conn)
	if !ok {
		return peerIdentity{}
	}
	return peerIdentity{clusterID: under.cluster, serverID: under.peer}
}

func peerOf(ctx context.Context) peerIdentity {
	who, _ := ctx.Value(peerKey{}).(peerIdentity)
	return who
}

// Members lets a handler of the private port answer members of the cluster and
// operators' programs alone. A peer that only holds the secret, such as a server that was
// removed or belongs to no cluster, gets a 403. own is this node's cluster, "" while it has none:
// then every request is answered, because the cluster is being formed or joined.
// member reports whether a server is in the configuration. A server that has just joined
// may still have older connections, with no cluster in their certificate.
func Members(own func() string, member func(serverID string) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, who := own(), peerOf(r.Context())
		operator := strings.HasPrefix(who.serverID, operatorName) && who.clusterID == ""
		if id == "" || operator || sameCluster(id, who.clusterID) && member(who.serverID) {
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w, fmt.Sprintf("server %q is no member of cluster %s", who.serverID, id), http.StatusForbidden)
	})
}

// Client returns the HTTP client for other nodes' private ports. The host of
// its URLs is a server id: https://<server id>/path. It follows no redirects,
// uses no proxy and has no timeout but the request's context.
func (p *Port) Client() *http.Client { return p.client }

func newClient(rt http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     rt,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// newHTTP2 returns a transport for private ports that dials as the function says.
func newHTTP2(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	return &http.Transport{
		DialTLSContext:     dial,
		Protocols:          &protocols,
		DisableCompression: true,
		IdleConnTimeout:    httpClientIdle,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:               clientPingAfter,
			PingTimeout:                   clientPingTimeout,
			WriteByteTimeout:              writeStallTimeout,
			MaxReceiveBufferPerStream:     streamWindowBytes,
			MaxReceiveBufferPerConnection: connWindowBytes,
		},
	}
}

func (p *Port) newTransport() (t *http.Transport) {
	t = newHTTP2(func(ctx context.Context, _, addr string) (net.Conn, error) {
		serverID, _, err := splitAddr(addr)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, DialTimeout)
		defer cancel()
		tc, err := p.dial(ctx, serverID, ProtocolHTTP, t)
		if err != nil {
			return nil, err
		}
		return tc, nil
	})
	return t
}

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

// MaxAnswerBytes bounds an answer on the private port that is read as a whole.
const MaxAnswerBytes = 4 << 20

// Send sends a request to a server's private port: a POST with JSON, or a GET where
// request is nil. The client is a Port's, or an OperatorClient, which ignores the server
// id. The caller closes the response's body.
func Send(ctx context.Context, client *http.Client, serverID, path string, request any) (*http.Response, error) {
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if request != nil {
		data, err := json.Marshal(request)
		if err != nil {
			return nil, fmt.Errorf("call %s of %s: %w", path, serverID, err)
		}
		method, body = http.MethodPost, bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+serverID+path, body)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// Ask sends a request as Send does and reads its JSON answer. An answer whose status
// is not 200 is an error.
func Ask[Answer any](ctx context.Context, client *http.Client, serverID, path string, request any) (Answer, error) {
	var answer Answer
	res, err := Send(ctx, client, serverID, path, request)
	if err != nil {
		return answer, err
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	if res.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("%s answered %s", serverID, res.Status)
	}
	if err := ReadAnswer(res.Body, &answer); err != nil {
		return answer, fmt.Errorf("answer of %s: %w", serverID, err)
	}
	return answer, nil
}

// ReadAnswer reads a JSON answer of at most MaxAnswerBytes.
func ReadAnswer(r io.Reader, answer any) error {
	data, err := io.ReadAll(io.LimitReader(r, MaxAnswerBytes+1))
	if err != nil {
		return err
	}
	if len(data) > MaxAnswerBytes {
		return fmt.Errorf("it has more than %d bytes", MaxAnswerBytes)
	}
	return json.Unmarshal(data, answer)
}

// Reply writes a JSON answer on the private port.
func Reply(w http.ResponseWriter, logger *slog.Logger, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		logger.Debug("an answer on the private port was lost", "error", err)
	}
}
