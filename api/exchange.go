package api

import (
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/internal/trace"
)

// exchange is one HTTP request with its response, and the call that it makes.
type exchange struct {
	op.Call
	http  *Server
	rctx  *fasthttp.RequestCtx
	path  *fiber.Ctx // for path parameters, while a handler runs
	start time.Time
	// stream takes over the connection when the call has ended; nil means that the
	// answer is sent normally.
	stream *stream
	final  bool // the answer is an error that is final, see wire.Error
}

// newExchange begins the exchange of an HTTP request.
func (s *Server) newExchange(rctx *fasthttp.RequestCtx) *exchange {
	x := &exchange{http: s, rctx: rctx, start: time.Now()}
	x.Env, x.Input = s.Environment, httpInput{x}
	if parents := rctx.Request.Header.PeekAll(trace.Header); len(parents) == 1 {
		x.Trace = trace.Parse(string(parents[0]))
	}
	return x
}

// send puts the answer into the response.
func (x *exchange) send() {
	out, resp := &x.Out, &x.rctx.Response
	if out.Status != 0 {
		resp.SetStatusCode(out.Status)
	}
	resp.Header.SetContentType(out.ContentType)
	for i := range out.Headers {
		resp.Header.Set(out.Headers[i].Name, out.Headers[i].Value)
	}
	if out.Shared {
		resp.SetBodyRaw(out.Body)
	} else {
		resp.SwapBody(out.Body)
	}
}

// fail answers with an Error object, as refuse does.
func (x *exchange) fail(err error) { _ = x.refuse(err) }

// refuse answers with an Error object, and returns it. Below /a2a/ the answer is an error of
// the message protocol that contains it, as clients expect there.
func (x *exchange) refuse(err error) *wire.Error {
	e := x.Reject(err)
	x.final = e.Final
	var path string // empty if the request was not read as far as that
	if x.Operation != nil {
		path = x.Operation.Path
	} else if len(x.rctx.Host()) > 0 {
		path = string(x.rctx.URI().PathOriginal())
	}
	if a2a.Below(path) {
		status, body := a2a.Unreached(e, string(x.rctx.URI().PathOriginal()))
		x.Out.Status = status
		x.Out.SetShared(body.AppendJSON(nil))
	}
	return e
}

// writeIndex returns the log index of the newest write that the answer reports, or 0.
func (x *exchange) writeIndex() uint64 { return max(x.Index, x.Relay.Highest()) }

// guardAnswer counts a long answer until it is sent. It replaces the answer by an error if
// the limits of unread answers are reached. The answer to a write stays: the write was carried
// out, and the error would deny that. Such answers are bounded by the limits of writes.
func (x *exchange) guardAnswer() {
	conn, guarded := guard.Of(x.rctx.Conn())
	size := len(x.rctx.Response.Body())
	if !guarded || x.writeIndex() > 0 || x.Env.Guard.Answer(conn, guard.ClientOf(x.Sender()), size) {
		if guarded && size >= op.AnswerBuffer && x.rctx.Response.StatusCode() == fasthttp.StatusOK && !x.rctx.IsHead() {
			conn.Join()
		}
		return
	}
	x.rctx.Response.Reset()
	x.Out = op.Answer{}
	x.fail(x.Env.TooManyAnswers())
	x.send()
}

// httpInput is the request of an exchange, as operations read it.
type httpInput struct{ x *exchange }

func (in httpInput) Origin() op.Origin {
	header := &in.x.rctx.Request.Header
	return in.x.http.clients.origin(in.x.rctx.RemoteAddr(), header.PeekAll(headerForwardedFor), len(header.Peek(headerForwarded)) > 0)
}

func (in httpInput) IsHead() bool   { return in.x.rctx.IsHead() }
func (in httpInput) MayWrite() bool { return in.x.rctx.IsPost() || in.x.rctx.QueryArgs().Has("action") }

func (in httpInput) Header(name string) string          { return string(in.x.rctx.Request.Header.Peek(name)) }
func (in httpInput) Size() int                          { return len(in.x.rctx.Request.Body()) }
func (in httpInput) Conn() net.Conn                     { return in.x.rctx.Conn() }
func (in httpInput) Buffer() []byte                     { return in.x.rctx.Response.SwapBody(nil)[:0] }
func (in httpInput) Follow(events op.EventSource) error { return in.x.follow(events) }
func (in httpInput) BaseURL() string                    { return in.x.baseURL() }

func (in httpInput) Target() (path, query []byte) {
	uri := in.x.rctx.URI()
	return uri.PathOriginal(), uri.QueryString()
}

func (in httpInput) Param(name string) string {
	raw := in.x.path.Params(name)
	if decoded, err := url.PathUnescape(raw); err == nil && decoded != raw {
		return decoded
	}
	return string([]byte(raw))
}

func (in httpInput) Query() ([]wire.Pair, error) {
	pairs, err := wire.ParsePairs(string(in.x.rctx.URI().QueryString()))
	if err != nil {
		return nil, &wire.Error{
			Code: wire.CodeMalformedRequest, Message: "The query of the URL cannot be read.",
			Issues: []wire.Issue{{"query", "cannot be read: " + err.Error()}},
		}
	}
	return pairs, nil
}

func (in httpInput) Body() (wire.Document, error) {
	h := &in.x.rctx.Request.Header
	if len(h.ContentEncoding()) > 0 {
		return wire.Document{}, wire.Encoded()
	}
	// Request.Body never inflates; the size was checked while it was read.
	doc, err := wire.DecodeBody(string(h.ContentType()), in.x.rctx.Request.Body())
	doc.Key = in.Header(op.HeaderKey)
	return doc, err
}

func (in httpInput) Hold() int {
	if in.x.rctx.IsPost() {
		return in.Size()
	}
	in.x.rctx.Request.ResetBody() // unread, and it would stay in memory during the wait
	return 0
}

func (x *exchange) baseURL() string {
	if x.http.cfg.PublicURL != "" {
		return x.http.cfg.PublicURL
	}
	host := withoutEmptyPort(string(x.rctx.Host()))
	if !validHost(host) { // HTTP/1.0 does not require a host, and the node's own address is private
		host = "localhost"
	}
	return x.scheme() + "://" + host
}

// scheme returns https if the client used it, according to a trusted proxy.
func (x *exchange) scheme() string {
	if x.rctx.IsTLS() {
		return schemeHTTPS
	}
	// The nearest proxy writes last.
	protos := strings.Split(string(x.rctx.Request.Header.Peek(fiber.HeaderXForwardedProto)), ",")
	nearest := strings.TrimSpace(protos[len(protos)-1])
	if strings.EqualFold(nearest, schemeHTTPS) && x.http.clients.trusts(peerAddress(x.rctx.RemoteAddr())) {
		return schemeHTTPS
	}
	return "http"
}
