package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/mcp"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/page"
	"github.com/commons-cluster/commons/api/wire"
)

// New makes a server. It fails if the registry already holds its metrics.
func New(cfg Config) (*Server, error) {
	if cfg.Backend == nil {
		return nil, errors.New("api: no backend")
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	measured := newMetrics()
	if err := errors.Join(cfg.Registry.Register(measured.durations), cfg.Registry.Register(measured.inFlight), cfg.Registry.Register(measured.proxied)); err != nil {
		return nil, fmt.Errorf("register the measurements of the HTTP surface: %w", err)
	}
	cfg.Limits.Connections = cmp.Or(cfg.Limits.Connections, MaxConnections)
	env, err := op.NewEnvironment(&cfg.Config, cfg.Registry, operations())
	if err != nil {
		return nil, err
	}
	cfg.PublicURL = strings.TrimSuffix(cfg.PublicURL, "/")
	cfg.Robots = cmp.Or(cfg.Robots, RobotsAllow)
	s := &Server{
		Environment: env,
		cfg:         cfg,
		metrics:     measured,
		requests:    newRequestLog(env.Logger, cfg.RequestLog),
		clients:     clients{cfg.TrustedProxies, cfg.MetricsFrom},
		document:    cfg.Operator.described(servedOpenAPI()),
		table:       routes(),
	}
	s.documentForAgents = sync.OnceValues(func() (string, error) { return forAgents(s.document) })
	operator := cfg.Operator.sentence()
	s.site = page.New(operator, mcp.Setup)
	if s.tools, err = s.newTools(); err != nil {
		return nil, err
	}
	if s.pages, err = readPages(operator, s.tools.List()); err != nil {
		return nil, err
	}
	if s.encodings, err = newEncodings(); err != nil {
		return nil, err
	}
	s.router = s.newRouter()
	s.http = s.newHTTP(cfg.Limits.Connections)
	s.Waits, s.releaseWaits = context.WithCancel(context.Background())
	s.Writes, s.endWrites = context.WithCancel(context.Background())
	return s, nil
}

// servedOpenAPI returns the description of the interface as clients get it: later versions may add
// members to any answer.
var servedOpenAPI = sync.OnceValue(func() string {
	return regexp.MustCompile(`,\s*"additionalProperties": false`).ReplaceAllString(openAPI, "")
})

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
		for _, path := range spellings(o.Path) {
			app.Add(o.Method, path, s.serve(o))
			if o.Method == http.MethodGet {
				app.Add(http.MethodHead, path, s.serve(o))
			}
		}
	}
	return app.Handler()
}

// newHTTP makes the HTTP server. It is not Fiber's, so that every answer passes through one
// place, also answers to requests that never reach the router.
func (s *Server) newHTTP(connections int) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:        s.handle,
		HeaderReceived: shortenPath,
		ErrorHandler:   s.unreadable,
		Logger:         fasthttpLog{s.Logger},
		// Connections that give way need a moment to end.
		Concurrency:                  2*connections + guard.Reserve,
		ConnState:                    connState,
		ReadBufferSize:               maxHeaderBytes,
		WriteBufferSize:              op.AnswerBuffer,
		ReadTimeout:                  readTimeout,
		IdleTimeout:                  idleTimeout,
		MaxRequestBodySize:           wire.MaxBodyBytes,
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true,
		CloseOnShutdown:              true,
		// Thousands of calls may wait in home: they must not keep a buffer meanwhile.
		ReduceMemoryUsage: true,
	}
}

// fasthttpLog logs the messages of the HTTP server. Only their format is logged,
// because their arguments quote requests.
type fasthttpLog struct{ log *slog.Logger }

func (l fasthttpLog) Printf(format string, _ ...any) {
	l.log.Debug("http server", "event", format)
}
