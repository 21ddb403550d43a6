package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestSecretFileIsRotated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	mustWrite(t, path, "\n  "+strings.Repeat("s", MinSecretBytes)+"\n")
	must.Do(t, os.Chmod(path, 0o640))
	f := must.Get(OpenSecretFile(path))(t)
	old := f.IDs()[0]
	check.Fails(f.Swap())(t, "swap one secret")
	added := ""
	note := func(id string) error { added = id; return nil }
	check.Fails(f.Add(func(string) error { return os.ErrPermission }))(t, "add a secret that cannot be noted")
	must.Do(t, f.Add(note))
	check.Fails(f.Add(note))(t, "add a third secret")
	// Nodes and the file agree on the secrets after each step.
	check := func(step string, want ...string) {
		t.Helper()
		s, err := LoadSecrets(path)
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		again, err := OpenSecretFile(path)
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if !slices.Equal(s.KeyIDs(), want) || !slices.Equal(f.IDs(), want) || !slices.Equal(again.IDs(), want) {
			t.Errorf("%s: nodes read %v, the file says %v and %v, want %v", step, s.KeyIDs(), f.IDs(), again.IDs(), want)
		}
	}
	check("added", old, added)
	must.Do(t, f.Swap())
	check("swapped", added, old)
	must.Do(t, f.Drop())
	check("dropped", added)
	info := must.Get(os.Stat(path))(t)
	if info.Mode().Perm() != 0o640 {
		t.Errorf("the mode became %v", info.Mode())
	}
	former, err := LoadSecrets(FormerSecretFile(path, old))
	if err != nil || !slices.Equal(former.KeyIDs(), []string{old}) {
		t.Errorf("the former secret is kept as %v, %v", former, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

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
			made[i], err = KeepSecretFile(path)
			check.Err(t, err, nil, "keep the secret file")
		})
	}
	wg.Wait()
	makers := 0
	for _, m := range made {
		if m {
			makers++
		}
	}
	check.Equal(t, makers, 1, "callers that made the file")
	info := must.Get(os.Stat(path))(t)
	check.Equal(t, info.Mode().Perm(), 0o600, "mode of %v", info.Mode())
	check.Equal(t, len(must.Get(os.ReadDir(dir))(t)), 1, "left behind")
	s := must.Get(LoadSecrets(path))(t)
	check.Equal(t, len(s.KeyIDs()), 1, "secrets in the file")
}

func TestKeepSecretFileProblems(t *testing.T) {
	t.Parallel()
	check.Fails(KeepSecretFile(filepath.Join(t.TempDir(), "missing", "secret")))(t, "a file was made in a directory that is not there")
	path := filepath.Join(t.TempDir(), "secret")
	mustWrite(t, path, "short\n")
	if made, err := KeepSecretFile(path); err == nil || made {
		t.Errorf("a file that holds no secret is kept: %v, %v", made, err)
	}
}
