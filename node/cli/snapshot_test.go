package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/node/nodetest"
)

func TestSnapshotCommands(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 1)
	c.MustPublish(0, nodetest.Post{Body: "worth a backup"})
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	code, out, stderr := execute(t, "snapshot", "save", file, "--cluster-addr", c.Nodes[0].ClusterAddr())
	if code != exitOK || !strings.Contains(out, "1 entry up to index") {
		t.Fatalf("save: exit code %d, %s%s", code, out, stderr)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("left beside the backup: %v, %v", names, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != backupMode {
		t.Errorf("the backup's mode: %v, %v", info.Mode(), err)
	}
	code, out, stderr = execute(t, "snapshot", "inspect", file)
	if code != exitOK || !strings.Contains(out, file+", whole") || !strings.Contains(out, "rows") {
		t.Errorf("inspect: exit code %d, %s%s", code, out, stderr)
	}
	code, out, stderr = execute(t, "snapshot", "inspect", "--json", file)
	var report struct{ Rows, Digest string }
	if err := json.Unmarshal([]byte(out), &report); code != exitOK || err != nil || report.Rows == "" {
		t.Errorf("inspect: exit code %d, %s%s", code, out, stderr)
	}

	data := filepath.Join(dir, "data")
	code, out, stderr = execute(t, "snapshot", "restore", file, "--data-dir", data, "--node-id", "r")
	if code != exitOK || !strings.Contains(out, "restored and verified: 1 entry") || !strings.Contains(out, report.Digest) {
		t.Errorf("restore: exit code %d, %s%s", code, out, stderr)
	}
	code, _, stderr = execute(t, "snapshot", "restore", file, "--data-dir", data, "--node-id", "r")
	if code != exitFailed || !strings.Contains(stderr, "is not empty") {
		t.Errorf("restore again: exit code %d, %s", code, stderr)
	}
	code, out, stderr = execute(t, "snapshot", "restore", file, "--data-dir", filepath.Join(dir, "anew"), "--node-id", "r", "--new-data-key")
	if code != exitOK || !strings.Contains(out, "restored and verified: 1 entry") || !strings.Contains(out, "The data key is new") {
		t.Errorf("restore with a new data key: exit code %d, %s%s", code, out, stderr)
	}
	code, _, stderr = execute(t, "recover", "--data-dir", data)
	if code != exitUsage || !strings.Contains(stderr, "--confirm is missing: recover makes r-") || !strings.Contains(stderr, "of term") {
		t.Errorf("recover without a word: exit code %d, %s", code, stderr)
	}
	code, out, stderr = execute(t, "recover", "--data-dir", data, "--confirm", "--json")
	if code != exitOK || !json.Valid([]byte(out)) {
		t.Errorf("recover: exit code %d, %s%s", code, out, stderr)
	}

	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"mod", "purge", "e1", "--reason", "an address", "--yes", "--cluster-addr", c.Nodes[0].ClusterAddr()}, "1 of 1 changed (purge)"},
		{[]string{"mod", "purge-status", "--cluster-addr", c.Nodes[0].ClusterAddr()}, c.Nodes[0].ServerID()},
		{[]string{"snapshot", "restore", file, "--data-dir", filepath.Join(dir, "as it was"), "--node-id", "r"}, "restored and verified: 1 entry"},
		{[]string{"mod", "purge-list", filepath.Join(dir, "later.purged.json"), "--cluster-addr", c.Nodes[0].ClusterAddr()}, ""},
		{[]string{"snapshot", "restore", file, "--data-dir", filepath.Join(dir, "purged"), "--node-id", "r"}, "1 text purged again, as the purge list says."},
	} {
		if code, out, stderr := execute(t, step.args...); code != exitOK || !strings.Contains(out, step.says) {
			t.Errorf("%s: exit code %d, %s%s", step.args, code, out, stderr)
		}
	}

	alone := filepath.Join(t.TempDir(), "alone")
	if err := os.Link(file, alone); err != nil {
		t.Fatal(err)
	}
	for _, given := range [][]string{nil, {"--purge-list", file + ".purged.json"}} {
		want := ""
		if given == nil {
			want = "warning: no purge list was given and none is beside " + alone + " (*.purged.json): what was purged after the backup comes back\n"
		}
		if code, _, stderr := execute(t, append([]string{"snapshot", "restore", "--check", alone}, given...)...); code != exitOK || stderr != want {
			t.Errorf("with the list %q: exit code %d, %q, want %q", given, code, stderr, want)
		}
	}

	if err := os.Truncate(file, 1000); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = execute(t, "snapshot", "inspect", file)
	if code != exitFailed || !strings.Contains(stderr, "not a whole backup") {
		t.Errorf("inspect what is cut: exit code %d, %s", code, stderr)
	}
	code, _, stderr = execute(t, "snapshot", "save", filepath.Join(dir, "missing", "backup"), "--cluster-addr", c.Nodes[0].ClusterAddr())
	if code != exitFailed || !strings.Contains(stderr, "nothing was saved") {
		t.Errorf("save nowhere: exit code %d, %s", code, stderr)
	}
}

// TestOnlyWhatWasSavedIsRecorded: the cluster counts a backup once its file is there.
func TestOnlyWhatWasSavedIsRecorded(t *testing.T) {
	c := nodetest.New(t, 1)
	dir := t.TempDir()
	save := func(file string) (code int, stderr string) {
		code, _, stderr = execute(t, "snapshot", "save", file, "--cluster-addr", c.Nodes[0].ClusterAddr())
		return code, stderr
	}
	taken := filepath.Join(dir, "taken")
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	// The first has nowhere to go, the second comes whole and cannot get its name.
	for _, file := range []string{filepath.Join(dir, "missing", "backup"), taken} {
		if code, stderr := save(file); code != exitFailed || !strings.Contains(stderr, "nothing was saved") {
			t.Errorf("save to %s: exit code %d, %s", file, code, stderr)
		}
		if at := lastBackup(t, c); at != "0" {
			t.Errorf("after nothing was saved to %s the newest backup is of %s", file, at)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if code, stderr := save(filepath.Join(dir, "backup")); code != exitOK || stderr != "" {
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
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(body, "\ncommons_last_backup_timestamp_seconds ")
	if !found {
		t.Fatal("when the newest backup was begun is not measured")
	}
	at, _, _ := strings.Cut(rest, "\n")
	return at
}
