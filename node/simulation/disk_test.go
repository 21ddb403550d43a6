package simulation

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/internal/simdisk"
)

const (
	// A transaction of the log takes between shortWrite and longWrite on a healthy disk.
	shortWrite = 300 * time.Microsecond
	longWrite  = 1300 * time.Microsecond
	// metaBytes is the size of bbolt's two meta pages, the first ones of its file.
	metaBytes = 2 * pageBytes
	pageBytes = 4096
	// fullPercent is certainty, in percent.
	fullPercent = 100
)

var (
	errPowerOff = errors.New("the power is off")
	errBadDisk  = errors.New("the disk fails")
)

// disk is the disk of a node from one start to the next. Its transactions take time, and
// can be made to stall or fail.
type disk struct {
	mu   sync.Mutex // held for each transaction; never held over a wait
	rng  *rand.Rand
	off  atomic.Bool
	tear bool // the power goes off during the next transaction

	// state is the disk of a whole node's state, and left its copy after a loss of power, or nil.
	state, left *simdisk.Disk
	// cut is the number of changes of the state until the power goes off; 0 means never. With
	// onlyNames, those of Pebble's files do not count.
	cut       int
	onlyNames bool

	stalls  float64 // share of the transactions that take up to longest
	longest time.Duration
	fails   float64 // share of the transactions that fail
}

// fail sets the share of the transactions that fail.
func (d *disk) fail(share float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = share
}

// stall sets the share of the transactions that take up to longest.
func (d *disk) stall(share float64, longest time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stalls, d.longest = share, longest
}

// tearNext turns the power off during the next transaction.
func (d *disk) tearNext() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tear = true
}

// cutAfter turns the power off before a later change of the state, or of the files and names
// around Pebble's directories.
func (d *disk) cutAfter(changes int, onlyNames bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut, d.onlyNames = changes, onlyNames
}

// beforeChange is called before each change of the state, which takes no time: the state
// holds mutexes meanwhile.
func (d *disk) beforeChange(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.onlyNames && snapshot.IsState(filepath.Base(filepath.Dir(path))) {
		return
	}
	if d.cut--; d.cut == 0 {
		d.turnOff()
	}
}

// turnOff ends all writing at once. The lock is held.
func (d *disk) turnOff() {
	if d.off.Swap(true) || d.state == nil {
		return
	}
	// Half of the crashes lose everything that was not synced.
	percent := max(0, d.rng.IntN(2*fullPercent)-fullPercent)
	d.left = d.state.Crash(percent, d.rng)
}

// around runs a transaction of the log in the file at path. written is called after it.
func (d *disk) around(path string, do func() error, written func()) error {
	d.mu.Lock()
	wait := shortWrite + time.Duration(d.rng.Int64N(int64(longWrite-shortWrite)))
	if d.rng.Float64() < d.stalls {
		wait += time.Duration(d.rng.Int64N(int64(d.longest)))
	}
	d.mu.Unlock()
	time.Sleep(wait)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.off.Load():
		return errPowerOff
	case d.rng.Float64() < d.fails:
		return errBadDisk
	case d.tear:
		d.turnOff()
		return d.torn(path, do)
	}
	if err := do(); err != nil {
		return err
	}
	written()
	return nil
}

// torn runs a transaction and leaves the file as the loss of power during it does. bbolt
// syncs the other pages before it writes a meta page: either the meta pages are old, and
// any of the other pages are new, or the transaction is complete.
func (d *disk) torn(path string, do func() error) error {
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// A process that ends in good order after a torn write leaves the file of that write.
	if err := os.Remove(path + tornSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if d.rng.IntN(2) == 0 {
		return errPowerOff
	}
	after, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	left := bytes.Clone(after)
	copy(left[:metaBytes], before)
	for at := metaBytes; at < len(before); at += pageBytes {
		if d.rng.IntN(2) == 0 {
			copy(left[at:at+pageBytes], before[at:])
		}
	}
	return errors.Join(writeSparse(path+tornSuffix, left), errPowerOff)
}

// tornSuffix names the file that a torn transaction leaves.
const tornSuffix = ".torn"

// writeSparse writes a file without its empty pages. bbolt's files are mostly empty.
func writeSparse(path string, data []byte) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	empty := make([]byte, pageBytes)
	for at := 0; at < len(data) && err == nil; at += pageBytes {
		if page := data[at:min(at+pageBytes, len(data))]; !bytes.Equal(page, empty[:len(page)]) {
			_, err = file.WriteAt(page, int64(at))
		}
	}
	return errors.Join(err, file.Truncate(int64(len(data))), file.Close())
}

// powerOff ends all writing at once, and returns the file's bytes that are left.
func (d *disk) powerOff(path string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turnOff()
	data, err := os.ReadFile(path + tornSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return os.ReadFile(path)
	}
	return data, err
}
