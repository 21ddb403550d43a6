package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

func TestSecretGenerate(t *testing.T) {
	code, first, stderr := execute(t, "secret", "generate")
	if code != exitOK || len(strings.TrimSpace(first)) < cluster.MinSecretBytes {
		t.Fatalf("exit code %d: %q %s", code, first, stderr)
	}
	code, second, _ := execute(t, "secret", "generate", "--json")
	var answer struct{ Secret string }
	if err := json.Unmarshal([]byte(second), &answer); code != exitOK || err != nil || answer.Secret == strings.TrimSpace(first) {
		t.Errorf("exit code %d: %q, %v", code, second, err)
	}
}

func TestSecretGenerateKeepsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	code, out, stderr := execute(t, "secret", "generate", "--keep", file)
	if code != exitOK || !strings.Contains(out, "wrote a new secret to "+file) {
		t.Fatalf("exit code %d: %s%s", code, out, stderr)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	code, out, stderr = execute(t, "secret", "generate", "--keep", file, "--json")
	if code != exitOK || !strings.Contains(out, `"made": false`) {
		t.Errorf("again: exit code %d: %s%s", code, out, stderr)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file changed: %v", err)
	}
	if err := os.WriteFile(file, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := execute(t, "secret", "generate", "--keep", file); code != exitFailed || !strings.Contains(stderr, "line 1 has 5 bytes") {
		t.Errorf("a bad file: exit code %d: %s", code, stderr)
	}
}

func TestRotationStepByStep(t *testing.T) {
	servers := func(secrets, sealed string, more ...*admin.NodeReport) []admin.Server {
		list := []admin.Server{{ID: "a-1", Report: &admin.NodeReport{Secrets: strings.Fields(secrets), SealedUnder: sealed}}}
		for _, r := range more {
			list = append(list, admin.Server{ID: "b-2", Report: r})
		}
		return list
	}
	report := func(secrets, sealed string) *admin.NodeReport {
		return &admin.NodeReport{Secrets: strings.Fields(secrets), SealedUnder: sealed}
	}
	for name, tc := range map[string]struct {
		file, next string
		servers    []admin.Server
		want       step
		waiting    []string
	}{
		"nothing begun":                  {"old", "", servers("old", "old"), stepAdd, nil},
		"added, not read by all":         {"old new", "new", servers("old new", "old", report("old", "old")), stepWaitAccepted, []string{"b-2"}},
		"added, one does not answer":     {"old new", "new", servers("old new", "old", nil), stepWaitAccepted, []string{"b-2"}},
		"accepted by all":                {"old new", "new", servers("old new", "old", report("old new", "old")), stepSwap, nil},
		"swapped, not read by all":       {"new old", "new", servers("new old", "old", report("old new", "old")), stepWaitUsed, []string{"b-2"}},
		"swapped and resealed, one late": {"new old", "new", servers("new old", "new", report("old new", "new")), stepWaitUsed, []string{"b-2"}},
		"used by all":                    {"new old", "new", servers("new old", "old"), stepWaitSealed, []string{"a-1"}},
		"resealed":                       {"new old", "new", servers("new old", "new", report("new old", "new")), stepDrop, nil},
		"dropped, not read by all":       {"new", "new", servers("new", "new", report("new old", "new")), stepWaitDropped, []string{"b-2"}},
		"dropped by all":                 {"new", "new", servers("new", "new", report("new", "new")), stepDone, nil},
	} {
		r := rotation{file: strings.Fields(tc.file), next: tc.next, servers: tc.servers}
		if got, waiting := r.decide(); got != tc.want || !slices.Equal(waiting, tc.waiting) {
			t.Errorf("%s: step %d waiting for %v, want %d and %v", name, got, waiting, tc.want, tc.waiting)
		}
	}
}

// checkBackupFromBefore holds that a backup made under the former secret is rejected
// without it, before anything is changed, and restored with it.
func checkBackupFromBefore(t *testing.T, backup, secret, former string) {
	t.Helper()
	missing := filepath.Join(t.TempDir(), "restored")
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"inspect", backup}, exitOK, "not known"},
		{[]string{"inspect", backup, "--secret-file", secret}, exitFailed, "is whole, and cannot be restored"},
		{[]string{"inspect", backup, "--secret-file", secret, "--json"}, exitFailed, `"restorable": false`},
		{[]string{"restore", "--check", backup, "--secret-file", secret}, exitFailed, "--source-secret-file"},
		{[]string{"restore", backup, "--secret-file", secret, "--data-dir", missing}, exitFailed, filepath.Base(former)[len(filepath.Base(secret)):]},
		{[]string{"inspect", backup, "--secret-file", secret, "--source-secret-file", former, "--json"}, exitOK, `"restorable": true`},
		{[]string{"restore", "--check", backup, "--secret-file", secret, "--source-secret-file", former}, exitOK, "can be restored: 1 entry up"},
		{[]string{"restore", "--check", backup, "--secret-file", secret, "--new-data-key", "--json"}, exitOK, `"restorable": true`},
		{[]string{"restore", backup, "--secret-file", secret, "--source-secret-file", former, "--new-data-key"}, exitUsage, "give one of them"},
	} {
		code, out, stderr := execute(t, append([]string{"snapshot"}, tc.args...)...)
		if code != tc.code || !strings.Contains(out+stderr, tc.want) {
			t.Errorf("snapshot %v: exit code %d, want %d and %q: %s%s", tc.args, code, tc.code, tc.want, out, stderr)
		}
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was rejected left a data directory: %v", err)
	}
	code, out, stderr := execute(t, "snapshot", "restore", backup, "--secret-file", secret, "--source-secret-file", former, "--data-dir", missing, "--node-id", "r")
	if code != exitOK || !strings.Contains(out, "restored and verified: 1 entry up") || strings.Contains(out, "data key is new") {
		t.Errorf("restore: exit code %d, %s%s", code, out, stderr)
	}
}

