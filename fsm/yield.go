package fsm

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// readFS is a file system with files that background work reads.
type readFS struct {
	vfs.FS
	step func()
}

// Open implements vfs.FS.
func (r readFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := r.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return readFile{f, r.step}, nil
}

type readFile struct {
	vfs.File
	step func()
}

func (f readFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.step()
	return n, err
}

// compactionWrites is Pebble's category of the tables that compactions write.
const compactionWrites = "pebble-compaction"

// compactionFS is the file system of a store, with compactions that can be paced.
type compactionFS struct {
	vfs.FS
	pace  func() (step func())
	paced atomic.Bool

	tables atomic.Int32 // that compactions are writing
}

// Create implements vfs.FS.
func (c *compactionFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := c.FS.Create(name, category)
	if err != nil || category != compactionWrites {
		return f, err
	}
	c.tables.Add(1)
	return &compactionTable{f, c, c.pace()}, nil
}

type compactionTable struct {
	vfs.File
	of   *compactionFS
	step func()
}

// Write implements vfs.File. Pebble begins a second compaction only if many flushed tables
// wait for one. Both run without rests then, because writes would wait for them soon.
func (t *compactionTable) Write(p []byte) (int, error) {
	n, err := t.File.Write(p)
	if t.of.paced.Load() && t.of.tables.Load() == 1 {
		t.step()
	}
	return n, err
}

func (t *compactionTable) Close() error {
	t.of.tables.Add(-1)
	return t.File.Close()
}
