package api

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/fsm"
)

// call is one request and the answer to it. Nothing that it returns points into
// the server's buffers.
type call struct {
	srv   *Server
	rctx  *fasthttp.RequestCtx
	path  *fiber.Ctx // for path parameters, while a handler runs
	route *route     // nil where no route matched
	start time.Time
	view  *fsm.View // what the answer shows; nil until something was read
	index uint64    // of a write that the answer reports
}

// The methods that the interface uses.
func (c *call) isHead() bool { return c.rctx.IsHead() }

// header returns a request header; "" when it is absent.
func (c *call) header(name string) string { return string(c.rctx.Request.Header.Peek(name)) }

// param returns a path parameter, unescaped.
func (c *call) param(name string) string {
	raw := c.path.Params(name)
	if decoded, err := url.PathUnescape(raw); err == nil && decoded != raw {
		return decoded
	}
	return string([]byte(raw))
}

// query returns the parameters of the URL.
func (c *call) query() ([]pair, error) {
	pairs, err := parsePairs(string(c.rctx.URI().QueryString()))
	if err != nil {
		return nil, &Error{Code: codeMalformedRequest, Message: "The query cannot be read: " + err.Error() + "."}
	}
	return pairs, nil
}

// body decodes the request body.
func (c *call) body() (document, error) {
	h := &c.rctx.Request.Header
	if len(h.ContentEncoding()) > 0 {
		return document{}, &Error{Code: codeUnsupportedMedia, Message: "A Content-Encoding is not accepted. Send the body as it is."}
	}
	// Request.Body never inflates; the size was checked while it was read.
	return decodeBody(string(h.ContentType()), c.rctx.Request.Body())
}

// read returns the newest view, the same one throughout the call.
func (c *call) read() *fsm.View {
	if c.view == nil {
		c.view = c.srv.backend.View()
	}
	return c.view
}

// release gives the view back.
func (c *call) release() {
	if c.view != nil {
		c.view.Release()
		c.view = nil
	}
}

// reread drops the view, so that read sees what was applied since.
func (c *call) reread() *fsm.View {
	c.release()
	return c.read()
}

// sender is the address from which the request came.
func (c *call) sender() netip.Addr {
	return c.srv.clients.address(c.rctx.RemoteAddr(), c.rctx.Request.Header.PeekAll(headerForwardedFor))
}

// answer sets status and a body of JSON.
func (c *call) answer(status int, build func(dst []byte) ([]byte, error)) error {
	resp := &c.rctx.Response
	// The response's own buffer is grown in place: nothing is copied.
	body, err := build(resp.SwapBody(nil)[:0])
	if err != nil {
		return err
	}
	resp.SwapBody(body)
	resp.SetStatusCode(status)
	resp.Header.SetContentType(contentJSON)
	return nil
}

// fail answers with an Error object.
func (c *call) fail(err error) {
	e := toError(err)
	if e == nil {
		c.srv.log.Error("request failed", "route", c.template(), "err", err)
		e = &Error{Code: codeInternal, Message: "Something went wrong here. It was logged."}
	}
	status := e.status()
	resp := &c.rctx.Response
	switch status {
	case http.StatusServiceUnavailable:
		resp.Header.Set(fiber.HeaderRetryAfter, retryAfterUnavailable)
	case http.StatusTooManyRequests:
		wait := seconds(e.RetryAfter)
		resp.Header.Set(fiber.HeaderRetryAfter, wait)
		resp.Header.Set(headerRateLimit, `"writes";r=0;t=`+wait)
		resp.Header.Set(headerRateLimitPolicy, c.srv.ratePolicy)
	case http.StatusMethodNotAllowed:
		resp.Header.Set(fiber.HeaderAllow, e.Allow)
	}
	resp.SetStatusCode(status)
	resp.Header.SetContentType(contentJSON)
	resp.SetBody(e.object().appendJSON(nil))
}

// template is the route's path template, the only form in which paths are logged
// and measured.
func (c *call) template() string {
	if c.route == nil {
		return "unmatched"
	}
	return c.route.path
}

// freshness is how fresh a read must be.
type freshness struct {
	minIndex uint64
	strong   bool
}

// readFreshness takes X-Commons-Min-Index and the parameters min_index and
// consistency.
func (c *call) readFreshness(doc *document, p *problems) (f freshness) {
	if h := c.header(headerMinIndex); h != "" {
		f.minIndex = parseIndex(headerMinIndex, h, p)
	}
	if s, given := doc.get("min_index").(string); given {
		f.minIndex = max(f.minIndex, parseIndex("min_index", s, p))
	}
	if s, given := doc.get("consistency").(string); given {
		f.strong = s == "strong"
		if !f.strong {
			p.add("consistency", "must be strong, or be left out")
		}
	}
	return f
}

func parseIndex(field, s string, p *problems) uint64 {
	index, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		p.add(field, "must be a log index: a whole number, as X-Commons-Index gives it")
	}
	return index
}

// await waits until the local state is as fresh as asked.
func (c *call) await(f freshness) error {
	if f.minIndex == 0 && !f.strong {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.srv.waits, waitTimeout)
	defer cancel()
	if f.strong {
		index, err := c.srv.backend.ReadIndex(ctx)
		if err != nil {
			return orUnavailable(err, CodeNoLeader, "no leader confirmed the read in time")
		}
		f.minIndex = max(f.minIndex, index)
	}
	if err := c.srv.backend.WaitIndex(ctx, f.minIndex); err != nil {
		return orUnavailable(err, CodeBehind, "this node has not applied the index yet")
	}
	return nil
}

// orUnavailable keeps what a client may see and turns the rest, the end of a
// context, into a 503.
func orUnavailable(err error, code Code, reason string) error {
	if toError(err) != nil {
		return err
	}
	return &Unavailable{Code: code, Reason: reason}
}
