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
	"github.com/commons-cluster/commons/internal/trace"
)

// Call is one request to an operation and the answer to it, on any surface.
type Call struct {
	Env *Environment
	Input
	Out Answer
	// Operation is nil if no path matched.
	Operation *Operation
	// Action is the name under which the call is counted; "" means its operation.
	Action string
	// House reports whether the caller is one of the operator's own agents.
	House bool
	view  *view.View // the state that the answer shows; nil before the first read
	Index uint64     // of a write that the answer reports
	Work  int        // steps of searches and looks, not charged yet
	// Waited reports whether the call waited for news, or for an index.
	Waited bool
	// Notes name ignored parts of the request. A rejection shows all of them, because they
	// may explain it; an answer shows those that its operation copies.
	Notes []string
	// Relay is set if the call runs operations for another surface, or is run for one.
	Relay *Relay
	// Inner reports whether the call runs in memory, for another surface.
	Inner bool
	// Complete adds the example of the write that the call makes to an error. It is nil for
	// a read.
	Complete func(rejection *wire.Error) error
	// Admission is the newest judgement of the write.
	Admission view.Admission
	// Document is the entity tag of a body that changes rarely; "" for other bodies.
	Document string
	// Trace is the caller's span, for the log of requests; "" if the caller is not traced.
	Trace trace.Parent
	// CheckOnly ends the call after the first half of its handler.
	CheckOnly bool
	// KeyErr is the error of looking up the owner of the caller's key.
	KeyErr error
}

// Input is a request on any surface. Values that it returns never point into the server's buffers.
type Input interface {
	Origin() Origin
	// IsHead reports whether the request is a HEAD and needs no body.
	IsHead() bool
	// MayWrite reports whether the request may ask for a write.
	MayWrite() bool
	// Target returns the path and the query of the request as they were sent.
	Target() (path, query []byte)
	// BaseURL returns the base of this service's URLs as the client sees them, without a
	// slash at the end.
	BaseURL() string
	// Header returns a request header; "" when it is absent.
	Header(name string) string
	// Param returns a path parameter, unescaped.
	Param(name string) string
	// Query returns the parameters of the URL.
	Query() ([]wire.Pair, error)
	// Body decodes the request body.
	Body() (wire.Document, error)
	// Size returns the size of the request body in bytes.
	Size() int
	// Hold frees the parts of the request that a waiting call does not need, and returns the
	// bytes that it still holds.
	Hold() int
	// Conn returns the client's connection, or nil.
	Conn() net.Conn
	// Buffer returns an empty buffer for the body of the answer.
	Buffer() []byte
	// Follow begins a stream of events on the client's connection.
	Follow(events EventSource) error
}

// Origin is the address from which a request came.
type Origin struct {
	Addr netip.Addr
	// Proxied is set when the address is that of a proxy, which several clients have. The
	// request then names its client in a header that this node does not use.
	Proxied bool
}

// EventSource returns the events that a client asks for, for a stream of them.
type EventSource interface {
	// AppendEvents appends the next events of a view as server-sent events. Without new
	// events it appends the position of the stream if tell is set.
	AppendEvents(dst []byte, v *view.View, tell bool) ([]byte, error)
	// HasMore reports whether there may be more events than the last call has appended.
	HasMore() bool
	// CountWork sets the counter of the steps that searches take.
	CountWork(work *int)
}

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
func (c *Call) Sender() netip.Addr { return c.Origin().Addr }

// Template is the operation's path template, the only form in which paths are logged and measured.
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