// TestSecretIsRotatedUnderLoad changes the secret of nodes that share a file,
// while clients write: no write fails, and the nodes start again with the new
// secret alone.
func TestSecretIsRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the nodes read their secret file every two seconds")
	}
	file := filepath.Join(t.TempDir(), "secret")
	if _, err := cluster.KeepSecretFile(file); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := nodetest.New(t, 3, func(cfg *config.Config) { cfg.SecretFile = file })
	c.WaitVoters()
	first := c.MustPublish(0, nodetest.Post{Agent: "ada", Body: "under the first secret", RequestID: "secret-0001"})
	backup := filepath.Join(t.TempDir(), "backup")
	if code, _, stderr := execute(t, "snapshot", "save", backup, "--secret-file", file, "--cluster-addr", c.Nodes[0].ClusterAddr()); code != exitOK {
		t.Fatal(stderr)
	}
	load := c.StartLoad(3, 0, 1, 2)
	code, out, stderr := execute(t, "secret", "rotate", "--json", "--secret-file", file, "--cluster-addr", c.Nodes[1].ClusterAddr())
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var done rotationNews
	err = json.Unmarshal([]byte(lines[len(lines)-1]), &done)
	if code != exitOK || err != nil || !done.Done || len(done.Waiting) != 0 || done.BackupsBefore == 0 {
		t.Fatalf("exit code %d: %v, %s%s", code, err, out, stderr)
	}
	load.Stop()
	load.Check()
	after, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(after), strings.TrimSpace(string(before))) {
		t.Errorf("the former secret is still in the file: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 2 {
		t.Errorf("left beside the file: %v, %v", left, err)
	}
	if kept, err := os.ReadFile(done.FormerSecretFile); err != nil || !bytes.Equal(kept, before) {
		t.Errorf("the former secret is not kept: %v", err)
	}
	checkBackupFromBefore(t, backup, file, done.FormerSecretFile)
	c.Kill(0, 1, 2)
	for i := range c.Nodes {
		c.Start(i)
	}
	c.WaitReady()
	again, err := c.Nodes[2].Publish(t.Context(), nodetest.Post{Agent: "ada", Body: "under the first secret", RequestID: "secret-0001"})
	if err != nil || again.Entry.ID != first.Entry.ID {
		t.Errorf("a retry after the rotation: %+v, %v", again, err)
	}
}
