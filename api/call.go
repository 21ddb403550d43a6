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

// call is one request and the answer to it. Nothing that it returns points into
// the server's buffers.
//
// The handlers of operations read input through in and write to out, and touch
// rctx not at all: so that they answer other surfaces too (see perform).
type call struct {
	srv  *Server
	in   input
	out  *fasthttp.Response
	rctx *fasthttp.RequestCtx // nil where an operation runs in memory
	http httpInput            // what in points to, where the request came by HTTP
	// operation is nil where no path matched.
	operation *operation
	// action is what the call is counted as; "": its operation.
	action string
	// house says that the call is one of the operator's own agents'.
	house bool
	start time.Time
	view  *fsm.View // what the answer shows; nil until something was read
	index uint64    // of a write that the answer reports
	work  int       // steps that searches took
	// waited says that the call waited for news, or for an index.
	waited bool
	// notes are of what was sent and ignored. A rejection shows them, since they may
	// say why: the answer shows those that its operation takes over.
	notes []string
	// relay is set where the call runs operations for another surface.
	relay *relay
	// stream takes the connection over once the call has ended; nil: the answer is sent.
	stream *stream
	// held says that what the call writes is held for a moderator to look at.
	held bool
	// document is the entity tag of a body that changes rarely; "": it is none.
	document string
	// trial says that the call ends with the first half of its handler.
	trial bool
}

// newCall is the call of an HTTP request.
func (s *Server) newCall(rctx *fasthttp.RequestCtx) *call {
	c := &call{srv: s, rctx: rctx, out: &rctx.Response, start: time.Now()}
	c.http.rctx = rctx
	c.in = &c.http
	return c
}

// input is what a request brings, wherever it came from. Nothing that it returns
// points into the server's buffers.
type input interface {
	// isHead reports a request that wants no body.
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

// headerKey is a request_id as other services take it; some clients quote it.
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
	if c.relay != nil {
		return c.relay.caller
	}
	return c.srv.clients.address(c.rctx.RemoteAddr(), c.rctx.Request.Header.PeekAll(headerForwardedFor))
}

// answer sets status and a body of JSON.
func (c *call) answer(status int, build func(dst []byte) ([]byte, error)) error {
	return c.answerOf(0, status, build)
}

// answerOf is answer with a body of about so many bytes. The buffers of responses come
// from a pool that gives the length of most answers: a long one would be copied each time
// that it outgrows one.
func (c *call) answerOf(size, status int, build func(dst []byte) ([]byte, error)) error {
	resp := c.out
	buffer := resp.SwapBody(nil)[:0]
	if cap(buffer) < size {
		buffer = make([]byte, 0, size)
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

// maxSpare is how much more memory than twice its length a body may hold.
const maxSpare = 4 * answerBuffer

// fitted is a body without a buffer that is much too long for it: what a client leaves
// unread is counted by its length.
func fitted(body []byte) []byte {
	if cap(body) > 2*len(body)+maxSpare {
		return bytes.Clone(body)
	}
	return body
}

// fail answers with an Error object, or as reject does.
func (c *call) fail(err error) { _ = c.reject(err) }

// reject answers with an Error object, and returns it. Below /a2a/ the error of the
// message protocol that holds it is the answer: clients read no other there.
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

// hint sets the headers that tell a client of HTTP what to do about an error, on
// whichever surface it came up.
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

// withNotes adds the notes to an answer, where there are any.
func (c *call) withNotes(answer wire.Object) wire.Object {
	if len(c.notes) == 0 {
		return answer
	}
	return answer.With("notes", c.notes)
}

// toError turns what a backend or a view returned into an Error; nil when it is
// none that a client may see.
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

// minWriteWindow is the shortest window, in seconds, that RateLimit-Policy tells of
// writes.
const minWriteWindow = 60

// writePolicy is the value of RateLimit-Policy for writes at a rate a minute and a
// burst: as many as the burst are taken in any window, which is as long as they
// take to come back.
func writePolicy(perMinute, burst int) string {
	const minute = 60
	back := (minute*burst + perMinute - 1) / perMinute
	return ratePolicy(limitOfWrites, burst, strconv.Itoa(max(minWriteWindow, back)))
}

// pseudonymise says in a proof who sends the call.
func (c *call) pseudonymise(proof *command.Proof) {
	p := c.srv.backend.Pseudonyms(c.sender())
	proof.Sender, proof.Former, proof.Unlimited = p.Sender, p.Former, c.srv.unlimited
}
