// Package propose is the write path of a node, from a command to its result, and the
// read index that makes reads linearizable.
//
// # A command's way
//
// The node that receives a command validates and encodes it, and gives it the next
// sequence number of its boot. Boot and number are the command's internal id: however
// often the command is sent, the state machine applies it once. Two senders bring the
// waiting commands to the leader, each as one group: into the queue of this node if it
// leads, otherwise in one hop over the private port. The leader validates the groups of
// other nodes, puts all waiting groups into one batch, adds the timestamp and passes it
// to Raft, from one goroutine, with at most two unanswered log entries. Commands of the
// leader itself pass the queue (ProposeAsLeader). See package
// fsm/command for the encoding.
//
// # The answer
//
// The caller is answered when two state machines have applied the command: this node's,
// so that the caller reads its own write here, and the leader's, so that a strong read
// at any node finds it. ReadIndex is the index of the newest command that the leader
// knows to be committed.
//
// # Failure
//
// An attempt ends in one of three ways: applied, certainly not enqueued, or unknown.
// Unless it was applied, the command is sent again under the same id until
// ProposeTimeout. After one unknown attempt the outcome stays unknown; otherwise the
// command is certain never to be applied. neverAppended lists the errors that are certain.
//
// Each group declares which numbers may still be sent: those from its floor on, and a
// few open ones below it, so that a slow call does not hold the floor back. No other
// number is ever sent again.
//
// # Limits
//
// The leader charges a command to the rate limits when it accepts it, and reports this in
// its answer. Each further attempt, to this leader or the next one, carries the mark: a
// command is charged once, however often it is sent. If the answer is lost, the node
// assumes that the command was charged. A claim of a job that another claim beats in the
// log is refunded.
package propose
