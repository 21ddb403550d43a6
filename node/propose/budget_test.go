package propose

import (
	"context"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
)

// TestOverBudget: the leader keeps what is over the budget out of the log, wherever it
// came in, and answers as apply would; what was written before is let through.
func TestOverBudget(t *testing.T) {
	fits := func(p command.Payload, _ command.Standing, bytes int) bool {
		data, err := command.Encode(p)
		if err != nil || len(data) != bytes {
			t.Errorf("asked about %d bytes, there are %d, %v", bytes, len(data), err)
		}
		return p.(*command.Publish).AgentKey != "greedy"
	}
	known := func(p command.Payload) (command.Standing, bool) {
		return command.Standing{}, p.(*command.Publish).Request.ID == "known-id"
	}
	c := newCluster(t, 2, func(cfg *Config) { cfg.Fits, cfg.Assess = fits, known })
	c.lead("node-0")
	for _, n := range c.nodes {
		greedy := entryOf("too much " + n.id)
		greedy.AgentKey = "greedy"
		r, index, err := n.Propose(context.Background(), sender, greedy)
		if err != nil || index != 0 || r.Outcome != command.OutcomeRejected || !slices.Equal(r.Problems, []command.Problem{command.ProblemOverBudget}) {
			t.Errorf("over the budget: %+v at %d, %v", r, index, err)
		}
		if got := n.sm.count("too much " + n.id); got != 0 {
			t.Errorf("%d effects of what is over the budget", got)
		}
		greedy.Request = command.RequestKey{Scope: "greedy", ID: "known-id"}
		if r, _, err := n.Propose(context.Background(), sender, greedy); err != nil || len(r.Problems) > 0 {
			t.Errorf("what was written before: %+v, %v", r, err)
		}
		if r, _, err := n.Propose(context.Background(), sender, entryOf("little "+n.id)); err != nil || len(r.Problems) > 0 {
			t.Errorf("within the budget: %+v, %v", r, err)
		}
	}
}
