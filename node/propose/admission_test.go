package propose

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/limit"
)

// TestLostClaimsAreRefunded measures the cost of claims that lose to an earlier one in the
// log, proposed on the leader and on another node. Other rejected claims are charged.
func TestLostClaimsAreRefunded(t *testing.T) {
	const burst = limit.MaxRefunds + 20
	claim := func(job string) *command.ClaimJob {
		on := command.JobAction{Author: command.Author{Agent: "Ada", AgentKey: "ada"}, Job: job}
		return &command.ClaimJob{JobAction: on, TTL: 1}
	}
	lost := func() *command.ClaimJob { return claim("taken") }
	withWrongKey := func() *command.ClaimJob {
		c := lost()
		c.Proof.Key = make([]byte, sha256.Size)
		return c
	}
	for name, tt := range map[string]struct {
		claim  func() *command.ClaimJob
		claims int
		from   command.Sender
		cost   int
	}{
		"won":             {func() *command.ClaimJob { return claim("open") }, 1, sender, 1},
		"lost":            {lost, limit.MaxRefunds, sender, 0},
		"one too many":    {lost, limit.MaxRefunds + 1, sender, 1},
		"with wrong keys": {withWrongKey, 3, sender, 3},
		"charged before":  {lost, 3, command.Sender{Fingerprint: sender.Fingerprint, AgentKey: sender.AgentKey, Charged: true}, 0},
	} {
		for taker := range 2 {
			t.Run(fmt.Sprintf("%s/taken in by node %d", name, taker), func(t *testing.T) {
				now := time.UnixMilli(1_700_000_000_000)
				limiter := limit.New(func() (perMinute, burstOf int) { return 1, burst }, func() time.Time { return now })
				c := newCluster(t, 2, func(cfg *Config) { cfg.Limiter = limiter })
				c.lead("node-0")
				for _, n := range c.nodes {
					n.sm.claimed["taken"] = true
				}
				for range tt.claims {
					must.Do(t, check.Last(c.nodes[taker].Propose(context.Background(), tt.from, tt.claim())))
				}
				left := 0
				for ok := true; ok; left++ {
					ok, _ = limiter.Admit(sender, command.Standing{})
				}
				check.Equal(t, burst-(left-1), tt.cost, "cost of %d claims in writes", tt.claims)
			})
		}
	}
}
