package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/offline"
	"github.com/commons-cluster/commons/node/offsite"
)

// TestScheduledBackups: leaders make the scheduled backups, each once. Purges of later texts are
// repeated when a backup is restored from the store into a new cluster.
func TestScheduledBackups(t *testing.T) {
	t.Parallel()
	dir := must.Get(os.MkdirTemp("/tmp", "scheduled"))(t) // with a name that an address may have
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3, soon)
		c.WaitVoters()
		ids := c.publishDoomed()
		leader := c.WaitLeader()
		missing, url, every, keep := "file://"+filepath.Join(dir, "missing"), "file://"+dir, uint64(120_000), uint64(1)
		_, err := operate[admin.SettingsReport](c, leader, admin.PathSettings, admin.SettingsChange{SetSettings: command.SetSettings{BackupURL: &missing}})
		check.ErrText(t, err, "mount or create the directory", "a store that does not work")
		report := mustOperate[admin.SettingsReport](c, c.Follower(), admin.PathSettings, admin.SettingsChange{SetSettings: command.SetSettings{BackupMillis: &every, BackupKeep: &keep}})
		check.Equal(t, report.BackupURL, "", "the store after a failed try")
		mustOperate[admin.SettingsReport](c, c.Follower(), admin.PathSettings, admin.SettingsChange{SetSettings: command.SetSettings{BackupURL: &url}})

		store := must.Get(offsite.Open(url, offsite.Access{}))(t)
		first := c.saved(leader, 0)
		c.Eventually("a follower has restored the backup as a check", func() error {
			run := mustOperate[admin.SettingsReport](c, leader, admin.PathSettings, admin.SettingsChange{}).Backup
			return nodetest.ErrorIf(run.Verified != run.Saved || run.Doubt != "", "%+v", run)
		})
		for i := range 3 {
			restored := filepath.Join(c.Nodes[i].DataDir(), offline.VerifyDir)
			check.Fails(os.Stat(restored))(t, "look for what node %d restored", i)
		}
		c.Kill(leader)
		left := c.Others(leader)
		second := c.WaitLeader(left...)
		c.Eventually("the new leader takes the schedule over", func() error {
			list, err := offsite.Purges(t.Context(), store, mustOperate[admin.ClusterReport](c, second, admin.PathCluster, nil).ClusterID)
			return nodetest.ErrorIf(err != nil || list.CreatedAt <= first, "%+v, %v", list, err)
		})
		check.Equal(t, len(backups(t, store)), 1, "backups after a change of the leader")

		c.purge(second, ids...)
		c.Eventually("the purges are in the store", func() error {
			list, err := offsite.Purges(t.Context(), store, must.Get(offsite.List(t.Context(), store, ""))(t)[0].ClusterID)
			return nodetest.ErrorIf(err != nil || len(list.Purged) != len(ids), "%+v, %v", list, err)
		})
		purges := must.Get(c.purges(second))(t)
		until := must.Get(time.Parse(time.RFC3339, purges.BackupsUntil))(t)
		if until.UnixMilli() < first+int64(every) {
			t.Errorf("purged texts are in backups until %v", until)
		}
		before := copied(t, dir)
		next := c.saved(second, first)
		if next-first < int64(every) {
			t.Errorf("a backup was made after %d ms", next-first)
		}
		check.Equal(t, len(backups(t, store)), 1, "backups in the store")
		check.Equal(t, must.Get(c.purges(second))(t).BackupsUntil, "", "backups with purged texts are left until")

		restored := emptyCluster(t)
		nd := restored.Add(1)
		from, found, err := offsite.Locate(t.Context(), "file://"+before, offsite.Access{})
		must.Do(t, err)
		at := offline.Offline{DataDir: nd.DataDir(), NodeID: nd.Config.NodeID, Purged: must.Get(offsite.Purges(t.Context(), from, found[0].ClusterID))(t)}
		founded := must.Get(offline.Restore(at, filepath.Join(before, found[0].Name)))(t)
		check.Equal(t, founded.Purged, len(ids), "purges that were repeated")
		restored.Start(0)
		restored.WaitReady()
		check.Empty(t, must.Get(restored.doomedFiles(0))(t), "purged texts are in")
	})
}

// backups returns the names of the backups that count.
func backups(t *testing.T, s offsite.Store) (names []string) {
	t.Helper()
	for _, m := range must.Get(offsite.List(t.Context(), s, ""))(t) {
		if m.Complete {
			names = append(names, m.Name)
		}
	}
	return names
}

// copied returns a copy of a store with one backup, its manifest and one list of purges.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := dir + "-copy"
	t.Cleanup(func() { _ = os.RemoveAll(to) })
	must.Do(t, os.CopyFS(to, os.DirFS(dir)))
	for _, suffix := range []string{backup.PurgeListSuffix, ".commons", ".commons.json"} {
		if found := must.Get(filepath.Glob(filepath.Join(to, "*", "*"+suffix)))(t); len(found) != 1 || strings.HasSuffix(found[0], ".partial") {
			t.Fatalf("the store has %v", found)
		}
	}
	return to
}
