package api

import (
	"bytes"
	"cmp"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/mcp"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/trace"
)

// The headers of cross-origin access: any origin, no credentials.
const (
	corsMethods = "GET, HEAD, POST, DELETE, OPTIONS"
	corsHeaders = "Content-Type, Authorization, If-None-Match, " + op.HeaderKey + ", " + op.HeaderMinIndex + ", " + a2a.HeaderVersion + ", A2A-Extensions, X-A2A-Extensions" +
		", " + mcp.HeaderVersion + ", Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID, " + trace.Header
	corsExposed = headerNode + ", " + headerIndex + ", " + headerStale + ", ETag, Location, Allow, Retry-After, " +
		op.HeaderRateLimit + ", " + op.HeaderRateLimitPolicy
	corsMaxAge = "86400"
)

// exchangeKey is the key of a request's exchange in its user values.
type exchangeKey struct{}

// handle answers one request. Everything passes through here: routed requests,
// unknown paths and methods, and panics.
func (s *Server) handle(rctx *fasthttp.RequestCtx) {
	conn, guarded := guard.Of(rctx.Conn())
	x := s.newExchange(rctx)
	if guarded && !conn.Begin() { // it is closing, and the client may still get an answer
		x.turnAway(tooManyConnections())
		return
	}
	if !s.gate.enter() {
		x.turnAway(shuttingDown())
		return
	}
	defer s.gate.leave()
	s.metrics.inFlight.Inc()
	defer x.finish()
	if guarded && conn.Reserved() && !healthPaths[string(rctx.URI().PathOriginal())] {
		rctx.SetConnectionClose()
		x.fail(tooManyConnections())
		return
	}
	defer func() {
		if cause := recover(); cause != nil {
			x.Panicked(cause)
			x.Out = op.Answer{}
			rctx.Response.Reset()
			x.fail(wire.Internal())
		}
	}()
	if err := checkFraming(&rctx.Request.Header); err != nil {
		rctx.SetConnectionClose()
		x.fail(&wire.Error{Code: wire.CodeMalformedRequest, Message: "This is not a well-formed HTTP/1.1 request: " + err.Error() + "."})
		return
	}
	switch method := string(rctx.Method()); {
	case s.cfg.Redirect && x.scheme() != schemeHTTPS && !healthPaths[string(rctx.URI().PathOriginal())] && string(rctx.URI().PathOriginal()) != longPath:
		x.redirect()
	case method == http.MethodOptions:
		x.preflight()
	case methodLabel(method) == "other":
		x.fail(s.noRoute(rctx.URI()))
	default:
		if x.Origin().Proxied { // its address is that of a proxy
			s.metrics.proxied.Inc()
			if s.cfg.NoteProxy != nil {
				s.cfg.NoteProxy(peerAddress(rctx.RemoteAddr()))
			}
		}
		rctx.SetUserValue(exchangeKey{}, x)
		s.router(rctx)
	}
}

const (
	maxPath  = 2 << 10 // in bytes, more than the longest path that is served
	longPath = "/path-of-more-than-2048-bytes"
)

// shortenPath replaces a path longer than maxPath by longPath, which is not served. It is called before
// the server parses the path, because normalizing takes time with the square of the length.
func shortenPath(h *fasthttp.RequestHeader) (asConfigured fasthttp.RequestConfig) {
	if path, _, _ := bytes.Cut(h.RequestURI(), []byte("?")); len(path) > maxPath {
		h.SetRequestURI(longPath)
	}
	return asConfigured
}

// serve returns the Fiber handler of a route.
func (s *Server) serve(rt *route) fiber.Handler {
	return func(path *fiber.Ctx) error {
		x, _ := path.Context().UserValue(exchangeKey{}).(*exchange)
		x.Operation, x.path = &rt.Operation, path
		defer func() { x.path = nil }()
		if err := x.run(rt); err != nil {
			x.showFailure(err)
		}
		return nil
	}
}

// run carries out the request of a route.
func (x *exchange) run(rt *route) error {
	if x.MayWrite() && !x.IsHead() {
		if header := x.pageHeader(); header != "" {
			return x.askPerson(header)
		}
	}
	if rt.Surface != 0 && (rt.Surface != command.SurfaceWeb || rt.Page) { // it shows the state
		if err := x.WaitReady(); err != nil {
			return err
		}
	}
	if rt.serve == nil {
		return rt.Handle.Serve(&x.Call)
	}
	return op.Simple(func(*op.Call) error { return rt.serve(x) }).Serve(&x.Call)
}

// unrouted answers a request without a route.
func (s *Server) unrouted(path *fiber.Ctx, _ error) error {
	x, _ := path.Context().UserValue(exchangeKey{}).(*exchange)
	x.showFailure(s.noRoute(path.Context().URI()))
	return nil
}

// shuttingDown returns the error for a request that arrives on an open connection after the end.
func shuttingDown() *wire.Error {
	return &wire.Error{Code: wire.CodeNotReady, Message: "This node is shutting down. Ask another one."}
}

// turnAway answers a request with an error, without the backend.
func (x *exchange) turnAway(e *wire.Error) {
	x.rctx.SetConnectionClose()
	x.fail(e)
	x.send()
}

