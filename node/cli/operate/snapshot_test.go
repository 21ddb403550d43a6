package operate_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/cli"
	"github.com/commons-cluster/commons/node/nodetest"
)

func TestSnapshotCommands(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	c.MustPublish(0, nodetest.Post{Body: "worth a backup"})
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	expect(t, cli.ExitOK, []string{"snapshot", "save", file, "--cluster-addr", c.Nodes[0].ClusterAddr()}, "1 entry up to index")
	check.Equal(t, len(must.Get(os.ReadDir(dir))(t)), 2, "left beside the backup")
	check.Equal(t, must.Get(os.Stat(file))(t).Mode().Perm(), 0o600, "the backup's mode")
	expect(t, cli.ExitOK, []string{"snapshot", "inspect", file}, file+", whole", "rows")
	code, out, stderr := execute(t, "snapshot", "inspect", "--json", file)
	var report struct{ Rows, Digest string }
	if err := json.Unmarshal([]byte(out), &report); code != cli.ExitOK || err != nil || report.Rows == "" {
		t.Errorf("inspect: exit code %d, %s%s", code, out, stderr)
	}

	data := filepath.Join(dir, "data")
	must.Do(t, os.Mkdir(data, 0o755)) //nolint:gosec // as an operator may make it
	expect(t, cli.ExitOK, []string{"snapshot", "restore", file, "--data-dir", data, "--node-id", "r", "--accept-purged-since", longAgo}, "restored and verified: 1 entry", report.Digest)
	check.Equal(t, must.Get(os.Stat(data))(t).Mode().Perm(), 0o700, "mode of the restored data directory")
	expect(t, cli.ExitFailed, []string{"snapshot", "restore", file, "--data-dir", data, "--node-id", "r", "--accept-purged-since", longAgo}, "is not empty")
	expect(t, cli.ExitOK, []string{"snapshot", "restore", file, "--data-dir", filepath.Join(dir, "anew"), "--node-id", "r", "--new-data-key", "--accept-purged-since", longAgo}, "restored and verified: 1 entry", "The data key is new")
	expect(t, cli.ExitUsage, []string{"recover", "--data-dir", data}, "--confirm is missing: recover makes r-", "of term")
	code, out, stderr = execute(t, "recover", "--data-dir", data, "--confirm", "--json")
	if code != cli.ExitOK || !json.Valid([]byte(out)) {
		t.Errorf("recover: exit code %d, %s%s", code, out, stderr)
	}

	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"mod", "purge", "e1", "--reason", "an address", "--yes", "--cluster-addr", c.Nodes[0].ClusterAddr()}, "1 of 1 changed (purge)"},
		{[]string{"mod", "purge-status", "--cluster-addr", c.Nodes[0].ClusterAddr()}, c.Nodes[0].ServerID()},
		{[]string{"snapshot", "restore", file, "--data-dir", filepath.Join(dir, "as it was"), "--node-id", "r", "--accept-purged-since", longAgo}, "restored and verified: 1 entry"},
		{[]string{"mod", "purge-list", filepath.Join(dir, "later.purged.json"), "--cluster-addr", c.Nodes[0].ClusterAddr()}, ""},
		{[]string{"snapshot", "restore", file, "--data-dir", filepath.Join(dir, "purged"), "--node-id", "r"}, "1 text purged again, as the purge list says."},
	} {
		expect(t, cli.ExitOK, step.args, step.says)
	}

	alone := filepath.Join(t.TempDir(), "alone")
	must.Do(t, os.Link(file, alone))
	must.Do(t, os.Link(file+".purged.json", alone+".purged.json"))
	from := c.Nodes[0].ClusterAddr()
	for _, tc := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"without a newer list", nil, cli.ExitFailed, "texts purged later would be back"},
		{"accepted", []string{"--accept-purged-since", longAgo}, cli.ExitOK, "texts purged later are back"},
		{"accepted since a time that is too late", []string{"--accept-purged-since", "2999-01-01T00:00:00Z"}, cli.ExitUsage, "purges are known up to"},
		{"no time", []string{"--accept-purged-since", "yesterday"}, cli.ExitUsage, "is no time such as"},
		{"a newer list", []string{"--purged", filepath.Join(dir, "later.purged.json")}, cli.ExitOK, "1 text purged again"},
		{"from a node", []string{"--purged-from", from}, cli.ExitOK, "1 text purged again"},
		{"from no node", []string{"--purged-from", "127.0.0.1:1"}, cli.ExitFailed, "--purged-from"},
		{"a drill", []string{"--check"}, cli.ExitOK, "can be restored"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]string{"snapshot", "restore", alone, "--data-dir", filepath.Join(t.TempDir(), "data"), "--node-id", "r"}, tc.args...)
			if code, out, stderr := execute(t, args...); code != tc.code || !strings.Contains(out+stderr, tc.says) {
				t.Errorf("exit code %d, want %d and %q: %s%s", code, tc.code, tc.says, out, stderr)
			}
		})
	}

	must.Do(t, os.Truncate(file, 1000))
	expect(t, cli.ExitFailed, []string{"snapshot", "inspect", file}, "not a whole backup")
	expect(t, cli.ExitFailed, []string{"snapshot", "save", filepath.Join(dir, "missing", "backup"), "--cluster-addr", c.Nodes[0].ClusterAddr()}, "nothing was saved")
}

