package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/mcp"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/moderate"
	"github.com/commons-cluster/commons/api/page"
	"github.com/commons-cluster/commons/api/wire"
)

// The headers that every answer has, and that of proxies.
const (
	headerNode         = "X-Commons-Node"
	headerIndex        = "X-Commons-Index"
	headerStale        = "X-Commons-Stale-Ms"
	headerForwardedFor = fiber.HeaderXForwardedFor
	headerForwarded    = fiber.HeaderForwarded
)

// Config configures a Server.
type Config struct {
	op.Config
	// RequestLog is the maximum number of requests logged per second. Requests of operators are never logged.
	RequestLog int
	// TrustedProxies are the networks that may set X-Forwarded-For.
	TrustedProxies []netip.Prefix
	// NoteProxy is called with the peer of each request that names its client in a header
	// that the server does not use: see TrustedProxies. Nil is allowed.
	NoteProxy func(peer netip.Addr)
	// MetricsFrom are the networks that may read /metrics. Nil means loopback, private and link-local networks.
	MetricsFrom []netip.Prefix
	// Registry receives the server's metrics and is served at /metrics. Nil makes a new one.
	Registry *prometheus.Registry
	// PublicURL is the base of the URLs that agents are shown, such as
	// https://commons.example; "" means the address that the request was sent to.
	PublicURL string
	// Redirect sends requests over plain HTTP to PublicURL, except those for health.
	Redirect bool
	// Operator names the operator of this service.
	Operator Operator
	// Robots is the body of GET /robots.txt; "" means RobotsAllow.
	Robots string
	// NoteRead is called with the duration of each read that did not wait. Nil is allowed.
	NoteRead func(took time.Duration)
}

// Server serves the public HTTP interface of one node.
type Server struct {
	*op.Environment
	cfg      Config // with its defaults
	requests *requestLog
	clients  clients
	document string // OpenAPI, with the operator
	// documentForAgents returns the part of document that agents need, made at its first use.
	documentForAgents func() (string, error)
	gate              gate
	table             []route
	pages             map[string]string // of the documentation, by name
	tools             *mcp.Server
	site              *page.Site
	encodings         *encodings
	metrics           *metrics
	router            fasthttp.RequestHandler
	http              *fasthttp.Server

	releaseWaits, endWrites context.CancelFunc
}

// Requests returns how many requests were answered since the start.
func (s *Server) Requests() uint64 { return s.metrics.answered.Load() }

// Forget drops the cached texts.
func (s *Server) Forget() {
	s.site.Forget()
	s.encodings.kept.Clear()
}

// Operate runs an operation of moderation for the operator, over the private port.
func (s *Server) Operate(operationID string, in wire.Invocation) wire.Performed {
	if !slices.ContainsFunc(append(moderate.Operations(), moderate.OperatorOperations()...), func(o op.Operation) bool { return o.ID == operationID }) {
		operationID = ""
	}
	return (&op.Relay{Env: s.Environment, Operator: true}).Perform(operationID, in)
}

// Serve answers requests on a listener until Shutdown, and returns nil then.
func (s *Server) Serve(ln net.Listener) error { return s.serveOn(ln, nil) }

// ServeTLS is Serve over TLS 1.2 and 1.3.
func (s *Server) ServeTLS(ln net.Listener, certificate guard.Certificate) error {
	return s.serveOn(ln, guard.TLS(certificate))
}

func (s *Server) serveOn(ln net.Listener, secure *tls.Config) error {
	// A Shutdown may come before the server below knows the listener.
	guarded := s.newListener(ln, secure)
	stop := context.AfterFunc(s.Waits, func() { _ = guarded.Close() })
	defer stop()
	if err := s.http.Serve(guarded); err != nil {
		return fmt.Errorf("serve HTTP on %s: %w", ln.Addr(), err)
	}
	return nil
}

// Shutdown stops accepting, ends every waiting read, and lets writes finish until
// ctx ends; the remaining writes are answered as outcome_unknown. After it returns,
// the backend is no longer called. It returns ctx's error when connections were
// left open.
func (s *Server) Shutdown(ctx context.Context) error {
	s.releaseWaits()
	defer s.gate.close()
	defer s.endWrites()
	stop := context.AfterFunc(ctx, s.endWrites)
	defer stop()
	if err := s.http.ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("stop serving HTTP: %w", err)
	}
	return nil
}

// The limits of requests and connections. The limits of entries are in fsm.
const (
	// maxHeaderBytes limits the request line and the headers together. A body of
	// maxQueryBody code points, percent-encoded in a URL, must fit.
	maxHeaderBytes = 32 << 10
	// MaxConnections is the most connections that are served at once.
	MaxConnections = 16384
)

// The times of a connection and of a request.
const (
	// readTimeout is how long a client may take to send one request.
	readTimeout = 10 * time.Second
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = 75 * time.Second
	// staleAfter is how long the node may be without contact to the leader before
	// answers carry X-Commons-Stale-Ms.
	staleAfter = time.Second
	// minAcceptPause and maxAcceptPause limit the pause after a failed accept, for
	// example at the limit of open files; acceptLogEvery is the minimum time between
	// two log lines about it.
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
	acceptLogEvery = 10 * time.Second
)
