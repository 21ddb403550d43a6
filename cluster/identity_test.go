package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestCheckNodeName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"n1": true, "a": true, "A.b_c-9": true, strings.Repeat("x", 63): true,
		"": false, strings.Repeat("x", 64): false, "a b": false, "a/b": false, "ä": false, "a\n": false, "a:1": false,
	} {
		check.Equal(t, CheckNodeName(name) == nil, ok, "%q: accepted", name)
	}
}

func TestIdentityIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := must.Get(LoadIdentity(dir, "n1"))(t)
	if !strings.HasPrefix(first.ServerID, "n1-") || len(first.ServerID) != len("n1-")+suffixChars || !validServerID(first.ServerID) {
		t.Fatalf("server id %q", first.ServerID)
	}
	for _, name := range []string{"n1", ""} {
		check.Equal(t, must.Get(LoadIdentity(dir, name))(t), first, "name %q", name)
	}
	first.LogID = "its log"
	must.Do(t, first.Keep(dir))
	check.Equal(t, must.Get(LoadIdentity(dir, ""))(t), first, "with a log")
	_, err := LoadIdentity(dir, "n2")
	if err == nil || !strings.Contains(err.Error(), `"n2"`) || !strings.Contains(err.Error(), `"n1"`) || !strings.Contains(err.Error(), "use that name") {
		t.Errorf("contradiction: %v", err)
	}
	other, err := LoadIdentity(t.TempDir(), "n1")
	if err != nil || other.ServerID == first.ServerID {
		t.Errorf("another directory: %v, %v", other, err)
	}
}

func TestIdentityDamaged(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		"", "{", `{"version":2,"nodeName":"n1","serverId":"n1-x"}`,
		`{"version":1,"nodeName":"","serverId":"n1-x"}`, `{"version":1,"nodeName":"n1","serverId":"a b"}`,
	} {
		dir := t.TempDir()
		mustWrite(t, filepath.Join(dir, IdentityFile), content)
		if id, err := LoadIdentity(dir, ""); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%q: %v, %v", content, id, err)
		}
	}
}

func TestIdentityFromHostName(t *testing.T) {
	t.Parallel()
	id, err := LoadIdentity(t.TempDir(), "")
	if err != nil || CheckNodeName(id.NodeName) != nil {
		t.Fatalf("%v, %v", id, err)
	}
	for host, want := range map[string]string{"a.b": "a.b", "ä b": "--b", "": "node", strings.Repeat("h", 80): strings.Repeat("h", 63)} {
		check.Equal(t, hostNodeName(host), want, "%q", host)
	}
}

const lockHelperDir = "COMMONS_TEST_LOCK_DIR"

func TestLockDir(t *testing.T) {
	if dir := os.Getenv(lockHelperDir); dir != "" {
		_, err := LockDir(dir)
		if err == nil {
			os.Exit(0)
		}
		_, _ = os.Stderr.WriteString(err.Error())
		os.Exit(3)
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	lock := must.Get(LockDir(dir))(t)
	second := func() string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLockDir$")
		cmd.Env = append(os.Environ(), lockHelperDir+"="+dir)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return ""
		}
		return string(out)
	}
	if out := second(); !strings.Contains(out, "in use by another process (process ") || !strings.Contains(out, dir) {
		t.Errorf("second process: %q", out)
	}
	must.Do(t, lock.Release())
	check.Err(t, lock.Release(), nil, "second release")
	check.Equal(t, second(), "", "after release")
}

func TestWriteFileAtomicLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, content := range []string{"one", "two"} {
		must.Do(t, WriteFileAtomic(path, []byte(content)))
		must.Equal(t, string(must.Get(os.ReadFile(path))(t)), content, "content")
	}
	target := filepath.Join(dir, "dir")
	must.Do(t, os.MkdirAll(filepath.Join(target, "x"), 0o700))
	check.Fails(WriteFileAtomic(target, []byte("x")))(t, "replaced a directory")
	device := filepath.Join(dir, "device")
	must.Do(t, os.Symlink(os.DevNull, device))
	check.Fails(WriteFileAtomic(device, []byte("x")))(t, "replaced a device")
	check.Equal(t, len(must.Get(filepath.Glob(filepath.Join(dir, "*.tmp*")))(t)), 0, "left behind")
}
