// Package memdir makes temporary directories in memory, for tests that sync files often.
package memdir

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/commons-cluster/commons/internal/must"
)

const (
	shared = "/dev/shm" // Linux's file system in memory
	// minFree is the free space that shared must have. Containers often give it 64 MiB.
	minFree = 1 << 30
)

// TB is the part of a testing.TB that TempDir needs.
type TB interface {
	Helper()
	TempDir() string
	Cleanup(do func())
	Fatal(args ...any)
}

// TempDir returns a directory that is removed after the test. It is in memory if the
// system has a file system there with enough space.
func TempDir(tb TB) string {
	tb.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(shared, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < minFree {
		return tb.TempDir()
	}
	dir := must.Get(os.MkdirTemp(shared, "commons-test-"))(tb)
	tb.Cleanup(func() {
		must.Do(tb, os.RemoveAll(dir))
	})
	return dir
}
