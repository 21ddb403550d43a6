package integration

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/simnet"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/offline"
	"github.com/commons-cluster/commons/node/offsite"
	"github.com/commons-cluster/commons/node/offsite/offsitetest"
)

const serviceHost = "127.0.0.210" // in the network of a virtual cluster

// newBackedUp starts three nodes with a service for backups in their network.
func newBackedUp(t *testing.T) (c *testCluster, service *offsitetest.Service, access offsite.Access) {
	t.Helper()
	c = emptyCluster(t, soon, func(cfg *config.Config) {
		cfg.Access = access
		cfg.Dial = cfg.Tuning.Network.DialContext
	})
	const at = serviceHost + ":9000"
	service = offsitetest.Serve(t, must.Get(c.Net().Host(serviceHost).Listen(t.Context(), "tcp", at))(t))
	access = service.Access(t)
	for range 3 {
		c.Add(3)
	}
	for _, nd := range c.Nodes {
		nd.Config.Join = c.GossipAddrs()
	}
	for i := range c.Nodes {
		c.Start(i)
	}
	c.WaitReady()
	c.WaitVoters()
	access.Dial = c.Operators().DialContext
	return c, service, access
}

// TestLeaderLostInABackup: a leader crashes in the middle of an upload, and another one is cut off
// between a backup and its record. The next leader makes the first again and counts the second, the
// parts are deleted, and the schedule goes on. Reports and metrics say so at all times.
func TestLeaderLostInABackup(t *testing.T) {
	longtest.SkipRaced(t, "TestScheduledBackups is shorter, and changes the leader, too")
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c, service, access := newBackedUp(t)
		ids := c.publishDoomed()
		const url = "s3://" + offsitetest.Bucket + "/commons"
		store := must.Get(offsite.Open(url, access))(t)
		every, keep, address := uint64(120_000), uint64(1), url
		leader := c.WaitLeader()
		mustOperate[admin.SettingsReport](c, leader, admin.PathSettings, admin.SettingsChange{BackupMillis: &every, BackupKeep: &keep, BackupURL: &address})
		// counted checks that every report is about the backup that was begun at an instant.
		counted := func(node int, at int64) {
			t.Helper()
			run := mustOperate[admin.SettingsReport](c, node, admin.PathSettings, admin.SettingsChange{}).Backup
			check.Equal(t, run.Saved, at, "begin of the backup that counts")
			check.Equal(t, run.Oldest, at, "begin of the oldest backup")
			check.Equal(t, run.Problem, "", "problem")
			check.Equal(t, int64(c.Nodes[node].Metric("commons_last_backup_timestamp_seconds")*1000+0.5), at, "metric of the last backup")
			check.Equal(t, c.Nodes[node].Metric("commons_backup_run_failed"), 0, "metric of a failure")
			check.Equal(t, len(backups(t, store)), 1, "backups that count")
		}
		first := c.saved(leader, 0)
		counted(leader, first)

		// The parts of an upload arrive, and its end does not.
		var reached atomic.Bool
		service.Break(func(w http.ResponseWriter, r *http.Request) bool {
			hangs := r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
			if hangs {
				reached.Store(true)
				offsitetest.Hang(w, r)
			}
			return hangs
		})
		c.Within(3*time.Minute, "a second upload", func() error { return nodetest.ErrorIf(!reached.Load(), "not begun") })
		c.purge(leader, ids...)
		counted(leader, first)
		check.Equal(t, len(service.Unfinished(t)), 1, "uploads with parts")
		c.Net().Change(c.Nodes[leader].Host(), serviceHost, func(l *simnet.Link) { l.Cut = true }) // a crash sends no farewell
		c.Kill(leader)
		killed, second := leader, c.WaitLeader(c.Others(leader)...)
		counted(second, first)
		until := must.Get(time.Parse(time.RFC3339, must.Get(c.purges(second))(t).BackupsUntil))(t)
		if until.UnixMilli() < first+int64(every) {
			t.Errorf("purged texts are in backups until %v", until)
		}
		service.Break(nil)
		next := c.saved(second, first)
		if next-first < int64(every) {
			t.Errorf("a backup was made after %d ms", next-first)
		}
		counted(second, next)
		c.onlyBackup(service, "after a crash")
		check.Equal(t, must.Get(c.purges(second))(t).BackupsUntil, "", "backups with purged texts are left until")
		c.Net().Change(c.Nodes[killed].Host(), serviceHost, func(l *simnet.Link) { l.Cut = false })
		c.StartReady(killed)

		// A backup is whole, and the next request of the leader hangs: it records no run.
		var begun atomic.Int32
		reached.Store(false)
		service.Break(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, ".commons.json") {
				begun.Add(1)
			}
			hangs := begun.Load() == 2 && r.Method == http.MethodGet && r.URL.Query().Has("list-type")
			if hangs {
				reached.Store(true)
				offsitetest.Hang(w, r)
			}
			return hangs
		})
		c.Within(3*time.Minute, "a third backup", func() error { return nodetest.ErrorIf(!reached.Load(), "not made") })
		made := ""
		for _, name := range service.Names(t) {
			if strings.HasSuffix(name, ".commons") {
				made = strings.TrimPrefix(name, "commons/") // the newest is the last
			}
		}
		c.Isolate(second)
		third := c.WaitLeader(c.Others(second)...)
		service.Break(nil)
		recorded := c.saved(third, next)
		counted(third, recorded)
		check.Diff(t, backups(t, store), []string{made}, "the backup that the former leader made")
		c.onlyBackup(service, "after a leader was cut off")
		c.Heal()
		c.WaitVoters()
		c.transfer(third, c.Nodes[second].ServerID())
		last := c.saved(second, recorded)
		if last-recorded < int64(every) {
			t.Errorf("a backup was made after %d ms", last-recorded)
		}
		counted(second, last)
		c.onlyBackup(service, "of a leader that led before")

		from, found, err := offsite.Locate(t.Context(), url, access)
		must.Do(t, err)
		restored := emptyCluster(t)
		nd := restored.Add(1)
		at := offline.Offline{DataDir: nd.DataDir(), NodeID: nd.Config.NodeID, Purged: must.Get(offsite.Purges(t.Context(), from, found[0].ClusterID))(t)}
		must.Get(offline.Restore(at, downloaded(t, from, found[0].Name)))(t)
		restored.Start(0)
		restored.WaitReady()
		if found, err := restored.doomedFiles(0); err != nil || len(found) > 0 {
			t.Errorf("purged texts are in %s, %v", found, err)
		}
	})
}