// TestRestoreWantsNewerList: four lists of purges do not count as newer ones: the backup's own list
// under another spelling, the list of an older backup, one from before that clocks which were ahead
// dated later, and a list of another cluster. One of after the backup does, whatever its date.
func TestRestoreWantsNewerList(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	addr := c.Nodes[0].ClusterAddr()
	c.MustPublish(0, nodetest.Post{Body: "An address"})
	dir := t.TempDir()
	alone, older, file := filepath.Join(t.TempDir(), "alone"), filepath.Join(dir, "older"), filepath.Join(dir, "newer")
	for _, to := range []string{alone, older, file} {
		expect(t, cli.ExitOK, []string{"snapshot", "save", to, "--cluster-addr", addr}, "1 entry")
	}
	restore := func(file string) []string {
		return []string{"snapshot", "restore", file, "--data-dir", filepath.Join(t.TempDir(), "data"), "--node-id", "r"}
	}
	expect(t, cli.ExitFailed, restore(filepath.Dir(alone)+"/./alone"), "texts purged later would be back")
	expect(t, cli.ExitFailed, restore(file), "texts purged later would be back")
	ahead := must.Get(backup.ReadPurgeList(older + backup.PurgeListSuffix))(t)
	ahead.CreatedAt = time.Now().Add(48 * time.Hour).UnixMilli()
	must.Do(t, ahead.Write(filepath.Join(dir, "ahead.purged.json")))
	expect(t, cli.ExitFailed, restore(file), "texts purged later would be back")

	expect(t, cli.ExitOK, []string{"mod", "purge", "e1", "--reason", "an address", "--yes", "--cluster-addr", addr}, "1 of 1 changed")
	expect(t, cli.ExitOK, []string{"mod", "purge-list", filepath.Join(dir, "later.purged.json"), "--cluster-addr", addr})
	later := must.Get(backup.ReadPurgeList(filepath.Join(dir, "later.purged.json")))(t)
	later.CreatedAt = time.Now().Add(-48 * time.Hour).UnixMilli()
	must.Do(t, later.Write(filepath.Join(dir, "later.purged.json")))
	foreign := backup.PurgeList{ClusterID: "f0e1", CreatedAt: time.Now().Add(time.Hour).UnixMilli(), Index: 1}
	must.Do(t, foreign.Write(filepath.Join(dir, "foreign.purged.json")))
	expect(t, cli.ExitOK, restore(file), "1 text purged again")
}

