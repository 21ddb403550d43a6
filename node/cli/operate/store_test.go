package operate_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/cli"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/offsite"
	"github.com/commons-cluster/commons/node/offsite/offsitetest"
)

// TestRestoreAmongTwoClusters: in a store with the backups of two clusters, that of the newest upload
// is restored once the operator has confirmed it. It is checked at once.
func TestRestoreAmongTwoClusters(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	c.MustPublish(0, nodetest.Post{Body: "worth a backup"})
	dir := must.Get(os.MkdirTemp("/tmp", "among"))(t) // with a name that an address may have
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	address := "file://" + dir
	store := must.Get(offsite.Open(address, offsite.Access{}))(t)
	const former = "f0e1"
	at := time.Now().Add(48 * time.Hour).UnixMilli() // by clocks that were ahead
	other := must.Get(offsite.Save(t.Context(), store, former, true, at, bytes.NewReader(offsitetest.Backup(t, former, at, 1_000_000))))(t)
	ago := time.Now().Add(-time.Hour)
	must.Do(t, os.Chtimes(filepath.Join(dir, other.Name+".json"), ago, ago))
	expect(t, cli.ExitOK, []string{"snapshot", "save", address, "--cluster-addr", c.Nodes[0].ClusterAddr()}, "saved and read back")

	data := filepath.Join(t.TempDir(), "data")
	restore := []string{"snapshot", "restore", address, "--data-dir", data, "--node-id", "r"}
	expect(t, cli.ExitFailed, restore, "has backups of 2 clusters", other.Name, "Give --yes")
	for _, args := range [][]string{{"snapshot", "inspect", address}, {"snapshot", "restore", "--check", address}, append(restore, "--yes")} {
		code, out, stderr := execute(t, args...)
		check.Equal(t, code, cli.ExitOK, "exit code of %q, %s", args, stderr)
		check.Lacks(t, out, former, "%q: the cluster", args)
		check.Contains(t, stderr, other.Name, "%q: the note of both", args)
	}
	list := must.Get(filepath.Glob(dir + "/*/*.purged.json"))(t)[0]
	must.Do(t, os.WriteFile(list, []byte(`{"clusterId":"`+filepath.Base(filepath.Dir(list))+`","createdAt":1,"index":1}`), 0o600))
	expect(t, cli.ExitFailed, append(restore, "--yes"), "purges are known up to") // the list is older than the backup
}

// TestBackupsInAStore saves, lists, checks and restores backups in a bucket. A restore repeats
// the purges after the backup, whose list was saved with a later one.
func TestBackupsInAStore(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	c.MustPublish(0, nodetest.Post{Body: "worth a backup"})
	service := offsitetest.New(t)
	access := service.Access(t)
	const store = "s3://" + offsitetest.Bucket + "/commons"
	at := []string{"--backup-endpoint", access.Endpoint, "--backup-region", access.Region, "--backup-credentials", access.Credentials}
	from := append([]string{"--cluster-addr", c.Nodes[0].ClusterAddr()}, at...)
	run := func(code int, says string, args ...string) {
		t.Helper()
		expect(t, code, args, says)
	}
	run(cli.ExitFailed, "has no whole backup", append([]string{"snapshot", "restore", "--check", store}, at...)...)
	run(cli.ExitOK, "saved and read back", append([]string{"snapshot", "save", store}, from...)...)
	check.Equal(t, lastBackup(t, c) == "0", false, "the backup is not recorded:")
	code, out, stderr := execute(t, append([]string{"snapshot", "list", store, "--json"}, at...)...)
	var found []offsite.Manifest
	must.Do(t, json.Unmarshal([]byte(out), &found))
	if code != cli.ExitOK || len(found) != 1 || !found[0].Complete || found[0].Scheduled || found[0].Entries != 1 {
		t.Fatalf("list: exit code %d, %s%s", code, out, stderr)
	}
	first := store + "/" + found[0].Name
	run(cli.ExitOK, "whole", append([]string{"snapshot", "inspect", first}, at...)...)
	run(cli.ExitOK, "can be restored: 1 entry", append([]string{"snapshot", "restore", "--check", store}, at...)...)

	run(cli.ExitOK, "1 of 1 changed (purge)", "mod", "purge", "e1", "--reason", "an address", "--yes", "--cluster-addr", c.Nodes[0].ClusterAddr())
	run(cli.ExitOK, "saved and read back", append([]string{"snapshot", "save", store}, from...)...)
	data := filepath.Join(t.TempDir(), "data")
	run(cli.ExitOK, "1 text purged again", append([]string{"snapshot", "restore", first, "--data-dir", data, "--node-id", "r"}, at...)...)
	check.Equal(t, len(service.Names(t)), 5, "objects: two backups with their manifests, and one list of purges")

	c.Nodes[0].Config.Access = access
	c.Restart(0)
	c.WaitReady()
	set := func(code int, says string, changes ...string) {
		t.Helper()
		run(code, says, append(append([]string{"settings", "set"}, changes...), "--cluster-addr", c.Nodes[0].ClusterAddr())...)
	}
	set(cli.ExitFailed, "create the bucket", "backup.url=s3://missing")
	set(cli.ExitFailed, "without user, port, query and credentials", "backup.url=s3://id:key@backups")
	set(cli.ExitFailed, "write it as backup.every=24h", "backup.every=soon", "backup.keep=2")
	set(cli.ExitOK, store, "backup.url="+store, "backup.every=36h", "backup.keep=2")
	c.Eventually("a scheduled backup", func() error {
		return nodetest.ErrorIf(c.Nodes[0].Metric("commons_backup_run_timestamp_seconds") == 0, "there was no run")
	})
	check.Equal(t, c.Nodes[0].Metric("commons_backup_every_seconds"), 36*60*60, "seconds between backups")
	check.Equal(t, c.Nodes[0].Metric("commons_backup_run_failed"), 0, "a failed run")
	run(cli.ExitOK, "backups "+store+"; newest of ", "status", "--cluster-addr", c.Nodes[0].ClusterAddr())

	service.Break(func(w http.ResponseWriter, r *http.Request) bool {
		offsitetest.Fail(w, http.StatusForbidden, "SignatureDoesNotMatch")
		return true
	})
	set(cli.ExitFailed, "does not work from the leader", "backup.url=s3://"+offsitetest.Bucket+"/other")
	service.Break(func(w http.ResponseWriter, r *http.Request) bool {
		full := r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, ".json")
		if full {
			offsitetest.Fail(w, http.StatusInsufficientStorage, "XMinioStorageFull")
		}
		return full
	})
	set(cli.ExitOK, "other", "backup.url=s3://"+offsitetest.Bucket+"/other")
	c.Eventually("a run that fails", func() error {
		return nodetest.ErrorIf(c.Nodes[0].Metric("commons_backup_run_failed") == 0, "there was none")
	})
	run(cli.ExitOK, "XMinioStorageFull", "settings", "--cluster-addr", c.Nodes[0].ClusterAddr())
	if log := c.Nodes[0].Log(); strings.Contains(log, offsitetest.Secret) || strings.Contains(log, offsitetest.KeyID) || !strings.Contains(log, "XMinioStorageFull") {
		t.Errorf("the log has credentials, or no failure: %s", log)
	}

	run(cli.ExitFailed, "--backup-endpoint", "snapshot", "list", store, "--backup-endpoint", "http://192.0.2.1")
	run(cli.ExitFailed, "without user", "snapshot", "save", "s3://id:key@backups", "--cluster-addr", c.Nodes[0].ClusterAddr())
}
