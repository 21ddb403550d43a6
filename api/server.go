package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/mcp"
	"github.com/commons-cluster/commons/api/page"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// The headers that are not part of a final standard: our own and those of drafts.
const (
	headerNode            = "X-Commons-Node"
	headerIndex           = "X-Commons-Index"
	headerStale           = "X-Commons-Stale-Ms"
	headerMinIndex        = "X-Commons-Min-Index"
	headerRateLimit       = "RateLimit"
	headerRateLimitPolicy = "RateLimit-Policy"
	headerForwardedFor    = fiber.HeaderXForwardedFor
)

// The content types of answers.
const (
	contentJSON     = "application/json"
	contentText     = "text/plain; charset=utf-8"
	contentMarkdown = "text/markdown; charset=utf-8"
)

// DefaultWriteRate and DefaultWriteBurst describe the rate limit of writes where
// Config does not.
const (
	DefaultWriteRate  = 30
	DefaultWriteBurst = 10
)

// DefaultClaimTTL is how long a claim of a job lasts where Config does not say.
const DefaultClaimTTL = 24 * time.Hour

// Config configures a Server.
type Config struct {
	// Backend answers for the node. Required.
	Backend Backend
	// Logger receives errors and a sample of the requests. Nil discards.
	Logger *slog.Logger
	// RequestLog is the maximum number of requests logged per second. Requests of
	// operators are never logged.
	RequestLog int
	// Guard limits the resources of each client address. Connections may be lower
	// because of the limit of open files; zero means MaxConnections.
	Guard guard.Limits
	// TrustedProxies are the networks that may set X-Forwarded-For.
	TrustedProxies []netip.Prefix
	// MetricsFrom are the networks that may read /metrics. Nil means loopback, private
	// and link-local networks.
	MetricsFrom []netip.Prefix
	// Registry receives the server's metrics and is served at /metrics.
	// Nil makes a new one.
	Registry *prometheus.Registry
	// HouseAgents are the names of the operator's own agents.
	HouseAgents []string
	// WriteRate (per minute) and WriteBurst are the write limit that the backend
	// enforces; the server shows them in RateLimit-Policy. Zero means the default.
	WriteRate, WriteBurst int
	// Unlimited says that the backend limits no writes.
	Unlimited bool
	// ClaimTTL is how long a claim of a job lasts; zero is DefaultClaimTTL.
	ClaimTTL time.Duration
	// Build identifies this build. Builds with different names share no entity tags,
	// because their answers may differ. "" shares none with any other process.
	Build string
	// PublicURL is the base of the URLs that agents are shown, such as
	// https://commons.example; "" means the address that the request was sent to.
	PublicURL string
	// Operator names the operator of this service.
	Operator Operator
	// Notify restricts the addresses of receivers of pushed events.
	Notify NotifyRules
	// DualCard adds the fields of A2A 0.3 to the agent card.
	DualCard bool
	// Counter is notified of every call. Nil is allowed.
	Counter Counter
	// Robots is the body of GET /robots.txt; "" means RobotsAllow.
	Robots string
	// NoteRead is called with the duration of each read that did not wait. Nil is allowed.
	NoteRead func(took time.Duration)
	// Now is the clock for counting calls and for detecting a since in the future.
	// Nil means time.Now.
	Now func() time.Time
}

// Server serves the public HTTP interface of one node.
type Server struct {
	backend    Backend
	log        *slog.Logger
	requests   *requestLog
	clients    clients
	house      map[string]bool // by folded name
	ratePolicy string
	publicURL  string
	operator   Operator
	document   string // OpenAPI, with the operator
	notify     NotifyRules
	dualCard   bool
	gate       gate
	guard      *guard.Guard
	news       news
	claimTTL   time.Duration
	build      string
	homeTags   homeTags
	itemBytes  atomic.Int64 // how long an item of the last list was
	counter    Counter
	noteRead   func(time.Duration)
	unlimited  bool // no limits of writes
	robots     string
	now        func() time.Time
	table      []operation
	operations map[string]*operation // those of the interface, by id
	pages      map[string]string     // of the documentation, by name
	tools      *mcp.Server
	site       *page.Site
	metrics    *metrics
	encodings  *encodings
	exposition fasthttp.RequestHandler
	router     fasthttp.RequestHandler
	http       *fasthttp.Server

	// waits ends when the server stops, and ends all waiting calls.
	// writes ends when the time for a graceful stop is over.
	waits, writes           context.Context
	releaseWaits, endWrites context.CancelFunc
}

