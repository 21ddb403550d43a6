package operate_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/cli"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

func TestSecretGenerate(t *testing.T) {
	code, first, stderr := execute(t, "secret", "generate")
	if code != cli.ExitOK || len(strings.TrimSpace(first)) < cluster.MinSecretBytes {
		t.Fatalf("exit code %d: %q %s", code, first, stderr)
	}
	code, second, _ := execute(t, "secret", "generate", "--json")
	var answer struct{ Secret string }
	if err := json.Unmarshal([]byte(second), &answer); code != cli.ExitOK || err != nil || answer.Secret == strings.TrimSpace(first) {
		t.Errorf("exit code %d: %q, %v", code, second, err)
	}
}

func TestSecretGenerateKeepsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	expect(t, cli.ExitOK, []string{"secret", "generate", "--keep", file}, "wrote a new secret to "+file)
	before := must.Get(os.ReadFile(file))(t)
	expect(t, cli.ExitOK, []string{"secret", "generate", "--keep", file, "--json"}, `"made": false`)
	check.Equal(t, string(must.Get(os.ReadFile(file))(t)), string(before), "the file changed")
	must.Do(t, os.WriteFile(file, []byte("short\n"), 0o600))
	expect(t, cli.ExitFailed, []string{"secret", "generate", "--keep", file}, "line 1 has 5 bytes")
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
		{[]string{"inspect", backup}, cli.ExitOK, "not known"},
		{[]string{"inspect", backup, "--secret-file", secret}, cli.ExitFailed, "is whole, and cannot be restored"},
		{[]string{"inspect", backup, "--secret-file", secret, "--json"}, cli.ExitFailed, `"restorable": false`},
		{[]string{"restore", "--check", backup, "--secret-file", secret}, cli.ExitFailed, "--old-secret FILE"},
		{[]string{"restore", backup, "--secret-file", secret, "--data-dir", missing, "--accept-purged-since", longAgo}, cli.ExitFailed, filepath.Base(former)[len(filepath.Base(secret)):]},
		{[]string{"inspect", backup, "--secret-file", secret, "--old-secret", former, "--json"}, cli.ExitOK, `"restorable": true`},
		{[]string{"restore", "--check", backup, "--secret-file", secret, "--old-secret", former}, cli.ExitOK, "can be restored: 1 entry up"},
		{[]string{"restore", "--check", backup, "--secret-file", secret, "--new-data-key", "--json"}, cli.ExitOK, `"restorable": true`},
		{[]string{"restore", backup, "--secret-file", secret, "--old-secret", former, "--new-data-key"}, cli.ExitUsage, "give one of them"},
	} {
		code, out, stderr := execute(t, append([]string{"snapshot"}, tc.args...)...)
		check.Equal(t, code, tc.code, "snapshot %v: exit code", tc.args)
		check.Contains(t, out+stderr, tc.want, "snapshot %v: output", tc.args)
	}
	check.Err(t, check.Last(os.Stat(missing)), fs.ErrNotExist, "what was rejected left a data directory")
	code, out, stderr := execute(t, "snapshot", "restore", backup, "--secret-file", secret, "--old-secret", former, "--data-dir", missing, "--node-id", "r", "--accept-purged-since", longAgo)
	if code != cli.ExitOK || !strings.Contains(out, "restored and verified: 1 entry up") || strings.Contains(out, "data key is new") {
		t.Errorf("restore: exit code %d, %s%s", code, out, stderr)
	}
}

