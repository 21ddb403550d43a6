package node

import (
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/fsm/command"
)

// stored notes that the log has taken entries.
func (n *Node) stored(took time.Duration) {
	n.condition.syncs.add(n.sinceStart(), took)
	n.logWritable()
}

// noteLogFailure remembers an error of a write of the log. Raft tries again by
// itself; until a write succeeds nothing that is written through this node could be
// applied here, hence not be answered.
func (n *Node) noteLogFailure(err error) {
	if n.logFailure.Swap(&err) == nil {
		n.logger.Error("the log cannot be written: this node is not ready and takes no writes until it can", "error", err, "data", n.cfg.DataDir)
	}
}

// logWritable notes that the log has taken entries. A vote that was stored proves
// less: it may fit where they do not. Whoever is elected sends an entry to all, so
// that a log which failed to store a vote is tried as well.
func (n *Node) logWritable() {
	if n.logFailure.Load() != nil && n.logFailure.Swap(nil) != nil {
		n.logger.Info("the log is written again")
	}
}

// refusal returns why this node takes no writes; nil while it does.
func (n *Node) refusal() *command.Unavailable {
	if n.logFailure.Load() != nil {
		return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "this node cannot write its log; write through another one"}
	}
	return n.diskFull.Load()
}

// logCheck is the line of /readyz.
func (n *Node) logCheck() api.Check {
	if failure := n.logFailure.Load(); failure != nil {
		return api.Check{Name: "log", Detail: "cannot be written: " + (*failure).Error()}
	}
	return api.Check{Name: "log", OK: true, Detail: "is written"}
}