// New makes a server. It fails when the registry already holds its measurements.
func New(cfg Config) (*Server, error) {
	if cfg.Backend == nil {
		return nil, errors.New("api: no backend")
	}
	s := &Server{
		backend: cfg.Backend,
		log:     cfg.Logger,

		requests: newRequestLog(cfg.Logger, cfg.RequestLog),
		clients:  clients{cfg.TrustedProxies, cfg.MetricsFrom},
		house:    make(map[string]bool, len(cfg.HouseAgents)),
		now:      cfg.Now,
		table:    operationTable(),

		claimTTL:  cfg.ClaimTTL,
		build:     cmp.Or(cfg.Build, rand.Text()),
		publicURL: strings.TrimSuffix(cfg.PublicURL, "/"),
		operator:  cfg.Operator, document: cfg.Operator.described(openAPI),
		notify: cfg.Notify, dualCard: cfg.DualCard,
		counter:  cfg.Counter,
		noteRead: cfg.NoteRead,
		robots:   cmp.Or(cfg.Robots, RobotsAllow),

		operations: make(map[string]*operation),
	}
	if s.claimTTL == 0 {
		s.claimTTL = DefaultClaimTTL
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	for _, name := range cfg.HouseAgents {
		s.house[text.Fold(text.AgentName(name))] = true
	}
	s.unlimited = cfg.Unlimited
	s.ratePolicy = writePolicy(cmp.Or(cfg.WriteRate, DefaultWriteRate), cmp.Or(cfg.WriteBurst, DefaultWriteBurst))
	registry := cfg.Registry
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	var err error
	if s.metrics, err = newMetrics(registry); err != nil {
		return nil, fmt.Errorf("register the measurements of the HTTP surface: %w", err)
	}
	for i := range s.table {
		if o := &s.table[i]; o.surface == command.SurfaceAPI {
			s.operations[o.id] = o
		}
	}
	for _, o := range slices.Concat(operatorOperations(), clusterOperations()) {
		s.operations[o.id] = &o
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	cfg.Guard.Connections = cmp.Or(cfg.Guard.Connections, MaxConnections)
	s.guard = guard.New(cfg.Guard)
	if err := registry.Register(s.guard); err != nil {
		return nil, fmt.Errorf("register the measurements of the bounds on strangers: %w", err)
	}
	s.news.watch = s.backend.WatchEvents
	s.exposition = exposition(registry)
	s.router = s.newRouter()
	s.http = s.newHTTP(cfg.Guard.Connections)
	s.waits, s.releaseWaits = context.WithCancel(context.Background())
	s.writes, s.endWrites = context.WithCancel(context.Background())
	return s, nil
}

// prepare builds the documents, cards and encoders that answers need.
func (s *Server) prepare() (err error) {
	if s.pages, err = readPages(s.operator.sentence()); err != nil {
		return err
	}
	if s.tools, err = s.newTools(); err != nil {
		return err
	}
	if s.encodings, err = newEncodings(); err != nil {
		return err
	}
	if s.site, err = page.New(s.operator.sentence()); err != nil {
		return fmt.Errorf("make the pages: %w", err)
	}
	return nil
}

// newRouter registers the table of operations with Fiber.
func (s *Server) newRouter() fasthttp.RequestHandler {
	app := fiber.New(fiber.Config{
		DisableStartupMessage: true,
		CaseSensitive:         true,
		BodyLimit:             wire.MaxBodyBytes,
		ErrorHandler:          s.unrouted,
	})
	for i := range s.table {
		o := &s.table[i]
		for _, path := range spellings(o.path) {
			app.Add(o.method, path, s.serve(o))
			if o.method == http.MethodGet {
				app.Add(http.MethodHead, path, s.serve(o))
			}
		}
	}
	return app.Handler()
}

// newHTTP makes the HTTP server below the router. We do not use Fiber's server, so
// that every answer passes through one place, including answers to requests that
// never reach the router.
func (s *Server) newHTTP(connections int) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:      s.handle,
		ErrorHandler: s.unreadable,
		Logger:       fasthttpLog{s.log},
		// Those that give way need a moment to end.
		Concurrency:                  2*connections + guard.Reserve,
		ConnState:                    connState,
		ReadBufferSize:               maxHeaderBytes,
		WriteBufferSize:              answerBuffer,
		ReadTimeout:                  readTimeout,
		IdleTimeout:                  idleTimeout,
		MaxRequestBodySize:           wire.MaxBodyBytes,
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true,
		CloseOnShutdown:              true,
		// Thousands of calls may wait in home: none of them keeps a buffer meanwhile.
		ReduceMemoryUsage: true,
	}
}

// Requests returns how many requests were answered since the start.
func (s *Server) Requests() uint64 { return s.metrics.answered.Load() }

// Forget drops the cached texts.
func (s *Server) Forget() {
	s.site.Forget()
	s.encodings.kept.Clear()
}

// Serve answers requests on a listener until Shutdown, and returns nil then.
func (s *Server) Serve(ln net.Listener) error {
	// A Shutdown may come before the server below knows the listener.
	guarded := s.newListener(ln)
	stop := context.AfterFunc(s.waits, func() { _ = guarded.Close() })
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

// fasthttpLog logs the messages of the HTTP server. Only their format is logged,
// because their arguments quote requests.
type fasthttpLog struct{ log *slog.Logger }

func (l fasthttpLog) Printf(format string, _ ...any) {
	l.log.Debug("http server", "event", format)
}

// The limits of requests and connections. The limits of entries are in fsm.
const (
	// answerBuffer is the size of the server's write buffer, in bytes.
	answerBuffer = 4 << 10
	// maxHeaderBytes limits the request line and the headers together. A body of
	// maxQueryBody code points, percent-encoded in a URL, must fit.
	maxHeaderBytes = 32 << 10
	// maxQueryBody is the longest entry body, in code points, that a GET may write.
	maxQueryBody = 1500
	// maxScannedItems is how many items of a list are searched for credentials.
	maxScannedItems = command.MaxSeen
	// MaxConnections is the most connections that are served at once.
	MaxConnections = 16384
	// maxForwarded is the number of hops of an X-Forwarded-For that are checked.
	maxForwarded = 32
)

// The times of a connection and of a request.
const (
	// readTimeout is how long a client may take to send one request.
	readTimeout = 10 * time.Second
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = 75 * time.Second
	// waitTimeout is how long a read waits for an index or for the leader.
	waitTimeout = 5 * time.Second
	// joinTimeout is how long a call waits at a node that is about to join a cluster.
	joinTimeout = 10 * time.Second
	// verifyTimeout is how long a registration waits for the check of a receiver. It
	// leaves time for a new leader to repeat the check.
	verifyTimeout = 12 * time.Second
	// proposeTimeout ends a write if the backend does not answer. The backend's own
	// timeout is shorter and reports the outcome more precisely.
	proposeTimeout = 15 * time.Second
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