// TestOnlyWhatWasSavedIsRecorded: the cluster counts a backup once its file is there.
func TestOnlyWhatWasSavedIsRecorded(t *testing.T) {
	c := nodetest.New(t, 1)
	dir := t.TempDir()
	save := func(file string) (code int, stderr string) {
		code, _, stderr = execute(t, "snapshot", "save", file, "--cluster-addr", c.Nodes[0].ClusterAddr())
		return code, stderr
	}
	taken, device := filepath.Join(dir, "taken"), filepath.Join(dir, "device")
	must.Do(t, os.Mkdir(taken, 0o700))
	must.Do(t, os.Symlink(os.DevNull, device))
	// The first has nowhere to go, the second comes whole and cannot get its name, and the
	// third would replace a device.
	for _, file := range []string{filepath.Join(dir, "missing", "backup"), taken, device} {
		if code, stderr := save(file); code != cli.ExitFailed || !strings.Contains(stderr, "nothing was saved") {
			t.Errorf("save to %s: exit code %d, %s", file, code, stderr)
		}
		check.Equal(t, lastBackup(t, c), "0", "after nothing was saved to %s the newest backup is of", file)
	}
	check.Equal(t, len(must.Get(os.ReadDir(dir))(t)), 2, "left behind")
	check.Equal(t, must.Get(os.Readlink(device))(t), os.DevNull, "the device was replaced")
	if code, stderr := save(filepath.Join(dir, "backup")); code != cli.ExitOK || stderr != "" {
		t.Fatalf("save: exit code %d, %s", code, stderr)
	}
	if at := lastBackup(t, c); at == "0" {
		t.Error("a backup was saved, and is not recorded")
	}
}

// lastBackup returns when the newest backup was begun, as a node's measurements say.
func lastBackup(t *testing.T, c *nodetest.Cluster) string {
	t.Helper()
	_, body, err := c.Nodes[0].GetText("/metrics")
	must.Do(t, err)
	_, rest, found := strings.Cut(body, "\ncommons_last_backup_timestamp_seconds ")
	if !found {
		t.Fatal("when the newest backup was begun is not measured")
	}
	at, _, _ := strings.Cut(rest, "\n")
	return at
}

// longAgo is a time before every purge.
const longAgo = "2000-01-01T00:00:00Z"

// TestSnapshotToStandardOutput holds that a backup can be piped elsewhere.
func TestSnapshotToStandardOutput(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	c.MustPublish(0, nodetest.Post{Body: "worth a backup"})
	code, out, stderr := execute(t, "snapshot", "save", "-", "--cluster-addr", c.Nodes[0].ClusterAddr())
	if code != cli.ExitOK || !strings.Contains(stderr, "saved to standard output: 1 entry") || !strings.Contains(stderr, "mod purge-list") {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	if at := lastBackup(t, c); at == "0" {
		t.Error("the backup is not recorded")
	}
	file := filepath.Join(t.TempDir(), "backup")
	must.Do(t, os.WriteFile(file, []byte(out), 0o600))
	expect(t, cli.ExitOK, []string{"snapshot", "restore", "--check", file})
}

// TestRestoredFilesKeepTheOwner holds that the user of a node can use a data directory after
// root restored or recovered it.
func TestRestoredFilesKeepTheOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to others")
	}
	c := nodetest.New(t, 1)
	c.MustPublish(0, nodetest.Post{Body: "worth a backup"})
	file, home := filepath.Join(t.TempDir(), "backup"), t.TempDir()
	expect(t, cli.ExitOK, []string{"snapshot", "save", file, "--cluster-addr", c.Nodes[0].ClusterAddr()})
	const user = 12345
	must.Do(t, os.Chown(home, user, user))
	data := filepath.Join(home, "data")
	for _, args := range [][]string{{"snapshot", "restore", file, "--accept-purged-since", longAgo}, {"recover"}, {"recover", "--confirm"}} {
		_, out, stderr := execute(t, append(args, "--data-dir", data, "--node-id", "r")...)
		err := filepath.WalkDir(home, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err == nil && info.Sys().(*syscall.Stat_t).Uid != user {
				t.Errorf("after %v %s belongs to root", args, path)
			}
			return err
		})
		if err != nil {
			t.Fatalf("%v: %v, %s%s", args, err, out, stderr)
		}
	}
}
