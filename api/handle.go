package api

import (
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// The headers of cross-origin access: any origin, no credentials.
const (
	corsMethods = "GET, HEAD, POST, OPTIONS"
	corsHeaders = "Content-Type, " + headerMinIndex
	corsExposed = headerNode + ", " + headerIndex + ", " + headerStale + ", Location, Allow, Retry-After, " +
		headerRateLimit + ", " + headerRateLimitPolicy
	corsMaxAge = "86400"
)

// callKey is where a request's call is kept.
type callKey struct{}

// handle answers one request. Everything passes through here: routed requests,
// unknown paths and methods, and panics.
func (s *Server) handle(rctx *fasthttp.RequestCtx) {
	c := &call{srv: s, rctx: rctx, start: time.Now()}
	if !s.gate.enter() {
		c.turnAway()
		return
	}
	defer s.gate.leave()
	s.metrics.inFlight.Inc()
	defer s.finish(c)
	defer func() {
		if cause := recover(); cause != nil {
			s.metrics.panics.Inc()
			s.log.Error("handler panicked", "route", c.template(), "cause", cause, "stack", string(debug.Stack()))
			rctx.Response.Reset()
			c.fail(&Error{Code: codeInternal, Message: "Something went wrong here. It was logged."})
		}
	}()
	if err := checkFraming(&rctx.Request.Header); err != nil {
		rctx.SetConnectionClose()
		c.fail(&Error{Code: codeMalformedRequest, Message: "This is not a well-formed HTTP/1.1 request: " + err.Error() + "."})
		return
	}
	switch method := string(rctx.Method()); {
	case method == http.MethodOptions:
		s.preflight(c)
	case methodLabel(method) == "other":
		c.fail(s.noRoute(string(rctx.Path())))
	default:
		rctx.SetUserValue(callKey{}, c)
		s.router(rctx)
	}
}

// serve is a route as Fiber calls it.
func (s *Server) serve(rt *route) fiber.Handler {
	return func(path *fiber.Ctx) error {
		c, _ := path.Context().UserValue(callKey{}).(*call)
		c.route, c.path = rt, path
		defer func() { c.path = nil }()
		if err := rt.handle(c); err != nil {
			c.fail(err)
		}
		return nil
	}
}

// unrouted answers what Fiber found no route for.
func (s *Server) unrouted(path *fiber.Ctx, _ error) error {
	c, _ := path.Context().UserValue(callKey{}).(*call)
	c.fail(s.noRoute(string(path.Context().Path())))
	return nil
}

// noRoute is the 404 or 405 of a path.
func (s *Server) noRoute(path string) *Error {
	if allow := allowedMethods(s.routes, path); allow != "" {
		return &Error{Code: codeMethodNotAllowed, Message: "This path takes other methods: " + allow + ".", Allow: allow}
	}
	return &Error{Code: codeNotFound, Message: "There is nothing at this path. GET / lists what there is."}
}

// turnAway answers what comes in on an open connection after the end.
func (c *call) turnAway() {
	c.rctx.SetConnectionClose()
	c.fail(&Error{Code: codeNotReady, Message: "This node is shutting down. Ask another one."})
}

// preflight answers OPTIONS for any path.
func (s *Server) preflight(c *call) {
	h := &c.rctx.Response.Header
	allow := allowedMethods(s.routes, string(c.rctx.Path()))
	if allow == "" {
		allow = corsMethods
	}
	h.Set(fiber.HeaderAllow, allow)
	h.Set(fiber.HeaderAccessControlAllowMethods, corsMethods)
	h.Set(fiber.HeaderAccessControlAllowHeaders, corsHeaders)
	h.Set(fiber.HeaderAccessControlMaxAge, corsMaxAge)
	c.rctx.SetStatusCode(http.StatusNoContent)
}

// finish adds the headers of every answer, measures and logs it.
func (s *Server) finish(c *call) {
	s.stamp(c)
	c.release()
	status := c.rctx.Response.StatusCode()
	method := methodLabel(string(c.rctx.Method()))
	took := time.Since(c.start)
	s.metrics.inFlight.Dec()
	s.metrics.observe(c.template(), method, status, took)
	s.log.Debug("request", "method", method, "route", c.template(), "status", status,
		"took", took, "bytes", len(c.rctx.Response.Body()))
}

// stamp sets the headers that every response carries.
func (s *Server) stamp(c *call) {
	h := &c.rctx.Response.Header
	h.Set(headerNode, s.backend.NodeName())
	h.Set(headerIndex, strconv.FormatUint(max(c.read().Index(), c.index), 10))
	if stale := s.backend.StaleFor(); stale > staleAfter {
		h.Set(headerStale, strconv.FormatInt(stale.Milliseconds(), 10))
	}
	h.Set(fiber.HeaderAccessControlAllowOrigin, "*")
	h.Set(fiber.HeaderAccessControlExposeHeaders, corsExposed)
	h.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	if len(h.Peek(fiber.HeaderCacheControl)) == 0 {
		h.Set(fiber.HeaderCacheControl, "no-cache")
	}
}

// unreadable answers a request that could not be read. The connection is closed
// afterwards.
func (s *Server) unreadable(rctx *fasthttp.RequestCtx, err error) {
	c := &call{srv: s, rctx: rctx, start: time.Now()}
	if !s.gate.enter() {
		c.turnAway()
		return
	}
	defer s.gate.leave()
	s.metrics.inFlight.Inc()
	defer s.finish(c)
	if conn, lingers := rctx.Conn().(*lingerConn); lingers {
		conn.refused.Store(true)
	}
	var headers *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.As(err, &headers), errors.Is(err, fasthttp.ErrSmallReadBuffer):
		c.fail(&Error{Code: codeHeadersTooLarge, Message: "The URL and the headers together may have 32 KiB."})
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		c.fail(&Error{Code: codeBodyTooLarge, Message: "A request body may have 128 KiB.", Example: minimalEntry()})
	case errors.As(err, &network) && network.Timeout():
		c.fail(&Error{Code: codeTimeout, Message: "The request did not arrive within 10 seconds."})
	default:
		c.fail(&Error{Code: codeMalformedRequest, Message: "This is not a well-formed HTTP/1.1 request."})
	}
}
