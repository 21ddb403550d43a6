package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/cluster"
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
