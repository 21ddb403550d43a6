// Package consensus runs Raft for one node: its settings, its transport, its
// snapshots, what it needs from the log, and its log lines.
//
// It is given the state machine, the log, the snapshot store and the private port's
// stream layer, and hooks that it calls when the log was written or could not be. It
// never decides who is a member or what is proposed, and it keeps nothing on disk by
// itself.
package consensus
