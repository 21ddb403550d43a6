package op

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"runtime/debug"

	"github.com/commons-cluster/commons/api/wire"
)

// Perform runs one operation: the handler of HTTP with all its rules. It counts as a
// call of the relaying surface.
func (r *Relay) Perform(operationID string, in wire.Invocation) (done wire.Performed) {
	o, known := r.Env.operations[operationID]
	if in.Trace != "" {
		r.traced.Store(in.Trace)
	}
	inner := &Call{Env: r.Env, Input: &memoryInput{r, &in}, Operation: o, Relay: r, Inner: true, CheckOnly: in.CheckOnly, Trace: r.Traced()}
	defer inner.Release()
	defer func() {
		if cause := recover(); cause != nil {
			inner.Panicked(cause)
			done = inner.outcome(inner.Reject(wire.Internal()))
		}
	}()
	r.calls.Add(1)
	if !known {
		return inner.outcome(inner.Reject(&wire.Error{Code: wire.CodeNotFound, Message: "There is no such operation."}))
	}
	var err error
	if r.Operator { // other clients have waited on their way here
		err = inner.WaitReady()
	}
	if err == nil {
		err = o.Handle.Serve(inner)
	}
	inner.Count()
	switch {
	case err != nil:
		return inner.outcome(inner.Reject(err))
	case in.CheckOnly:
		return wire.Performed{}
	}
	return inner.outcome(nil)
}

// outcome returns the answer of the handler.
func (c *Call) outcome(rejection *wire.Error) wire.Performed {
	for highest := c.Relay.written.Load(); c.Index > highest; highest = c.Relay.written.Load() {
		c.Relay.written.CompareAndSwap(highest, c.Index)
	}
	return wire.Performed{
		Status: cmp.Or(c.Out.Status, http.StatusOK), Body: c.Out.Body, Rejection: rejection, Index: c.Index,
	}
}

// Panicked reports a handler that panicked.
func (c *Call) Panicked(cause any) {
	c.Env.Panics.Inc()
	c.Env.Logger.Error("handler panicked", "route", c.Template(), "cause", cause, "stack", string(debug.Stack()))
}

// memoryInput is the input of an operation that runs in memory.
type memoryInput struct {
	relay *Relay
	*wire.Invocation
}

func (in *memoryInput) Origin() Origin               { return in.relay.Caller }
func (in *memoryInput) IsHead() bool                 { return false }
func (in *memoryInput) MayWrite() bool               { return false }
func (in *memoryInput) Target() (path, query []byte) { return nil, nil }
func (in *memoryInput) BaseURL() string              { return "" }
func (in *memoryInput) Size() int                    { return in.relay.Held }
func (in *memoryInput) Hold() int                    { return in.relay.Held }
func (in *memoryInput) Conn() net.Conn               { return in.relay.Conn }
func (in *memoryInput) Buffer() []byte               { return nil }

func (in *memoryInput) Follow(EventSource) error {
	return errors.New("a stream needs an HTTP connection")
}

// Header returns the headers of the relayed request that concern every operation.
func (in *memoryInput) Header(name string) string {
	switch name {
	case HeaderMinIndex:
		return in.relay.MinIndex
	case HeaderUserAgent:
		return in.relay.UserAgent
	case HeaderAuthorization:
		if in.EditKey == "" {
			return in.relay.Authorization
		}
		return bearerScheme + " " + in.EditKey
	case HeaderOrigin:
		return in.relay.Origin
	}
	return ""
}

func (in *memoryInput) Param(string) string          { return in.ID }
func (in *memoryInput) Query() ([]wire.Pair, error)  { return in.Params, nil }
func (in *memoryInput) Body() (wire.Document, error) { return in.Document, nil }
