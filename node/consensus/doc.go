// Package consensus runs Raft for one node: its settings, transport, snapshots, access
// to the log, and log lines.
//
// It receives the state machine, the log, the snapshot store, the private port's stream
// layer, and hooks that it calls when a write of the log succeeded or failed. It does
// not decide who is a member or what is proposed, and it has no files of its own.
package consensus
