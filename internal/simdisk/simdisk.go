// Package simdisk is a file system in memory that can lose power, for tests.
package simdisk

import (
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// size is the size of a disk, and its free space.
const size = 1 << 40

// Disk is a file system of Pebble in memory.
type Disk struct {
	*vfs.MemFS

	// cloning is held by calls in which MemFS takes its read lock twice. A clone that waits for
	// that lock between the two would deadlock with them.
	cloning sync.RWMutex
}

// New returns a disk with an empty directory, which no crash removes.
func New(dir string) (*Disk, error) {
	d := &Disk{MemFS: vfs.NewCrashableMem()}
	d.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: size, TotalBytes: size})
	return d, errors.Join(d.MkdirAll(dir, 0), d.syncAbove(dir))
}

// syncAbove makes the directories above a path durable.
func (d *Disk) syncAbove(path string) (err error) {
	for err == nil && path != "/" {
		path = filepath.Dir(path)
		err = d.syncDir(path)
	}
	return err
}

func (d *Disk) syncDir(path string) error {
	dir, err := d.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Move gives a directory another path, which no crash takes back.
func (d *Disk) Move(from, to string) error {
	return errors.Join(d.MkdirAll(filepath.Dir(to), 0), d.Rename(from, to), d.syncAbove(to))
}

// Crash returns the disk after a loss of power at this moment. It keeps all synced blocks and
// names, and each unsynced one with a probability in percent.
func (d *Disk) Crash(percent int, rng *rand.Rand) *Disk {
	d.cloning.Lock()
	defer d.cloning.Unlock()
	left := &Disk{MemFS: d.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})}
	left.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: size, TotalBytes: size})
	return left
}

// Before returns the disk with a function that is called before each change and sync of the
// file or directory at a path. A change that grows takes space. The function's error is that
// of the change.
func (d *Disk) Before(change func(path string, grows bool) error) vfs.FS {
	return errorfs.Wrap(d, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFileClose {
			return nil
		}
		return change(op.Path, op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite)
	}))
}

// Create creates a file. Before a marker it syncs the directory: Pebble makes a manifest and then
// a marker that names it, syncs their directory once, and relies on a file system that keeps the
// order of these names.
func (d *Disk) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(filepath.Base(path), "marker.") {
		if err := d.syncDir(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	return d.MemFS.Create(path, category)
}

// Link excludes clones.
func (d *Disk) Link(from, to string) error {
	d.cloning.RLock()
	defer d.cloning.RUnlock()
	return d.MemFS.Link(from, to)
}

// Lock excludes clones.
func (d *Disk) Lock(path string) (io.Closer, error) {
	d.cloning.RLock()
	defer d.cloning.RUnlock()
	return d.MemFS.Lock(path)
}
