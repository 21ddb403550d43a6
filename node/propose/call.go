package propose

import (
	"container/list"

	"github.com/commons-cluster/commons/fsm/command"
)

// call is one command from its acceptance to its answer. The session's lock guards
// everything but done; what the answer consists of may be read without it once done
// is closed.
type call struct {
	command.Command               // Charged: to the rate limits, or nobody knows
	size            int           // of the command in a group, at most
	done            chan struct{} // closed by finish

	open    *list.Element // in the session's list of unanswered calls
	waiting *list.Element // in the list of those that wait for a sender; nil: not there

	inFlight  bool // an attempt is under way
	handed    bool // an attempt may have reached the log
	applied   bool // by this node's state machine
	confirmed bool // by the leader's state machine
	expired   bool // not to be sent again
	answered  bool

	result command.Result
	index  uint64
	err    error
}

func newCall(from command.Sender, payload command.Payload, data []byte) *call {
	return &call{
		Command: command.Command{Payload: payload, Data: data, From: from},
		size:    len(data) + command.CommandBytes, done: make(chan struct{}),
	}
}

// uncertain reports whether the command may show up in the log after all. The
// session's lock is held.
func (c *call) uncertain() bool { return c.handed || c.inFlight || c.applied }
