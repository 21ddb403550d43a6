package simulation

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/internal/simdisk"
	"github.com/commons-cluster/commons/internal/simnet"
	"github.com/commons-cluster/commons/node/logstore"
)

const (
	// A transaction of the log takes between shortWrite and longWrite on a healthy disk.
	shortWrite = 300 * time.Microsecond
	longWrite  = 1300 * time.Microsecond
	pageBytes  = 4096 // of a file
	// fullPercent is certainty, in percent.
	fullPercent = 100
	// The size of a disk, and the space that is free on a sound one and on one that is full or
	// nearly full, in bytes.
	diskSize, plentySpace, littleSpace = 10 << 30, 5 << 30, 1 << 20
)

var (
	errPowerOff = errors.New("the power is off")
	errBadDisk  = errors.New("the disk fails")
)

// faults are the faults of a disk and of the process on it, those that are to come included.
// The zero value is a sound disk.
type faults struct {
	stalls  float64 // share of the transactions that take up to longest
	longest time.Duration
	fails   float64 // share of the transactions that fail
	tear    bool    // the power goes off during the next transaction
	// cut is the number of changes of the state until the power goes off; 0 means never. With
	// onlyNames, those of Pebble's files do not count.
	cut       int
	onlyNames bool

	low  bool // little space is free
	full bool // no space is free
	// pause is how long the process stands still from its next transaction on. Until then
	// little space is free, so that Raft's main goroutine of a leader makes the transaction.
	pause time.Duration
}

// disk is the disk of a node from one start to the next, and the process on it. Its
// transactions take time.
type disk struct {
	mu    sync.Mutex // held for each transaction; never held over a wait
	rng   *rand.Rand
	off   atomic.Bool
	armed faults
	heals int // how often all faults were ended

	// log is what a torn transaction left of the log's files.
	log image
	// state is the disk of a whole node's state, and left its copy after a loss of power, or nil.
	state, left *simdisk.Disk

	net    func() *simnet.Net
	host   string        // of the process in the network
	paused chan struct{} // closed when the process goes on; nil while it runs
}

// newDisk returns a disk with the usual stalls of a run.
func newDisk(rng *rand.Rand, m *mix, net func() *simnet.Net, host string) *disk {
	return &disk{rng: rng, armed: faults{stalls: m.stalls, longest: m.longest}, net: net, host: host}
}

// arm changes the faults.
func (d *disk) arm(change func(*faults)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.armed)
}

// armAfter changes the faults after a time, unless all faults end before.
func (d *disk) armAfter(wait time.Duration, change func(*faults)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	heals := d.heals
	time.AfterFunc(wait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.heals == heals {
			change(&d.armed)
		}
	})
}

// fill lets the disk fill: first little space is free, then no space at all, and then it has space again.
func (d *disk) fill(rng *rand.Rand) {
	fills, lasts := time.Duration(rng.Int64N(int64(fillFor))), time.Duration(rng.Int64N(int64(fillFor)))
	d.arm(func(f *faults) { f.low = true })
	d.armAfter(fills, func(f *faults) { f.full = true })
	d.armAfter(fills+lasts, func(f *faults) { f.low, f.full = false, false })
}

// pauseNext lets the process stand still for a time, from its next transaction on.
func (d *disk) pauseNext(rng *rand.Rand) (length time.Duration) {
	length = pick(rng, beat/2, beat, 2*beat, 5*beat)
	d.arm(func(f *faults) { f.pause = length })
	return length
}

// heal ends all faults, those that are to come included.
func (d *disk) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = faults{}
	d.heals++
	d.resume()
}

// goOn lets a paused process go on.
func (d *disk) goOn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resume()
}

// resume is goOn. The lock is held.
func (d *disk) resume() {
	if d.paused != nil {
		close(d.paused)
		d.paused = nil
		d.net().Continue(d.host)
	}
}

