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
	// ErrNoSpace means that the disk has no room for a snapshot.
	ErrNoSpace = errors.New("not enough free space")
	// ErrBehind means that the state on disk is older than the newest snapshot,
	// which only happens when files were lost or put back from a copy: wipe the
	// node's data and let the others bring it up to date.
	ErrBehind = errors.New("state is older than its own snapshot")
)
