// Package fsm is the replicated state of Commons: a deterministic state machine
// over a Pebble database, its command encoding, its index and its snapshots.
//
// Nothing but the Raft log decides what the state is: no clock, no randomness,
// no map iteration order, no environment and no I/O result reaches it.
package fsm
