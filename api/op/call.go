// Package op runs operations of the interface. A Call is one request to an operation, on any
// surface: it reads from an Input and writes to an Answer, never to a connection. A Handler
// has two halves: the first reads the request and collects its problems, without effect; the
// second, a Task, does the work. An Environment holds the parts of the server that calls
// use. A Relay runs operations in memory, for the other surfaces.
package op

import (
	"net"
	"net/netip"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/view"
)

// Call is one request to an operation and the answer to it. It serves every surface: it
// reads only from in and writes only to out.
type Call struct {
	Env *Environment
	In  Input
	Out Answer
	// operation is nil if no path matched.
	Operation *Operation
	// action is the name under which the call is counted; "" means its operation.
	Action string
	// house reports whether the caller is one of the operator's own agents.
	House bool
	view  *view.View // the state that the answer shows; nil before the first read
	Index uint64     // of a write that the answer reports
	Work  int        // steps that searches took
	// waited reports whether the call waited for news, or for an index.
	Waited bool
	// notes name ignored parts of the request. A rejection shows all of them, because they
	// may explain it; an answer shows those that its operation copies.
	Notes []string
	// relay is set if the call runs operations for another surface, or is run for one.
	Relay *Relay
	// inner reports whether the call runs in memory, for another surface.
	Inner bool
	// complete adds the example of the write that the call makes to an error. It is nil for
	// a read.
	Complete func(rejection *wire.Error) error
	// examined is the newest view's judgement of the write.
	Examined view.Examined
	// held reports whether the write is held for review by a moderator.
	Held bool
	// document is the entity tag of a body that changes rarely; "" for other bodies.
	Document string
	// trial ends the call after the first half of its handler.
	Trial bool
	// keyErr is the error of looking up the owner of the caller's key.
	KeyErr error
}

// Input is a request on any surface. Values that it returns never point into the
// server's buffers.
type Input interface {
	// sender returns the client's address.
	Origin() Origin
	// isHead reports whether the request is a HEAD and needs no body.
	IsHead() bool
	// mayWrite reports whether the request may ask for a write.
	MayWrite() bool
	// target returns the path and the query of the request as they were sent.
	Target() (path, query []byte)
	// baseURL returns the base of this service's URLs as the client sees them, without a
	// slash at the end.
	BaseURL() string
	// header returns a request header; "" when it is absent.
	Header(name string) string
	// param returns a path parameter, unescaped.
	Param(name string) string
	// query returns the parameters of the URL.
	Query() ([]wire.Pair, error)
	// body decodes the request body.
	Body() (wire.Document, error)
	// size returns the size of the request body in bytes.
	Size() int
	// hold frees the parts of the request that a waiting call does not need, and returns the
	// bytes that it still holds.
	Hold() int
	// conn returns the client's connection, or nil.
	Conn() net.Conn
	// buffer returns an empty buffer for the body of the answer.
	Buffer() []byte
	// follow begins a stream of events on the client's connection.
	Follow(events EventSource) error
}

// Origin is the address from which a request came.
type Origin struct {
	Addr netip.Addr
	// proxied is set when the address is that of a proxy, which several clients have. The
	// request then names its client in a header that this node does not use.
	Proxied bool
}

// EventSource returns the events that a client asks for, for a stream of them.
type EventSource interface {
	// AppendEvents appends the next events of a view as server-sent events. If there are
	// none and tell is set, it appends the position of the stream.
	AppendEvents(dst []byte, v *view.View, tell bool) ([]byte, error)
	// HasMore reports whether there may be more events than the last call has appended.
	HasMore() bool
	// CountWork sets the counter of the steps that searches take.
	CountWork(work *int)
}

// IsHead reports whether only the headers of the answer are asked for.
func (c *Call) IsHead() bool { return c.In.IsHead() }

// Header returns a header of the request, or an empty string.
func (c *Call) Header(name string) string { return c.In.Header(name) }

// Param returns a parameter of the path.
func (c *Call) Param(name string) string { return c.In.Param(name) }

// Query returns the parameters of the URL.
func (c *Call) Query() ([]wire.Pair, error) { return c.In.Query() }

// View returns the newest view, the same one throughout the call.
func (c *Call) View() *view.View {
	if c.view == nil {
		c.view = c.Env.Backend.View()
	}
	return c.view
}

// Release releases the view.
func (c *Call) Release() {
	if c.view != nil {
		c.view.Release()
		c.view = nil
	}
}

// NewestView drops the view of the call and returns the newest one.
func (c *Call) NewestView() *view.View {
	c.Release()
	return c.View()
}

// Sender returns the address of the client.
func (c *Call) Sender() netip.Addr { return c.In.Origin().Addr }

// Template is the operation's path template, the only form in which paths are logged
// and measured.
func (c *Call) Template() string {
	if c.Operation == nil {
		return "unmatched"
	}
	return c.Operation.Path
}

// WithNotes adds the notes to an answer, if there are any.
func (c *Call) WithNotes(answer wire.Object) wire.Object {
	if len(c.Notes) == 0 {
		return answer
	}
	return answer.With("notes", c.Notes)
}
