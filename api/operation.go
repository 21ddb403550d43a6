package api

import (
	"iter"
	"net"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/mcp"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// relay is a surface that runs operations for a client of its own. Its methods may
// be called from any goroutine while the request is being answered.
type relay struct {
	srv       *Server
	surface   command.Surface
	caller    netip.Addr // the client's address
	userAgent string
	minIndex  string // X-Commons-Min-Index, which holds for every operation
	conn      net.Conn
	held      int  // bytes of the request, which a call that waits holds
	operator  bool // the client is the operator, over the private port
	page      bool // what is shown is a page, which counts as one call
	// authorization and origin are the headers that say what a write proves.
	authorization, origin string

	calls   atomic.Int64
	written atomic.Uint64 // the highest index of a write
}

// newRelay prepares to run operations for the client of this request. Such a call
// is not counted itself as soon as it ran one. It is called on the goroutine that
// answers the request.
func (c *call) newRelay() *relay {
	if c.relay == nil {
		c.relay = &relay{
			srv: c.srv, surface: surfaceOf(c.template()), caller: c.sender(),
			userAgent: c.header(fiber.HeaderUserAgent), minIndex: c.header(headerMinIndex), conn: c.rctx.Conn(), held: len(c.rctx.Request.Body()),
			authorization: c.header(fiber.HeaderAuthorization), origin: c.header(fiber.HeaderOrigin),
		}
	}
	return c.relay
}

// Perform runs one operation: the handler of HTTP with all its rules. It counts as a
// call of the relaying surface.
func (r *relay) Perform(operationID string, in wire.Invocation) (done wire.Performed) {
	o, known := r.srv.operations[operationID]
	inner := &call{srv: r.srv, in: &memoryInput{r, &in}, out: fasthttp.AcquireResponse(), operation: o, relay: r, trial: in.Trial}
	defer fasthttp.ReleaseResponse(inner.out)
	defer inner.release()
	defer func() {
		if cause := recover(); cause != nil {
			inner.panicked(cause)
			done = inner.outcome(inner.reject(wire.Internal()))
		}
	}()
	r.calls.Add(1)
	if !known {
		return inner.outcome(inner.reject(&wire.Error{Code: wire.CodeNotFound, Message: "There is no such operation."}))
	}
	var err error
	if r.operator { // other clients have waited on their way here
		err = inner.waitReady()
	}
	if err == nil {
		err = o.handle.serve(inner)
	}
	inner.count()
	switch {
	case err != nil:
		return inner.outcome(inner.reject(err))
	case in.Trial:
		return wire.Performed{}
	}
	return inner.outcome(nil)
}

// request is a call as a surface sees it that runs operations.
type request struct {
	*relay
	c *call
}

var (
	_ a2a.Request = (*request)(nil)
	_ mcp.Request = (*request)(nil)
)

// surface is the handler of a surface that runs operations.
func surface(serve func(*request) wire.Reply) handler {
	return simple(func(c *call) error {
		reply := serve(&request{c.newRelay(), c})
		if reply.Cause != nil {
			c.srv.log.Error("request failed", "route", c.template(), "err", reply.Cause)
		}
		switch {
		case reply.Status == 0:
			return reply.Rejection
		case reply.Rejection != nil:
			c.hint(reply.Rejection)
		}
		c.out.SetStatusCode(reply.Status)
		if len(reply.Body) > 0 {
			c.out.Header.SetContentType(contentJSON)
			c.out.SetBodyRaw(reply.Body)
		}
		return nil
	})
}

func (r *request) Header(name string) string   { return r.c.header(name) }
func (r *request) Param(name string) string    { return r.c.param(name) }
func (r *request) Query() ([]wire.Pair, error) { return r.c.query() }
func (r *request) Body() []byte                { return r.c.rctx.Request.Body() }
func (r *request) BaseURL() string             { return r.c.baseURL() }
func (r *request) Sender() string              { return r.srv.backend.Fingerprint(r.caller) }

func (r *request) HeadersWith(prefix string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for name, value := range r.c.rctx.Request.Header.All() {
			if key := string(name); strings.HasPrefix(key, prefix) && !yield(key, string(value)) {
				return
			}
		}
	}
}

// newTools makes the tool interface.
func (s *Server) newTools() (*mcp.Server, error) {
	return mcp.New(mcp.Config{
		Operations: toolOperations(),
		Words:      toolWords(),
		Version:    interfaceVersion,
		Logger:     s.log,
		Panicked: func(method string, cause any) {
			s.metrics.panics.Inc()
			s.log.Error("handler panicked", "method", method, "cause", cause, "stack", string(debug.Stack()))
		},
	})
}

// postMCP serves POST /mcp.
func postMCP(r *request) wire.Reply { return r.srv.tools.Post(r) }

// Draft says what publishing has against the entry of a message.
func (r *request) Draft(doc *wire.Document) *wire.Error {
	e := readEntry(doc, &messageRules)
	draft := &wire.Error{Code: wire.CodeInvalid, Issues: e.problems.List, Notes: e.notes}
	if len(e.doubts) == 0 { // nobody looks at the state for a message that is wrong itself
		draft.Example, _ = e.example(nil, r.srv.now())
	}
	return draft
}

// messageScope keeps the keys made of messageIds apart from request_ids: no scope
// of these holds a slash.
const messageScope = "a2a/"

// messageRules are the rules of publishing by a message.
var messageRules = entryRules{maxBody: command.MaxBody, channel: "a2a"}

// belowA2A reports a request for HTTP+JSON of the message protocol. One that was not
// read far enough for its path to be known is none.
func (c *call) belowA2A() bool {
	if c.operation != nil {
		return a2a.Below(c.operation.path)
	}
	return c.rctx != nil && len(c.rctx.Host()) > 0 && a2a.Below(string(c.rctx.URI().PathOriginal()))
}

// outcome takes what the handler answered out of the response.
func (c *call) outcome(rejection *wire.Error) wire.Performed {
	for highest := c.relay.written.Load(); c.index > highest; highest = c.relay.written.Load() {
		c.relay.written.CompareAndSwap(highest, c.index)
	}
	return wire.Performed{
		Status: c.out.StatusCode(), Body: c.out.SwapBody(nil), Rejection: rejection, Index: c.index,
	}
}

// highest is the highest index that an operation has written; 0 without a relay.
func (r *relay) highest() uint64 {
	if r == nil {
		return 0
	}
	return r.written.Load()
}

// memoryInput is the input of an operation that runs in memory.
type memoryInput struct {
	relay *relay
	*wire.Invocation
}

func (in *memoryInput) isHead() bool { return false }

// header hands on what of the relayed request concerns every operation.
func (in *memoryInput) header(name string) string {
	switch name {
	case headerMinIndex:
		return in.relay.minIndex
	case fiber.HeaderUserAgent:
		return in.relay.userAgent
	case fiber.HeaderAuthorization:
		if in.EditKey == "" {
			return in.relay.authorization
		}
		return bearerScheme + " " + in.EditKey
	case fiber.HeaderOrigin:
		return in.relay.origin
	}
	return ""
}

func (in *memoryInput) param(string) string          { return in.ID }
func (in *memoryInput) query() ([]wire.Pair, error)  { return in.Params, nil }
func (in *memoryInput) body() (wire.Document, error) { return in.Document, nil }
