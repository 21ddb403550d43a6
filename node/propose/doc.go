// Package propose is the way of a command into the log and back: the write path
// of a node, and the index that makes a read linearizable.
//
// # A command's way
//
// The node that takes a command in checks and encodes it, and gives it the next
// sequence number of its boot. Boot and number are the command's internal id: however often the command
// is sent, the state machine carries it out once. Two senders take whatever waits,
// as one group each, to the leader: into the queue of this very node, or in one
// hop over the private port. The leader checks what comes from other nodes, puts all
// waiting groups into one batch, stamps it and hands it to Raft, from one goroutine,
// with two log entries in flight. See package fsm/command for the bytes.
//
// # The answer
//
// The caller is answered when two things are known: this node's state machine
// has applied the command (it reads its own write here), and the leader's has, so
// that a strong read at any node finds it: ReadIndex is the index of the newest
// command that the leader knows to be committed.
//
// # Failure
//
// An attempt ends in one of three ways: applied, certainly not enqueued, or
// unknown. Everything but the first is tried again under the same id until
// ProposeTimeout. A command of which any attempt is unknown stays unknown; the
// others are certain never to show up. See outcome.go for what counts as certain.
//
// Each group declares which numbers may still be sent: those from its floor on, and
// a few open ones below it, so that a slow call does not hold the floor. Nothing
// else is ever sent again.
//
// # Limits
//
// The leader charges a command to the rate limits when it takes it in, and its
// answer says so. The mark travels with each further attempt, to this leader or the
// next one: a command is charged once, however often it is sent. Where the answer is
// lost, the node takes the command for charged.
package propose
