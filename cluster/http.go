package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// DefaultMaxRequestBytes bounds a request body when nothing else is said.
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
	id := peerOf(ctx).serverID
	return id
}

// Serve answers HTTP/2 requests of other nodes until the port is closed. It
// returns nil then. Request bodies are cut off at MaxRequestBytes. It may be
// called once.
func (p *Port) Serve(h http.Handler) error {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	server := &http.Server{
		Handler:           p.limitBody(h),
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

// connPeer is whom an accepted connection was established with.
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
// operators' programs alone. Who only holds the secret, such as a server that was
// removed or belongs to no cluster, gets a 403. own is this node's cluster, "" while it
// has none: then everybody is answered, because the cluster is being formed or joined.
// member reports whether a server is in the configuration. One that has just joined
// may have connections from before, with no cluster in their certificate.
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

func (p *Port) limitBody(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, p.cfg.MaxRequestBytes)
		h.ServeHTTP(w, r)
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

func (p *Port) newTransport() *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	t := &http.Transport{
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
	t.DialTLSContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
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
	}
	return t
}
