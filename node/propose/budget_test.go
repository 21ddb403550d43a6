package propose

import (
	"context"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestOverBudget holds that the leader keeps commands over the budget out of the log, from
// any node, and answers as apply would. Repeated commands are accepted.
func TestOverBudget(t *testing.T) {
	assess := func(p command.Payload, bytes int) (_ command.Standing, repeated, fits bool) {
		data := must.Get(command.Encode(p))(t)
		check.Equal(t, len(data), bytes, "bytes of the command")
		entry := p.(*command.Publish)
		return command.Standing{}, entry.Request.ID == "known-id", entry.AgentKey != "greedy"
	}
	c := newCluster(t, 2, func(cfg *Config) { cfg.Assess = assess })
	c.lead("node-0")
	for _, n := range c.nodes {
		greedy := entryOf("too much " + n.id)
		greedy.AgentKey = "greedy"
		r, index, err := n.Propose(context.Background(), sender, greedy)
		if err != nil || index != 0 || r.Outcome != command.OutcomeRejected || !slices.Equal(r.Problems, []command.Problem{command.ProblemOverBudget}) {
			t.Errorf("over the budget: %+v at %d, %v", r, index, err)
		}
		check.Equal(t, n.sm.count("too much "+n.id), 0, "effects of what is over the budget")
		greedy.Request = command.RequestKey{Scope: "greedy", ID: "known-id"}
		if r, _, err := n.Propose(context.Background(), sender, greedy); err != nil || len(r.Problems) > 0 {
			t.Errorf("what was written before: %+v, %v", r, err)
		}
		if r, _, err := n.Propose(context.Background(), sender, entryOf("little "+n.id)); err != nil || len(r.Problems) > 0 {
			t.Errorf("within the budget: %+v, %v", r, err)
		}
	}
}
