package propose

import (
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// Results are the outcomes that a view of the state keeps. *fsm.View is one.
type Results interface {
	// Index is the log index of the newest entry that the view holds.
	Index() uint64
	// Result returns what became of a command, while its session keeps it.
	Result(boot command.BootID, seq uint64) (command.Result, bool)
}

// View is what the state holds at one index. It must be released after use.
type View interface {
	Results
	// Time is the instant of the newest log entry in milliseconds since the epoch;
	// 0 before the first.
	Time() int64
	Release()
}

// State is the local state machine as the write path and the read path see it.
type State interface {
	// Applied returns the index of the newest log entry in the newest view.
	Applied() uint64
	// Format returns the replicated format number.
	Format() int
	// View returns the newest view. The caller releases it.
	View() View
}

// FromMachine returns m as a State.
func FromMachine(m *fsm.Machine) State { return machineState{m} }

type machineState struct{ *fsm.Machine }

// View returns the machine's newest view.
func (s machineState) View() View { return s.Machine.View() }