// saved waits for a backup that was begun after an instant, and returns its begin.
func (c *testCluster) saved(node int, after int64) (at int64) {
	c.t.Helper()
	c.Within(3*time.Minute, "a backup is recorded", func() error {
		report, err := operate[admin.SettingsReport](c, node, admin.PathSettings, admin.SettingsChange{})
		at = report.Backup.Saved
		return nodetest.ErrorIf(err != nil || at <= after, "%+v, %v", report.Backup, err)
	})
	return at
}

// onlyBackup waits until a store has one backup, its manifest, a list of purges, and no parts.
func (c *testCluster) onlyBackup(service *offsitetest.Service, when string) {
	c.t.Helper()
	c.Eventually("one backup "+when, func() error {
		var endings []string
		for _, name := range service.Names(c.t) {
			endings = append(endings, strings.TrimLeft(strings.Split(name, "Z.")[1], "0123456789.")) // of a list without its index
		}
		slices.Sort(endings)
		parts, whole := service.Unfinished(c.t), []string{"commons", "commons.json", "purged.json"}
		return nodetest.ErrorIf(len(parts) > 0 || !slices.Equal(endings, whole), "the store has %v, and parts of %v", endings, parts)
	})
}

// downloaded returns a file with an object of a store.
func downloaded(t *testing.T, s offsite.Store, name string) string {
	t.Helper()
	r := must.Get(s.Get(t.Context(), name))(t)
	file := filepath.Join(t.TempDir(), "backup")
	must.Do(t, os.WriteFile(file, must.Get(io.ReadAll(r))(t), 0o600))
	must.Do(t, r.Close())
	return file
}
