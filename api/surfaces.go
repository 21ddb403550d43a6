package api

import (
	"cmp"
	"iter"
	"runtime/debug"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/mcp"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/resource"
	"github.com/commons-cluster/commons/api/wire"
)

// newRequest prepares to run operations for the client of this request. A call that ran one is
// not counted itself. It is called on the goroutine that answers the request.
func (x *exchange) newRequest() *request {
	if x.Relay == nil {
		x.Relay = &op.Relay{
			Env: x.Env, Surface: surfaceOf(x.Template()), Caller: x.Origin(),
			UserAgent: x.Header(op.HeaderUserAgent), MinIndex: x.Header(op.HeaderMinIndex), Conn: x.rctx.Conn(), Held: len(x.rctx.Request.Body()),
			Authorization: x.Header(op.HeaderAuthorization), Origin: x.Header(op.HeaderOrigin), Trace: x.Trace,
		}
	}
	return &request{x}
}

// request is a call of a surface that runs operations.
type request struct{ *exchange }

var (
	_ a2a.Request = (*request)(nil)
	_ mcp.Request = (*request)(nil)
)

// surface returns the handler of a surface that runs operations.
func surface(serve func(*request) wire.Reply) func(*exchange) error {
	return func(x *exchange) error {
		return x.answerReply(serve(x.newRequest()))
	}
}

// answerReply answers with the response of a surface.
func (x *exchange) answerReply(reply wire.Reply) error {
	if reply.Cause != nil {
		x.Env.Logger.Error("request failed", "route", x.Template(), "err", reply.Cause)
	}
	x.Work += reply.Work / op.PageBytes
	switch {
	case reply.Status == 0:
		return reply.Rejection
	case reply.Rejection != nil:
		x.Hint(reply.Rejection)
	}
	if reply.Location != "" {
		x.Out.Set(op.HeaderLocation, reply.Location)
	}
	if reply.Caching != "" {
		x.Out.Set(op.HeaderCacheControl, reply.Caching)
	}
	if reply.Policy != "" {
		x.Out.Set(fiber.HeaderContentSecurityPolicy, reply.Policy)
		// Not no-referrer: the Origin of forms would be null.
		x.Out.Set(fiber.HeaderReferrerPolicy, "same-origin")
	}
	if x.Document = reply.Tag; reply.Tag != "" && x.HasTag(reply.Tag) {
		return nil
	}
	x.Out.Status = reply.Status
	if len(reply.Body) > 0 {
		x.Out.ContentType = cmp.Or(reply.ContentType, op.ContentJSON)
		x.Out.SetShared(reply.Body)
	}
	return nil
}

func (r *request) Body() []byte   { return r.rctx.Request.Body() }
func (r *request) Sender() string { return r.Env.Backend.Fingerprint(r.Relay.Caller.Addr) }

func (r *request) Perform(operation string, in wire.Invocation) wire.Performed {
	if in.Document.MessageID == "" {
		in.Document.Key = r.Header(op.HeaderKey) // a balancer repeats a call with it
	}
	return r.Relay.Perform(operation, in)
}

func (r *request) HeadersWith(prefix string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for name, value := range r.rctx.Request.Header.All() {
			if key := string(name); strings.HasPrefix(key, prefix) && !yield(key, string(value)) {
				return
			}
		}
	}
}

// newTools makes the tool interface.
func (s *Server) newTools() (*mcp.Server, error) {
	return mcp.New(mcp.Config{
		Operations: resource.ToolOperations(),
		Words:      resource.ToolWords(),
		Version:    interfaceVersion,
		Logger:     s.Logger,
		Newest:     func(operationID string) string { return resource.Newest(s.Environment, operationID) },
		Panicked: func(method string, cause any) {
			s.Panics.Inc()
			s.Logger.Error("handler panicked", "method", method, "cause", cause, "stack", string(debug.Stack()))
		},
	})
}

// Draft returns the problems and the example of the entry of a wrong message, which is charged.
func (r *request) Draft(doc *wire.Document) *wire.Error {
	r.Charge()
	return resource.DraftMessage(&r.Call, r.Env.Now(), doc)
}
