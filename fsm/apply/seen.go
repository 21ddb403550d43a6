package apply

import (
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
)

// applyMarkSeen removes the named entries from the agent's unanswered ones, given its key.
func (tx *Txn) applyMarkSeen(c *command.MarkSeen) command.Result {
	w := &tx.judged.Writer
	if problems := w.MarkSeenProblems(); len(problems) > 0 {
		return rejected(problems...)
	}
	for _, seq := range c.Entries {
		tx.del(home.ItemKey(c.AgentKey, home.PartOwed, seq))
	}
	return done
}