// pause begins the pause that is armed. The lock is held.
func (d *disk) pause() {
	if d.armed.pause == 0 || d.off.Load() {
		return
	}
	if d.paused == nil {
		d.paused = make(chan struct{})
		d.net().Stop(d.host)
	}
	time.AfterFunc(d.armed.pause, d.goOn)
	d.armed.pause = 0
}

// whilePaused waits until the process runs.
func (d *disk) whilePaused() {
	d.mu.Lock()
	paused := d.paused
	d.mu.Unlock()
	if paused != nil {
		<-paused
	}
}

// free returns the free bytes of the disk.
func (d *disk) free() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed.low || d.armed.full || d.armed.pause > 0 {
		return littleSpace
	}
	return plentySpace
}

// beforeChange is called before each change of the state, which takes no time: the state
// holds mutexes meanwhile. A full disk has no space for tables; a manifest without space
// would end the process.
func (d *disk) beforeChange(path string, grows bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed.full && grows && strings.HasSuffix(path, ".sst") {
		return syscall.ENOSPC
	}
	if d.armed.onlyNames && snapshot.IsState(filepath.Base(filepath.Dir(path))) {
		return nil
	}
	if d.armed.cut--; d.armed.cut == 0 {
		d.turnOff()
	}
	return nil
}

// turnOff ends all writing at once. The lock is held.
func (d *disk) turnOff() {
	wasOff := d.off.Swap(true)
	d.resume()
	if wasOff || d.state == nil {
		return
	}
	// Half of the crashes lose everything that was not synced.
	percent := max(0, d.rng.IntN(2*fullPercent)-fullPercent)
	d.left = d.state.Crash(percent, d.rng)
}

// around runs a transaction of the log in the file at path. written is called after it.
func (d *disk) around(what, path string, do func() error, written func()) error {
	d.mu.Lock()
	d.pause()
	wait := shortWrite + time.Duration(d.rng.Int64N(int64(longWrite-shortWrite)))
	if d.rng.Float64() < d.armed.stalls {
		wait += time.Duration(d.rng.Int64N(int64(d.armed.longest)))
	}
	d.mu.Unlock()
	time.Sleep(wait)
	d.whilePaused()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.off.Load():
		return errPowerOff
	case d.rng.Float64() < d.armed.fails:
		return errBadDisk
	case d.armed.full && what != logstore.Deleting:
		return syscall.ENOSPC
	case d.armed.tear:
		d.turnOff()
		return d.torn(what, path, do)
	}
	if err := do(); err != nil {
		return err
	}
	written()
	return nil
}

// torn runs a transaction and leaves the log's files as the loss of power during it does, or
// after it. A log that is rewritten is the old file or the new one.
func (d *disk) torn(what, path string, do func() error) error {
	if what == logstore.Rewriting {
		if d.rng.IntN(2) == 0 {
			return errPowerOff
		}
		return errors.Join(do(), errPowerOff)
	}
	before, err := imageOf(path)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if d.rng.IntN(2) == 0 {
		return errPowerOff
	}
	after, err := imageOf(path)
	if err != nil {
		return err
	}
	d.log = simdisk.TornLog(before, after, d.rng)
	return errPowerOff
}

// image is the content of a log's files.
type image [][]byte

// imageOf reads the files of the log at a path.
func imageOf(path string) (image, error) {
	var files image
	for _, name := range logstore.Files(path) {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		files = append(files, data)
	}
	return files, nil
}

// write writes the files of a log at a path.
func (files image) write(path string) error {
	var errs []error
	for i, name := range logstore.Files(path) {
		errs = append(errs, writeSparse(name, files[i]))
	}
	return errors.Join(errs...)
}

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

// powerOff ends all writing at once, and returns what is left of the log's files.
func (d *disk) powerOff(path string) (image, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turnOff()
	if d.log != nil {
		return d.log, nil
	}
	return imageOf(path)
}
