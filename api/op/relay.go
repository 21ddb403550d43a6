package op

import (
	"net"
	"sync/atomic"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/trace"
)

// Relay is a surface that runs operations for a client of its own. Its methods may
// be called from any goroutine while the request is being answered.
type Relay struct {
	Env       *Environment
	Surface   command.Surface
	Caller    Origin
	UserAgent string
	MinIndex  string // X-Commons-Min-Index, which holds for every operation
	Conn      net.Conn
	Held      int  // bytes of the request, which a call that waits holds
	Operator  bool // the client is the operator, over the private port
	Page      bool // the operations run for a page, which counts as one call
	// Authorization and Origin are the headers that prove the name of a write.
	Authorization, Origin string

	// Trace is the span of the request, unless an operation has been given its own.
	Trace trace.Parent

	calls   atomic.Int64
	written atomic.Uint64 // the highest index of a write
	traced  atomic.Value  // the trace.Parent that an operation was given
}

// Traced returns the span of an operation that has been given its own, or that of the request.
func (r *Relay) Traced() trace.Parent {
	if given, is := r.traced.Load().(trace.Parent); is {
		return given
	}
	return r.Trace
}

// Highest is the highest index that an operation has written; 0 without a relay.
func (r *Relay) Highest() uint64 {
	if r == nil {
		return 0
	}
	return r.written.Load()
}
