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
	// MaxRequestBytes bounds a request body.
	MaxRequestBytes = 4 << 20
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
	// with the ping's own timeout, a node notices a dead peer within 2 s.
	clientPingAfter    = time.Second
	defaultPingTimeout = 900 * time.Millisecond
	// An operator's command has a timeout of its own, and no other node to turn to: a
	// busy node may be slow to answer.
	operatorPingTimeout = 20 * time.Second

	serverPingAfter   = 5 * time.Second
	serverPingTimeout = 5 * time.Second
	writeStallTimeout = 5 * time.Second
)

type peerKey struct{}

// PeerID returns the verified server id of the node that sent a request to the private
// port. It returns "" if ctx does not belong to such a request.
func PeerID(ctx context.Context) string {
	return peerOf(ctx).serverID
}

// Serve answers HTTP/2 requests of other nodes until the port is closed, and returns nil
// then. Request bodies are cut off at MaxRequestBytes. It may be called once.
func (p *Port) Serve(h http.Handler) error {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	server := &http.Server{
		Handler:           http.MaxBytesHandler(h, MaxRequestBytes),
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
			under := c.(*tls.Conn).NetConn().(*conn) // as admit hands it over
			return context.WithValue(ctx, peerKey{}, peerIdentity{clusterID: under.cluster, serverID: under.peer})
		},
	}
	if !p.server.CompareAndSwap(nil, server) {
		return errors.New("private port: Serve was called before")
	}
	if err := server.Serve(p.http); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func peerOf(ctx context.Context) peerIdentity {
	who, _ := ctx.Value(peerKey{}).(peerIdentity)
	return who
}

// Members restricts a handler of the private port to members of the cluster and
// operators' programs. Other peers that hold the secret, such as removed servers, get
// 403. own returns this node's cluster id. It returns "" before the node has a cluster;
// then all requests are allowed, because the cluster is being formed or joined. member
// reports whether a server is in the Raft configuration: a server that has just joined
// may still use older connections, without a cluster id in their certificate.
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

// Client returns the HTTP client for other nodes' private ports, https://<server id>/path.
// It follows no redirects, uses no proxy, and only the request's context limits its time.
func (p *Port) Client() *http.Client { return p.client }

func newClient(rt http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     rt,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// newHTTP2 returns a transport for private ports that dials as the function says, and
// closes a connection if a ping is not answered in time.
func newHTTP2(pingTimeout time.Duration, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	return &http.Transport{
		DialTLSContext:     dial,
		Protocols:          &protocols,
		DisableCompression: true,
		IdleConnTimeout:    httpClientIdle,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:               clientPingAfter,
			PingTimeout:                   pingTimeout,
			WriteByteTimeout:              writeStallTimeout,
			MaxReceiveBufferPerStream:     streamWindowBytes,
			MaxReceiveBufferPerConnection: connWindowBytes,
		},
	}
}

func (p *Port) newTransport() (t *http.Transport) {
	t = newHTTP2(p.cfg.PingTimeout, func(ctx context.Context, _, addr string) (net.Conn, error) {
		serverID, _, err := splitAddr(addr)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, p.cfg.DialTimeout)
		defer cancel()
		return p.dial(ctx, serverID, ProtocolHTTP, t)
	})
	return t
}

const operatorName = "operator-" // the prefix of the peer name of operators' programs
