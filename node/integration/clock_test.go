package integration

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/offsite"
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
			cfg.Tuning.ClaimTTL = 30 * time.Minute
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

// TestClocksThatWereAhead: when the clocks of all nodes are two days ahead and are then set right,
// scheduled backups go on at once, also under the next leader, and the newest one is found. Status and
// metrics show how far the time of the log is ahead.
func TestClocksThatWereAhead(t *testing.T) {
	t.Parallel()
	dir := must.Get(os.MkdirTemp("/tmp", "ahead"))(t) // with a name that an address may have
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	nodetest.Virtual(t, func(t *testing.T) {
		const ahead, tolerance = 48 * time.Hour, time.Hour // far above all delays
		var clocks []*setClock
		c := newCluster(t, 3, soon, func(cfg *config.Config) {
			clock := &setClock{Clock: propose.WallClock(0)}
			clock.off.Store(int64(ahead))
			clocks, cfg.Tuning.Clock = append(clocks, clock), clock
		})
		c.WaitVoters()
		id := c.MustPublish(0, nodetest.Post{Body: "An address"}).Entry.ID
		leader := c.WaitLeader()
		url, every, keep := "file://"+dir, uint64(60_000), uint64(2)
		mustOperate[admin.SettingsReport](c, leader, admin.PathSettings, admin.SettingsChange{BackupURL: &url, BackupMillis: &every, BackupKeep: &keep})
		first := c.saved(leader, time.Now().Add(ahead-tolerance).UnixMilli())
		warned := func(i int) bool {
			return strings.Contains(strings.Join(c.reports(leader)[i].Warnings, "\n"), "the time of the log is 4")
		}
		check.Equal(t, warned(leader), false, "status warns while all clocks are equal")

		for _, clock := range clocks {
			clock.off.Store(0)
		}
		newest := int64(0)
		c.Within(3*time.Minute, "a backup by the right clocks", func() error {
			newest = mustOperate[admin.SettingsReport](c, leader, admin.PathSettings, admin.SettingsChange{}).Backup.Saved
			return nodetest.ErrorIf(newest >= first, "the newest is of %d", newest)
		})
		for i, nd := range c.Nodes {
			c.Eventually("the metrics of all", func() error {
				last, log := nd.Metric("commons_last_backup_timestamp_seconds"), time.Duration(nd.Metric("commons_log_timestamp_seconds"))*time.Second
				off := time.Until(time.UnixMilli(0).Add(log)) - ahead
				return nodetest.ErrorIf(int64(last*1000+0.5) != newest || off.Abs() > tolerance, "node %d: last backup %v, not %d; time of the log %v off", i, last, newest, off)
			})
			check.Equal(t, warned(i), i == leader, "node %d warns", i)
		}
		_, err := operate[struct{}](c, leader, admin.PathSaved, admin.SavedBackup{CreatedAt: time.Now().UnixMilli()})
		rejected(t, err, http.StatusConflict, "those of a schedule count at once")

		c.purge(leader, id)
		next := (leader + 1) % len(c.Nodes)
		c.transfer(leader, c.Nodes[next].ServerID())
		for range 2 {
			saved := c.saved(next, newest)
			if saved-newest < int64(every) {
				t.Errorf("a backup was made after %d ms", saved-newest)
			}
			newest = saved
		}
		store, found, err := offsite.Locate(t.Context(), url, offsite.Access{})
		must.Do(t, err)
		check.Equal(t, found[0].CreatedAt, newest, "creation of the newest backup")
		check.Equal(t, len(backups(t, store)), int(keep), "backups in the store")
		c.Eventually("the purge is in the list", func() error {
			list, err := offsite.Purges(t.Context(), store, found[0].ClusterID)
			return nodetest.ErrorIf(err != nil || len(list.Purged) != 1, "%+v, %v", list, err)
		})
	})
}
