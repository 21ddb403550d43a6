package propose

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// deps holds the dependencies that exist only while Raft runs.
type deps struct {
	raft  Raft
	log   Log
	state State
}

// logTime returns the instant of the newest log entry that this node has applied.
func (d *deps) logTime() time.Time {
	v := d.state.View()
	defer v.Release()
	return time.UnixMilli(v.Time())
}

// Raft has the methods of *consensus.Raft that the write path and the read path need.
type Raft interface {
	Apply(cmd []byte, timeout time.Duration) raft.ApplyFuture
	VerifyLeader() raft.Future
	LeaderWithID() (raft.ServerAddress, raft.ServerID)
	CurrentTerm() uint64
	CommitIndex() uint64
	Voters() []string // their ids
}

// Log is Raft's log.
type Log interface {
	GetLog(index uint64, log *raft.Log) error
}

// View has the methods of *view.View that the write path and the read path need.
type View interface {
	Index() uint64 // of the newest applied log entry
	// Results returns the results that the boot's session keeps, by the number of the command.
	Results(boot command.BootID) map[uint64]command.Result
	Time() int64
	Release()
}

// State has the methods of *fsm.Machine that the write path and the read path need.
type State interface {
	Applied() uint64
	Format() int
	View() View
}

// FromMachine returns a state machine as a State.
func FromMachine(m *fsm.Machine) State { return machineState{m} }

type machineState struct{ *fsm.Machine }

func (s machineState) View() View { return s.Machine.View() }
