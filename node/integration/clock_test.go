package integration

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/propose"
)

// setClock is a clock that a test sets.
type setClock struct {
	propose.Clock
	off atomic.Int64
}

func (c *setClock) Read() (time.Time, time.Duration) {
	wall, mono := c.Clock.Read()
	return wall.Add(time.Duration(c.off.Load())), mono
}

// correction returns the seconds that a node adds to its clock.
func correction(nd *nodetest.Node) float64 { return nd.Metric("commons_clock_correction_seconds") }

// TestLeadersClockIsSet sets the clock of a leader while a voter is away, and of the
// one that leads next right before it is elected: what is published keeps the time of
// the voters, and a claim its end.
func TestLeadersClockIsSet(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		const tolerance = 5 * time.Minute // far below the steps, far above any delay
		var clocks []*setClock
		c := newCluster(t, 3, func(cfg *config.Config) {
			clocks = append(clocks, &setClock{Clock: propose.WallClock(0)})
			cfg.Tuning.Clock = clocks[len(clocks)-1]
			cfg.ClaimTTL = 30 * time.Minute
		})
		c.WaitVoters()
		leader := c.WaitLeader()
		id := c.mustJob(leader, newJob).ID
		c.mustJob(leader, claimOf("bob", id))

		check := func(leader int, when string) {
			t.Helper()
			e := c.MustPublish(leader, nodetest.Post{Body: "What time is it?"}).Entry
			if off := time.Since(time.UnixMilli(e.CreatedAt)); off.Abs() > tolerance {
				t.Errorf("%s: the entry is %v off", when, -off)
			}
		}
		steps := func(leader int) {
			t.Helper()
			for _, step := range []time.Duration{time.Hour, -time.Hour} {
				clocks[leader].off.Store(int64(step))
				check(leader, fmt.Sprintf("set by %v", step))
				c.Eventually("the step is corrected", func() error {
					got := correction(c.Nodes[leader])
					return nodetest.ErrorIf(math.Abs(got+step.Seconds()) > tolerance.Seconds(), "set by %v, corrected by %v s", step, got)
				})
				check(leader, fmt.Sprintf("set by %v and compared", step))
			}
			clocks[leader].off.Store(0)
		}
		away := c.Follower()
		c.Kill(away)
		steps(leader)
		c.waitJob(id, "claimed")

		c.Start(away)
		c.WaitReady()
		next := 3 - leader - away
		clocks[next].off.Store(int64(time.Hour))
		for l := leader; l != next; l = c.WaitLeader() {
			c.Stop(l)
			c.Start(l)
			c.WaitReady()
		}
		check(next, "elected with a clock that is ahead")
		c.Kill(away)
		c.WaitLeader(leader, next)
		check(leader, "another one is away")
		c.waitJob(id, "claimed")
	})
}
