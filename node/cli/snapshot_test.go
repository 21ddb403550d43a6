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
	c := nodetest.New(t, 1)
	c.MustPublish(0, nodetest.Post{Body: "worth a backup"})
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	code, out, stderr := execute(t, "snapshot", "save", file, "--cluster-addr", c.Nodes[0].ClusterAddr())
	if code != exitOK || !strings.Contains(out, "1 entries up to index") {
		t.Fatalf("save: exit code %d, %s%s", code, out, stderr)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
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
	if code != exitOK || !strings.Contains(out, "restored and verified: 1 entries") || !strings.Contains(out, report.Digest) {
		t.Errorf("restore: exit code %d, %s%s", code, out, stderr)
	}
	code, _, stderr = execute(t, "snapshot", "restore", file, "--data-dir", data, "--node-id", "r")
	if code != exitFailed || !strings.Contains(stderr, "is not empty") {
		t.Errorf("restore again: exit code %d, %s", code, stderr)
	}
	code, out, stderr = execute(t, "snapshot", "restore", file, "--data-dir", filepath.Join(dir, "anew"), "--node-id", "r", "--new-data-key")
	if code != exitOK || !strings.Contains(out, "restored and verified: 1 entries") || !strings.Contains(out, "The data key is new") {
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
