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

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/mcp"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// The headers of cross-origin access: any origin, no credentials.
const (
	corsMethods = "GET, HEAD, POST, DELETE, OPTIONS"
	corsHeaders = "Content-Type, Authorization, If-None-Match, " + headerKey + ", " + headerMinIndex + ", " + a2a.HeaderVersion + ", A2A-Extensions, X-A2A-Extensions" +
		", " + mcp.HeaderVersion + ", Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID"
	corsExposed = headerNode + ", " + headerIndex + ", " + headerStale + ", ETag, Location, Allow, Retry-After, " +
		headerRateLimit + ", " + headerRateLimitPolicy
	corsMaxAge = "86400"
)

// callKey is where a request's call is kept.
type callKey struct{}

// handle answers one request. Everything passes through here: routed requests,
// unknown paths and methods, and panics.
func (s *Server) handle(rctx *fasthttp.RequestCtx) {
	conn, guarded := rctx.Conn().(*guard.Conn)
	if guarded && !conn.Begin() {
		rctx.SetConnectionClose() // it is closing: nobody reads the answer
		return
	}
	c := s.newCall(rctx)
	if !s.gate.enter() {
		c.turnAway()
		return
	}
	defer s.gate.leave()
	s.metrics.inFlight.Inc()
	defer s.finish(c)
	if guarded && conn.Reserved() && !healthPaths[string(rctx.URI().PathOriginal())] {
		rctx.SetConnectionClose()
		c.fail(tooManyConnections())
		return
	}
	defer func() {
		if cause := recover(); cause != nil {
			c.panicked(cause)
			rctx.Response.Reset()
			c.fail(wire.Internal())
		}
	}()
	if err := checkFraming(&rctx.Request.Header); err != nil {
		rctx.SetConnectionClose()
		c.fail(&wire.Error{Code: wire.CodeMalformedRequest, Message: "This is not a well-formed HTTP/1.1 request: " + err.Error() + "."})
		return
	}
	switch method := string(rctx.Method()); {
	case method == http.MethodOptions:
		s.preflight(c)
	case methodLabel(method) == "other":
		c.fail(s.noRoute(rctx.URI()))
	default:
		rctx.SetUserValue(callKey{}, c)
		s.router(rctx)
	}
}

// panicked reports a handler that panicked.
func (c *call) panicked(cause any) {
	c.srv.metrics.panics.Inc()
	c.srv.log.Error("handler panicked", "route", c.template(), "cause", cause, "stack", string(debug.Stack()))
}

// serve is an operation as Fiber calls it.
func (s *Server) serve(o *operation) fiber.Handler {
	return func(path *fiber.Ctx) error {
		c, _ := path.Context().UserValue(callKey{}).(*call)
		c.operation, c.http.path = o, path
		defer func() { c.http.path = nil }()
		var err error
		if o.needsState() {
			err = c.waitReady()
		}
		if err == nil {
			err = o.handle.serve(c)
		}
		if err != nil {
			c.showFailure(err)
		}
		return nil
	}
}

// needsState reports whether an operation is about the state.
func (o *operation) needsState() bool {
	return o.surface != 0 && (o.surface != command.SurfaceWeb || o.page)
}

// waitReady keeps a call that needs the state while this node is not part of a
// cluster yet, or has not caught up since it started: a load balancer may send calls
// before it has found that out. It returns an error when the node is still not there:
// its state is empty, or may show what has been purged.
func (c *call) waitReady() error {
	err := c.waitFor(c.srv.backend.Joined(), &command.Unavailable{
		Code: command.CodeNoLeader, Reason: "this node has not joined a cluster yet; ask another one",
	})
	if err != nil {
		return err
	}
	return c.waitFor(c.srv.backend.CaughtUp(), &command.Unavailable{
		Code: command.CodeBehind, Reason: "this node has just started and does not know yet what was erased while it was down; ask another one",
	})
}

// waitFor waits until a channel is closed; in vain, it returns late.
func (c *call) waitFor(over <-chan struct{}, late error) error {
	select {
	case <-over:
		return nil
	default:
	}
	ctx, done := c.wait(joinTimeout)
	defer done()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return late
	}
}