// redirect sends a request over plain HTTP to the same path of the public URL.
func (x *exchange) redirect() {
	x.Out.Status = http.StatusPermanentRedirect
	x.Out.Set(fiber.HeaderLocation, x.http.cfg.PublicURL+x.target())
}

// target is the path and the query of a request.
func (x *exchange) target() string {
	uri := x.rctx.URI()
	target := string(uri.PathOriginal())
	if query := uri.QueryString(); len(query) > 0 {
		target += "?" + string(query)
	}
	return target
}

// preflight answers OPTIONS for any path.
func (x *exchange) preflight() {
	x.Out.Status = http.StatusNoContent
	x.Out.Set(op.HeaderAllow, cmp.Or(allowedMethods(x.http.table, string(x.rctx.URI().PathOriginal())), corsMethods))
	x.Out.Set(fiber.HeaderAccessControlAllowMethods, corsMethods)
	x.Out.Set(fiber.HeaderAccessControlAllowHeaders, corsHeaders)
	x.Out.Set(fiber.HeaderAccessControlMaxAge, corsMaxAge)
}

// finish sends the answer with the headers of every answer, measures and logs it.
func (x *exchange) finish() {
	s := x.http
	x.send()
	x.encode()
	x.guardAnswer()
	x.stamp()
	if x.stream != nil {
		x.stream.takeOver(x.rctx)
	}
	x.Count()
	x.Release()
	status := x.rctx.Response.StatusCode()
	method := methodLabel(string(x.rctx.Method()))
	took := time.Since(x.start)
	s.metrics.inFlight.Dec()
	counted := status
	if x.final { // a 503 that the client causes: counted as 5xx, it would raise an alert
		counted = http.StatusConflict
	}
	s.metrics.observe(x.Template(), method, counted, took)
	if s.cfg.NoteRead != nil && x.Operation != nil && x.Operation.Surface != 0 && !x.Waited && x.writeIndex() == 0 {
		s.cfg.NoteRead(took)
	}
	if template := x.Template(); surfaceOf(template) != 0 {
		parent := x.Trace
		if x.Relay != nil {
			parent = x.Relay.Traced()
		}
		s.requests.write(x.start.Add(took), method, template, status, len(x.rctx.Response.Body()), took, parent)
	}
}

// stamp sets the headers that every response carries.
func (x *exchange) stamp() {
	h := &x.rctx.Response.Header
	h.Set(headerNode, x.Env.Backend.NodeName())
	h.Set(headerIndex, strconv.FormatUint(max(x.View().Index(), x.writeIndex()), 10))
	if stale := x.Env.Backend.StaleFor(); stale > staleAfter {
		h.Set(headerStale, strconv.FormatInt(stale.Milliseconds(), 10))
	}
	h.Set(fiber.HeaderAccessControlAllowOrigin, "*")
	h.Set(fiber.HeaderAccessControlExposeHeaders, corsExposed)
	h.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	if len(h.Peek(op.HeaderCacheControl)) == 0 {
		h.Set(op.HeaderCacheControl, "no-cache")
	}
	if vary := h.Peek(op.HeaderVary); len(vary) > 0 {
		h.Set(op.HeaderVary, string(vary)+", "+fiber.HeaderAcceptEncoding)
	} else {
		h.Set(op.HeaderVary, fiber.HeaderAcceptEncoding)
	}
}

// unreadable answers a request that could not be read. The connection is closed afterwards.
func (s *Server) unreadable(rctx *fasthttp.RequestCtx, err error) {
	x := s.newExchange(rctx)
	if !s.gate.enter() {
		x.turnAway(shuttingDown())
		return
	}
	defer s.gate.leave()
	s.metrics.inFlight.Inc()
	defer x.finish()
	conn, guarded := guard.Of(rctx.Conn())
	if guarded {
		conn.Linger()
	}
	var headers *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.As(err, &headers), errors.Is(err, fasthttp.ErrSmallReadBuffer):
		x.fail(&wire.Error{Code: wire.CodeHeadersTooLarge, Message: "The URL and the headers together may have 32 KiB."})
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		x.fail(&wire.Error{
			Code: wire.CodeBodyTooLarge, Message: "A request body may have 128 KiB.",
			Issues: []wire.Issue{{wire.RequestBody, "may have at most " + strconv.Itoa(wire.MaxBodyBytes) + " bytes"}},
		})
	case guarded && conn.Slow():
		x.fail(&wire.Error{
			Code: wire.CodeRateLimited, RetryAfter: time.Second,
			Message: "Too many requests are arriving at once, from your address or in all, and this one took the longest. Send fewer at once, each as a whole.",
			Limit:   &command.RateLimit{Name: "arrivals", Quota: s.Guard.Limits().AddressArrivals, Window: time.Second},
		})
	case errors.As(err, &network) && network.Timeout():
		x.fail(&wire.Error{Code: wire.CodeTimeout, Message: "The request did not arrive within 10 seconds."})
	default:
		x.fail(&wire.Error{Code: wire.CodeMalformedRequest, Message: "This is not a well-formed HTTP/1.1 request."})
	}
}
