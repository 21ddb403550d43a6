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

func (d *deps) voters() ([]string, error) {
	f := d.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, err
	}
	var ids []string
	for _, s := range f.Configuration().Servers {
		if s.Suffrage == raft.Voter {
			ids = append(ids, string(s.ID))
		}
	}
	return ids, nil
}

// logTime returns the instant of the newest log entry that this node has applied.
func (d *deps) logTime() time.Time {
	v := d.state.View()
	defer v.Release()
	return time.UnixMilli(v.Time())
}

// Raft has the methods of *raft.Raft that the write path and the read path need.
type Raft interface {
	// Apply appends a log entry on the leader.
	Apply(cmd []byte, timeout time.Duration) raft.ApplyFuture
	// VerifyLeader asks the followers whether this node still leads.
	VerifyLeader() raft.Future
	// LeaderWithID returns the leader according to this node, empty if it is unknown.
	LeaderWithID() (raft.ServerAddress, raft.ServerID)
	// CurrentTerm returns the newest term in which this node has taken part.
	CurrentTerm() uint64
	// CommitIndex returns the index of the newest entry that this node knows to be
	// committed.
	CommitIndex() uint64
	// GetConfiguration returns the latest configuration, committed or not.
	GetConfiguration() raft.ConfigurationFuture
}

// Log is Raft's log.
type Log interface {
	// GetLog reads an entry.
	GetLog(index uint64, log *raft.Log) error
}

// Results holds the results of the commands in a view of the state, such as *view.View.
type Results interface {
	// Index returns the log index of the newest applied entry.
	Index() uint64
	// Result returns the result of a command. It returns false once the command's session
	// no longer keeps it.
	Result(boot command.BootID, seq uint64) (command.Result, bool)
}

// View is the state at one index. It must be released after use.
type View interface {
	Results
	// Time returns the instant of the newest applied entry in milliseconds since the
	// epoch, 0 before the first entry.
	Time() int64
	// Release ends the use of the view.
	Release()
}

// State has the methods of the local state machine that the write path and the read path
// need.
type State interface {
	// Applied returns the index of the newest log entry in the newest view.
	Applied() uint64
	// Format returns the replicated format number.
	Format() int
	// View returns the newest view. The caller releases it.
	View() View
}

// FromMachine returns a state machine as a State.
func FromMachine(m *fsm.Machine) State { return machineState{m} }

type machineState struct{ *fsm.Machine }

func (s machineState) View() View { return s.Machine.View() }