// unrouted answers what Fiber found no route for.
func (s *Server) unrouted(path *fiber.Ctx, _ error) error {
	c, _ := path.Context().UserValue(callKey{}).(*call)
	c.showFailure(s.noRoute(path.Context().URI()))
	return nil
}

// turnAway answers what comes in on an open connection after the end.
func (c *call) turnAway() {
	c.rctx.SetConnectionClose()
	c.fail(&wire.Error{Code: wire.CodeNotReady, Message: "This node is shutting down. Ask another one."})
}

// preflight answers OPTIONS for any path.
func (s *Server) preflight(c *call) {
	h := &c.rctx.Response.Header
	allow := allowedMethods(s.table, string(c.rctx.URI().PathOriginal()))
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
	c.encode()
	s.guardAnswer(c)
	s.stamp(c)
	if c.stream != nil {
		c.stream.takeOver(c.rctx)
	}
	c.count()
	c.release()
	status := c.rctx.Response.StatusCode()
	method := methodLabel(string(c.rctx.Method()))
	took := time.Since(c.start)
	s.metrics.inFlight.Dec()
	s.metrics.observe(c.template(), method, status, took)
	if s.noteRead != nil && c.operation != nil && c.operation.surface != 0 && c.index == 0 && !c.waited && c.relay.highest() == 0 {
		s.noteRead(took)
	}
	if template := c.template(); surfaceOf(template) != 0 {
		s.requests.write(c.start.Add(took), method, template, status, len(c.rctx.Response.Body()), took)
	}
}

// stamp sets the headers that every response carries.
func (s *Server) stamp(c *call) {
	h := &c.rctx.Response.Header
	h.Set(headerNode, s.backend.NodeName())
	h.Set(headerIndex, strconv.FormatUint(max(c.read().Index(), c.index, c.relay.highest()), 10))
	if stale := s.backend.StaleFor(); stale > staleAfter {
		h.Set(headerStale, strconv.FormatInt(stale.Milliseconds(), 10))
	}
	h.Set(fiber.HeaderAccessControlAllowOrigin, "*")
	h.Set(fiber.HeaderAccessControlExposeHeaders, corsExposed)
	h.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	if len(h.Peek(fiber.HeaderCacheControl)) == 0 {
		h.Set(fiber.HeaderCacheControl, "no-cache")
	}
	if vary := h.Peek(fiber.HeaderVary); len(vary) > 0 {
		h.Set(fiber.HeaderVary, string(vary)+", "+fiber.HeaderAcceptEncoding)
	} else {
		h.Set(fiber.HeaderVary, fiber.HeaderAcceptEncoding)
	}
}

// unreadable answers a request that could not be read. The connection is closed
// afterwards.
func (s *Server) unreadable(rctx *fasthttp.RequestCtx, err error) {
	c := s.newCall(rctx)
	if !s.gate.enter() {
		c.turnAway()
		return
	}
	defer s.gate.leave()
	s.metrics.inFlight.Inc()
	defer s.finish(c)
	conn, guarded := rctx.Conn().(*guard.Conn)
	if guarded {
		conn.Linger()
	}
	var headers *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.As(err, &headers), errors.Is(err, fasthttp.ErrSmallReadBuffer):
		c.fail(&wire.Error{Code: wire.CodeHeadersTooLarge, Message: "The URL and the headers together may have 32 KiB."})
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		c.fail(&wire.Error{
			Code: wire.CodeBodyTooLarge, Message: "A request body may have 128 KiB.",
			Issues: []wire.Issue{{wire.RequestBody, "may have at most " + strconv.Itoa(wire.MaxBodyBytes) + " bytes"}},
		})
	case guarded && conn.Slow():
		c.fail(&wire.Error{
			Code: wire.CodeRateLimited, RetryAfter: time.Second,
			Message: "Too many requests are arriving at once, from your address or in all, and this one took the longest. Send fewer at once, each as a whole.",
			Limit:   &command.RateLimit{Name: "arrivals", Quota: s.guard.Limits().AddressArrivals, Window: time.Second},
		})
	case errors.As(err, &network) && network.Timeout():
		c.fail(&wire.Error{Code: wire.CodeTimeout, Message: "The request did not arrive within 10 seconds."})
	default:
		c.fail(&wire.Error{Code: wire.CodeMalformedRequest, Message: "This is not a well-formed HTTP/1.1 request."})
	}
}
