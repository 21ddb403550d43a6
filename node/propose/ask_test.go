package propose

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// counter is a Limiter that counts the writes that it charges.
type counter struct {
	mu      sync.Mutex
	charged int
	full    bool
}

func (c *counter) Peek(command.Sender, command.Standing) (ok bool, retryAfter time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.full, time.Second
}

func (c *counter) Admit(command.Sender, command.Standing) (ok bool, retryAfter time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.full {
		c.charged++
	}
	return !c.full, time.Second
}

func (*counter) Refund(command.Sender, command.Standing) {}

// TestAsk asks from any node whether a write is within the leader's limits. The log does not
// change, and only a wrong key is charged.
func TestAsk(t *testing.T) {
	limits := &counter{}
	assess := func(p command.Payload, _ int) (s command.Standing, repeated, fits bool) {
		key := p.(*command.Publish).AgentKey
		return command.Standing{WrongKey: key == "wrong"}, false, key != "greedy"
	}
	c := newCluster(t, 2, func(cfg *Config) { cfg.Limiter, cfg.Assess = limits, assess })
	c.lead("node-0")
	for _, n := range c.nodes {
		ask := func(agentKey string) (bool, error) {
			t.Helper()
			p := entryOf("asked by " + n.id)
			p.AgentKey = agentKey
			overBudget, err := n.Ask(context.Background(), sender, p)
			check.Equal(t, n.sm.count("asked by "+n.id), 0, "entries written")
			return overBudget, err
		}
		limits.full, limits.charged = false, 0
		if over, err := ask("ada"); over || err != nil || limits.charged != 0 {
			t.Errorf("within the limits: %t, %v, charged %d times", over, err, limits.charged)
		}
		if over, err := ask("greedy"); !over || err != nil {
			t.Errorf("over the budget: %t, %v", over, err)
		}
		if over, err := ask("wrong"); over || err != nil || limits.charged != 1 {
			t.Errorf("with a wrong key: %t, %v, charged %d times", over, err, limits.charged)
		}
		limits.full = true
		var limited *command.RateLimited
		if _, err := ask("ada"); !errors.As(err, &limited) || limited.RetryAfter != time.Second {
			t.Errorf("over a limit: %v", err)
		}
	}
	c.nodes[0].StopLeading()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var unavailable *command.Unavailable
	if _, err := c.nodes[0].Ask(ctx, sender, entryOf("asked in vain")); !errors.As(err, &unavailable) || unavailable.Code != command.CodeNoLeader {
		t.Errorf("without a leader: %v", err)
	}
}
