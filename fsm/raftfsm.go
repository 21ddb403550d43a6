package fsm

import "github.com/hashicorp/raft"

// FSM returns the machine as Raft drives it.
func (m *Machine) FSM() raft.BatchingFSM { panic("unimplemented") }

// Snapshots returns the machine's snapshots as Raft asks for them.
func (m *Machine) Snapshots() raft.SnapshotStore { panic("unimplemented") }
