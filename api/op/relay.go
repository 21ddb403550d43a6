package op

import (
	"net"
	"sync/atomic"

	"github.com/commons-cluster/commons/fsm/command"
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

	calls   atomic.Int64
	written atomic.Uint64 // the highest index of a write
}

// Highest is the highest index that an operation has written; 0 without a relay.
func (r *Relay) Highest() uint64 {
	if r == nil {
		return 0
	}
	return r.written.Load()
}
