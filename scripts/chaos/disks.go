package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	// diskSize is the size of each voter's own disk, if this machine lets us mount one.
	// diskReserve is how much of it a node keeps free.
	diskSize, diskReserve = "512m", "64MiB"
	// hangTimeout is the product's default: no other program uses these disks.
	hangTimeout = "5s"
	unmountFor  = 10 * time.Second
	ballastFile = "ballast"
	// slowSync is how long a slow disk takes for a write, and slowPause how long it is
	// fast between two such writes.
	slowSync, slowPause = 200 * time.Millisecond, 5 * time.Millisecond
)

// disk is a separate ext4 file system on a loop device. Its file is in memory, so that
// the load of the machine's real disk does not matter.
type disk struct {
	place, image string
	thaw         func() // ends a freeze; nil while the disk is not frozen
}

// giveDisks puts each voter's data on its own small disk. If that is not possible,
// noDisks says why, and there are no disk faults.
func (b *testbed) giveDisks(ctx context.Context) {
	images := b.run.Path("images")
	if err := errors.Join(os.MkdirAll(images, 0o700), system(ctx, "mount", "-t", "tmpfs", "tmpfs", images)); err != nil {
		b.noDisks = err.Error()
		return
	}
	b.images = images
	for _, n := range b.voters {
		d := &disk{place: n.Dir + "-disk", image: filepath.Join(images, n.Name)}
		err := errors.Join(os.MkdirAll(d.place, 0o700),
			system(ctx, "truncate", "--size", diskSize, d.image),
			system(ctx, "mkfs.ext4", "-q", "-F", d.image))
		if err == nil {
			err = d.mount(ctx)
		}
		if err != nil {
			b.noDisks = err.Error()
			return
		}
		b.disks[n.Name] = d
		n.Dir = filepath.Join(d.place, "data")
		n.Flags["data-dir"], n.Flags["disk-reserve"], n.Flags["hang-timeout"] = n.Dir, diskReserve, hangTimeout
	}
}

func (d *disk) mount(ctx context.Context) error {
	return system(ctx, "mount", "-o", "loop", d.image, d.place)
}

// takeDisks unmounts the disks, also after the run was interrupted. It is called when no
// node runs.
func (b *testbed) takeDisks() {
	var places []string
	for _, d := range b.disks {
		places = append(places, d.place)
	}
	if b.images != "" {
		places = append(places, b.images)
	}
	for _, place := range places {
		err := await.Until(context.Background(), unmountFor, harness.PollEvery, func() error { // a loop device is released a little later than its file system
			return system(context.Background(), "umount", place)
		})
		if err != nil {
			fmt.Fprintf(os.Stderr, "chaos: %s stays mounted: %v\n", place, err)
		}
	}
}

// thawDisks ends every freeze: a process that waits for its disk cannot end.
func (b *testbed) thawDisks() {
	for _, d := range b.disks {
		if d.thaw != nil {
			d.thaw()
			d.thaw = nil
		}
	}
}

// fill leaves a node's disk without a free byte.
func (b *testbed) fill(n *harness.Node) {
	f := harness.Got(os.Create(filepath.Join(filepath.Dir(n.Dir), ballastFile)))
	defer f.Close()
	var err error
	for block := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		harness.Must(err)
	}
}

// empty frees the space again.
func (b *testbed) empty(n *harness.Node) {
	harness.Must(os.Remove(filepath.Join(filepath.Dir(n.Dir), ballastFile)))
}

// Of the kernel: ioctls of file systems (fs.h, ext4.h).
const (
	fiFreeze, fiThaw = 0xC0045877, 0xC0045878
	extShutdown      = 0x8004587D
	withoutJournal   = 2 // of extShutdown: what has not been synced is lost
)

// ioctl makes a call on the disk's root.
func (d *disk) ioctl(request uintptr, value uint32) error {
	f, err := os.Open(d.place)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(&value))); errno != 0 { //nolint:gosec // as the kernel wants it
		return fmt.Errorf("%s: %w", d.place, errno)
	}
	return nil
}

// hang makes every write of a node wait, until work is called.
func (b *testbed) hang(n *harness.Node) {
	d := b.disks[n.Name]
	harness.Must(d.ioctl(fiFreeze, 0))
	d.thaw = func() { complain(d.ioctl(fiThaw, 0)) }
}

// slow makes every write of a node wait for slowSync, until work is called.
func (b *testbed) slow(n *harness.Node) {
	d := b.disks[n.Name]
	ctx, stop := context.WithCancel(b.run.Ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := d.ioctl(fiFreeze, 0); err != nil {
				complain(err)
				return
			}
			harness.Pause(ctx, slowSync)
			complain(d.ioctl(fiThaw, 0))
			harness.Pause(ctx, slowPause)
		}
	}()
	d.thaw = func() { stop(); <-ended }
}

// work ends hang and slow. A node that has ended meanwhile is started again.
func (b *testbed) work(n *harness.Node) {
	d := b.disks[n.Name]
	d.thaw()
	d.thaw = nil
	harness.Pause(b.run.Ctx, time.Second) // the node may be about to end, because its disk did not respond
	if !n.Running() {
		b.start(n)
	}
}

// fail makes every call to a node's disk fail from now on. Unsynced data is lost.
func (b *testbed) fail(n *harness.Node) {
	harness.Must(b.disks[n.Name].ioctl(extShutdown, withoutJournal))
}

// remount kills a node after its disk failed, and starts it on the data that was kept.
func (b *testbed) remount(n *harness.Node) {
	n.Kill()
	d := b.disks[n.Name]
	harness.Must(system(b.run.Ctx, "umount", d.place))
	harness.Must(d.mount(b.run.Ctx))
	b.start(n)
}

// losePower stops a node together with its disk: unsynced data is lost.
func (b *testbed) losePower(n *harness.Node) {
	if b.disks[n.Name] != nil {
		b.fail(n)
	}
	n.Kill()
}

// restorePower starts a node on the data that its disk kept.
func (b *testbed) restorePower(n *harness.Node) {
	if b.disks[n.Name] == nil {
		b.start(n)
	} else {
		b.remount(n)
	}
}
