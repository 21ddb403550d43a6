package kubernetes

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const manual = root + "/docs/operating/kubernetes.md"

var binary = flag.String("binary", "", "the program that the pods run; built if it is not given")

// TestManual follows the manual's page from its begin to its end: installs the example, makes
// it larger and smaller, replaces a disk, changes the secret, and restores a backup.
func TestManual(t *testing.T) {
	if *binary == "" {
		*binary = filepath.Join(t.TempDir(), "commons")
		build := exec.CommandContext(t.Context(), "go", "build", "-o", *binary, ".")
		build.Dir = root
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	c := newCluster(t, *binary)
	t.Cleanup(func() {
		if err := c.scale(0); err != nil {
			t.Error(err)
		}
	})
	checkout := filepath.Join(c.dir, "checkout")
	work := filepath.Join(checkout, "scripts", "deploy", "kubernetes")
	must(0, os.CopyFS(work, os.DirFS(manifestsDir)))
	must(0, os.Mkdir(filepath.Join(c.dir, "store"), 0o700))
	must(0, os.WriteFile(filepath.Join(work, "credentials"), []byte("aws_access_key_id = a\naws_secret_access_key = b\n"), 0o600))
	_, sections, _ := strings.Cut(string(must(os.ReadFile(manual))), "\n## ")
	followed := 0
	for section := range strings.SplitSeq(sections, "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		script := ""
		for line := range strings.Lines(body) {
			if code, is := strings.CutPrefix(line, "    "); is {
				script += code
			}
		}
		if script == "" {
			continue
		}
		t.Log(title)
		followed++
		script = strings.ReplaceAll(script, "127.0.0.1:", c.address(0)+":")
		dir := work
		if strings.HasPrefix(script, "cd ") {
			dir = checkout
		}
		if err := c.shell(dir, script); err != nil {
			t.Fatalf("%s: %v", title, err)
		}
		if title == "Replace a disk" {
			c.checkVoters(t, 3)
		}
	}
	if followed == 0 {
		t.Error("the manual has no commands")
	}
}

// checkVoters checks how many voters the cluster has.
func (c *cluster) checkVoters(t *testing.T, want int) {
	t.Helper()
	out, code := c.exec(c.pods[0], []string{"/commons", "raft", "list-peers", "--json"})
	if code != 0 || strings.Count(out, `"voter"`) != want {
		t.Errorf("list-peers: %d, want %d voters: %s", code, want, out)
	}
}
