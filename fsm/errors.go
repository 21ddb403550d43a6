package fsm

import "errors"

// The errors that callers tell apart.
var (
	// ErrNotFound means that there is no such entry.
	ErrNotFound = errors.New("no such entry")
	// ErrClosed means that the machine was closed.
	ErrClosed = errors.New("state machine is closed")
	// ErrCorrupt means that stored or received bytes are not what was written.
	ErrCorrupt = errors.New("corrupt data")
)
