package api

import (
	"bytes"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// call is one request and the answer to it. Values that it returns never point into
// the server's buffers.
//
// The handlers of operations read from in, write to out, and never use rctx, so
// that they can serve other surfaces, too (see perform).
type call struct {
	srv  *Server
	in   input
	out  *fasthttp.Response
	rctx *fasthttp.RequestCtx // nil where an operation runs in memory
	http httpInput            // what in points to, where the request came by HTTP
	// operation is nil where no path matched.
	operation *operation
	// action is the name under which the call is counted; "" means its operation.
	action string
	// house reports whether the caller is one of the operator's own agents.
	house bool
	start time.Time
	view  *fsm.View // what the answer shows; nil until something was read
	index uint64    // of a write that the answer reports
	work  int       // steps that searches took
	// waited says that the call waited for news, or for an index.
	waited bool
	// notes say what was sent and ignored. A rejection shows all of them, because they
	// may explain it; an answer shows those that its operation copies.
	notes []string
	// relay is set if the call runs operations for another surface.
	relay *relay
	// stream takes over the connection when the call has ended; nil means that the
	// answer is sent normally.
	stream *stream
	// held reports whether the write is held for review by a moderator.
	held bool
	// document is the entity tag of a body that changes rarely; "" for other bodies.
	document string
	// trial ends the call after the first half of its handler.
	trial bool
}

// newCall is the call of an HTTP request.
func (s *Server) newCall(rctx *fasthttp.RequestCtx) *call {
	c := &call{srv: s, rctx: rctx, out: &rctx.Response, start: time.Now()}
	c.http.rctx = rctx
	c.in = &c.http
	return c
}

// input is the content of a request on any surface. Values that it returns never
// point into the server's buffers.
type input interface {
	// isHead reports whether the request is a HEAD and needs no body.
	isHead() bool
	// header returns a request header; "" when it is absent.
	header(name string) string
	// param returns a path parameter, unescaped.
	param(name string) string
	// query returns the parameters of the URL.
	query() ([]wire.Pair, error)
	// body decodes the request body.
	body() (wire.Document, error)
}

func (c *call) isHead() bool                { return c.in.isHead() }
func (c *call) header(name string) string   { return c.in.header(name) }
func (c *call) param(name string) string    { return c.in.param(name) }
func (c *call) query() ([]wire.Pair, error) { return c.in.query() }

func (c *call) body() (wire.Document, error) {
	doc, err := c.in.body()
	if doc.Hint != "" {
		c.notes = append(c.notes, doc.Hint)
	}
	return doc, err
}

// httpInput is the input of an HTTP request.
type httpInput struct {
	rctx *fasthttp.RequestCtx
	path *fiber.Ctx // for path parameters, while a handler runs
}

func (in *httpInput) isHead() bool { return in.rctx.IsHead() }

func (in *httpInput) header(name string) string { return string(in.rctx.Request.Header.Peek(name)) }

// headerKey is the request_id in the header Idempotency-Key; some clients quote it.
const headerKey = "Idempotency-Key"

func (in *httpInput) param(name string) string {
	raw := in.path.Params(name)
	if decoded, err := url.PathUnescape(raw); err == nil && decoded != raw {
		return decoded
	}
	return string([]byte(raw))
}

func (in *httpInput) query() ([]wire.Pair, error) {
	pairs, err := wire.ParsePairs(string(in.rctx.URI().QueryString()))
	if err != nil {
		return nil, &wire.Error{
			Code: wire.CodeMalformedRequest, Message: "The query of the URL cannot be read.",
			Issues: []wire.Issue{{"query", "cannot be read: " + err.Error()}},
		}
	}
	return pairs, nil
}

func (in *httpInput) body() (wire.Document, error) {
	h := &in.rctx.Request.Header
	if len(h.ContentEncoding()) > 0 {
		return wire.Document{}, wire.Encoded()
	}
	// Request.Body never inflates; the size was checked while it was read.
	doc, err := wire.DecodeBody(string(h.ContentType()), in.rctx.Request.Body())
	doc.Key = in.header(headerKey)
	return doc, err
}

// read returns the newest view, the same one throughout the call.
func (c *call) read() *fsm.View {
	if c.view == nil {
		c.view = c.srv.backend.View()
	}
	return c.view
}

// release releases the view.
func (c *call) release() {
	if c.view != nil {
		c.view.Release()
		c.view = nil
	}
}

// reread drops the view, so that read returns a newer one.
func (c *call) reread() *fsm.View {
	c.release()
	return c.read()
}

// sender is the address from which the request came.
func (c *call) sender() netip.Addr {
	if c.relay != nil {
		return c.relay.caller
	}
	return c.srv.clients.address(c.rctx.RemoteAddr(), c.rctx.Request.Header.PeekAll(headerForwardedFor))
}

// answer sets status and a body of JSON.
func (c *call) answer(status int, build func(dst []byte) ([]byte, error)) error {
	return c.answerOf(0, status, build)
}

// answerOf is answer for a body of about size bytes. The pooled response buffers have
// the length of typical answers; without the size, a long answer would be copied each
// time that its buffer grows. A pooled buffer of that size is used as it is: the pool takes
// none back that is larger than typical answers need.
func (c *call) answerOf(size, status int, build func(dst []byte) ([]byte, error)) error {
	resp := c.out
	buffer := resp.SwapBody(nil)[:0]
	if cap(buffer) < size {
		buffer = make([]byte, 0, size+size/8)
	}
	body, err := build(buffer)
	if err != nil {
		return err
	}
	resp.SwapBody(fitted(body))
	resp.SetStatusCode(status)
	resp.Header.SetContentType(contentJSON)
	return nil
}

// maxSpare is how many bytes more than twice its length a body's buffer may have.
const maxSpare = 4 * answerBuffer

// fitted returns the body in a buffer that is not much too large for it, because the
// guard counts unread answers by their length, not by their memory.
func fitted(body []byte) []byte {
	if cap(body) > 2*len(body)+maxSpare {
		return bytes.Clone(body)
	}
	return body
}

// fail answers with an Error object, or as reject does.
func (c *call) fail(err error) { _ = c.reject(err) }

// reject answers with an Error object, and returns it. Below /a2a/ the answer is an
// error of the message protocol that contains it, as clients expect there.
func (c *call) reject(err error) *wire.Error {
	e := toError(err)
	if e == nil {
		c.srv.log.Error("request failed", "route", c.template(), "err", err)
		e = wire.Internal()
	}
	c.chargeRejection(e)
	if !c.trial {
		c.srv.metrics.rejected.WithLabelValues(string(e.Code)).Inc()
	}
	resp := c.out
	if e.Notes == nil {
		e.Notes = c.notes
	}
	c.hint(e)
	resp.SetStatusCode(e.Status())
	resp.Header.SetContentType(contentJSON)
	body := e.Object()
	if c.belowA2A() {
		body = a2a.Unreached(e)
	}
	resp.SetBody(body.AppendJSON(nil))
	return e
}

// hint sets the headers that help an HTTP client to handle an error, on every surface.
func (c *call) hint(e *wire.Error) {
	h, wait := &c.out.Header, e.Wait()
	if wait != "" {
		h.Set(fiber.HeaderRetryAfter, wait)
	}
	switch e.Status() {
	case http.StatusTooManyRequests:
		limit, policy := limitOfWrites, c.srv.ratePolicy
		if e.Limit != nil {
			limit, policy = e.Limit.Name, ratePolicy(e.Limit.Name, e.Limit.Quota, wire.Seconds(e.Limit.Window))
		}
		h.Set(headerRateLimit, `"`+limit+`";r=0;t=`+wait)
		h.Set(headerRateLimitPolicy, policy)
	case http.StatusMethodNotAllowed:
		h.Set(fiber.HeaderAllow, e.Allow)
	}
}

// template is the operation's path template, the only form in which paths are logged
// and measured.
func (c *call) template() string {
	if c.operation == nil {
		return "unmatched"
	}
	return c.operation.path
}

// withNotes adds the notes to an answer, if there are any.
func (c *call) withNotes(answer wire.Object) wire.Object {
	if len(c.notes) == 0 {
		return answer
	}
	return answer.With("notes", c.notes)
}

// toError converts an error of a backend or a view into an Error; nil if clients must
// not see it.
func toError(err error) *wire.Error {
	if rejection, ok := errors.AsType[*wire.Error](err); ok {
		return rejection
	}
	if unavailable, ok := errors.AsType[*command.Unavailable](err); ok {
		return &wire.Error{Code: unavailable.Code, Message: "The service cannot do this right now: " + unavailable.Reason + "."}
	}
	if limited, ok := errors.AsType[*command.RateLimited](err); ok {
		rejection := &wire.Error{
			Code: wire.CodeRateLimited, Message: "Too many writes from this sender or this agent.",
			RetryAfter: limited.RetryAfter, Limit: limited.Limit,
		}
		field := fieldAgent.name
		if limited.Limit != nil {
			rejection.Message, field = limited.Limit.Message, limited.Limit.Field
		}
		unit := " seconds."
		if rejection.Wait() == "1" {
			unit = " second."
		}
		rejection.Message += " Wait " + rejection.Wait() + unit
		rejection.Issues = []wire.Issue{{field, "is over a limit, or its sender is"}}
		return rejection
	}
	return nil
}

// limitOfWrites names the limit of writes in headers.
const limitOfWrites = "writes"

// ratePolicy is the value of RateLimit-Policy for a limit and a window in seconds.
func ratePolicy(limit string, quota int, window string) string {
	return `"` + limit + `";q=` + strconv.Itoa(quota) + ";w=" + window
}

// minWriteWindow is the shortest window of writes, in seconds, in RateLimit-Policy.
const minWriteWindow = 60

// writePolicy is the value of RateLimit-Policy for writes with a rate per minute and a
// burst. The quota is the burst; the window is the time that the bucket takes to refill.
func writePolicy(perMinute, burst int) string {
	const minute = 60
	back := (minute*burst + perMinute - 1) / perMinute
	return ratePolicy(limitOfWrites, burst, strconv.Itoa(max(minWriteWindow, back)))
}

// pseudonymise puts the pseudonyms of the sender into a proof.
func (c *call) pseudonymise(proof *command.Proof) {
	p := c.srv.backend.Pseudonyms(c.sender())
	proof.Sender, proof.Former, proof.Unlimited = p.Sender, p.Former, c.srv.unlimited
}
