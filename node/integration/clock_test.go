package integration

import (
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
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
		mustOperate[admin.SettingsReport](c, leader, admin.PathSettings, admin.SettingsChange{SetSettings: command.SetSettings{BackupURL: &url, BackupMillis: &every, BackupKeep: &keep}})
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
