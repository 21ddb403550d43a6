package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSecretFileIsRotated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	mustWrite(t, path, "\n  "+strings.Repeat("s", MinSecretBytes)+"\n")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	f, err := OpenSecretFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old := f.IDs()[0]
	if err := f.Swap(); err == nil {
		t.Error("one secret was swapped")
	}
	added := ""
	note := func(id string) error { added = id; return nil }
	if err := f.Add(func(string) error { return os.ErrPermission }); err == nil {
		t.Error("a secret was added that could not be noted")
	}
	if err := f.Add(note); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(note); err == nil {
		t.Error("a third secret was added")
	}
	// What nodes read agrees with what the file says of itself, at each step.
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
	if err := f.Swap(); err != nil {
		t.Fatal(err)
	}
	check("swapped", added, old)
	if err := f.Drop(); err != nil {
		t.Fatal(err)
	}
	check("dropped", added)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
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
