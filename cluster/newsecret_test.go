package cluster

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestKeepSecretFileMakesOneSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	const callers = 8
	made := make([]bool, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			var err error
			if made[i], err = KeepSecretFile(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	makers := 0
	for _, m := range made {
		if m {
			makers++
		}
	}
	if makers != 1 {
		t.Errorf("%d callers made the file", makers)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	s, err := LoadSecrets(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.KeyIDs()); n != 1 {
		t.Errorf("%d secrets in the file", n)
	}
}

func TestKeepSecretFileProblems(t *testing.T) {
	t.Parallel()
	if _, err := KeepSecretFile(filepath.Join(t.TempDir(), "missing", "secret")); err == nil {
		t.Error("a file was made in a directory that is not there")
	}
	path := filepath.Join(t.TempDir(), "secret")
	mustWrite(t, path, "short\n")
	if made, err := KeepSecretFile(path); err == nil || made {
		t.Errorf("a file that holds no secret is kept: %v, %v", made, err)
	}
}