// TestSecretIsRotatedUnderLoad changes the secret of nodes that share a file,
// while clients write: no write fails, and the nodes start again with the new
// secret alone.
func TestSecretIsRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	longtest.SkipShort(t, "the nodes read their secret file every two seconds")
	file := filepath.Join(t.TempDir(), "secret")
	must.Get(cluster.KeepSecretFile(file))(t)
	before, err := os.ReadFile(file)
	must.Do(t, err)
	c := nodetest.New(t, 3, func(cfg *config.Config) { cfg.SecretFile = file })
	c.WaitVoters()
	first := c.MustPublish(0, nodetest.Post{Agent: "ada", Body: "under the first secret", RequestID: "secret-0001"})
	backup := filepath.Join(t.TempDir(), "backup")
	expect(t, cli.ExitOK, []string{"snapshot", "save", backup, "--secret-file", file, "--cluster-addr", c.Nodes[0].ClusterAddr()})
	load := c.StartLoad(3, 0, 1, 2)
	code, out, stderr := execute(t, "secret", "rotate", "--json", "--secret-file", file, "--cluster-addr", c.Nodes[1].ClusterAddr())
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var done struct {
		FormerSecretFile string
		BackupsBefore    int64
		Done             bool
		Waiting          []string
	}
	err = json.Unmarshal([]byte(lines[len(lines)-1]), &done)
	if code != cli.ExitOK || err != nil || !done.Done || len(done.Waiting) != 0 || done.BackupsBefore == 0 {
		t.Fatalf("exit code %d: %v, %s%s", code, err, out, stderr)
	}
	load.Stop()
	load.Check()
	after := must.Get(os.ReadFile(file))(t)
	check.Lacks(t, string(after), strings.TrimSpace(string(before)), "the former secret is still in the file")
	check.Equal(t, len(must.Get(os.ReadDir(filepath.Dir(file)))(t)), 2, "left beside the file")
	check.Equal(t, string(must.Get(os.ReadFile(done.FormerSecretFile))(t)), string(before), "the former secret is not kept")
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

// TestSecretRotateNamesADeadNode holds that a rotation that waits for a dead node names it
// with the way out, and ends in time. Later runs continue.
func TestSecretRotateNamesADeadNode(t *testing.T) {
	t.Parallel()
	longtest.SkipShort(t, "the nodes read their secret file every two seconds")
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	must.Get(cluster.KeepSecretFile(file))(t)
	start := must.Get(os.ReadFile(file))(t)
	c := nodetest.Empty(t)
	for range 3 { // each with a file of its own
		nd := c.Add(3)
		nd.Config.SecretFile = filepath.Join(dir, nd.Config.NodeID)
		must.Do(t, os.WriteFile(nd.Config.SecretFile, start, 0o600))
	}
	for i, nd := range c.Nodes {
		nd.Config.Join = c.GossipAddrs()
		c.Start(i)
	}
	c.WaitVoters()
	dead := c.Nodes[2].ServerID()
	c.Kill(2)
	rotate := func(more ...string) (code int, out, stderr string) {
		return execute(t, append([]string{"secret", "rotate", "--secret-file", file, "--cluster-addr", c.Nodes[0].ClusterAddr()}, more...)...)
	}
	push := []string{"--push-command", `cat "$FILE" > "` + dir + `/$NODE" && echo "to $NODE at $HOST" >&2`}
	code, _, stderr := rotate("--push-command", "exit 7")
	if want := "--push-command failed for n1: exit status 7; correct it and run this again"; code != cli.ExitFailed || !strings.Contains(stderr, want) {
		t.Errorf("with a command that fails: exit code %d, %s; want %q", code, stderr, want)
	}
	code, _, stderr = rotate(append(push, "--timeout", "5s")...)
	want := "not done within 5s: " + dead + " does not answer: start it, or remove it with `commons raft remove-peer " + dead + "`"
	check.Equal(t, code, cli.ExitFailed, "with a dead node: exit code")
	check.Contains(t, stderr, want, "with a dead node: output")
	check.Equal(t, strings.Count(stderr, "to n2 at 127.0.0.1\n"), 1, "copies in %s", stderr)
	c.Start(2)
	c.WaitReady()
	code, out, _ := rotate(push...)
	check.Equal(t, code, cli.ExitOK, "with all nodes: exit code")
	check.Contains(t, out, "done: every node has only the new secret", "with all nodes: output")
}
