package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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
}

// giveDisks puts each voter's data on its own small disk. If that is not possible,
// noDisks says why, and there are no disk faults.
func (b *testbed) giveDisks(ctx context.Context) {
	err := harness.Try(func() {
		images := b.run.Path("images")
		harness.Must(errors.Join(os.MkdirAll(images, 0o700), system(ctx, "mount", "-t", "tmpfs", "tmpfs", images)))
		b.mounts = append(b.mounts, images)
		for _, n := range b.voters {
			d := &disk{place: n.Dir + "-disk", image: filepath.Join(images, n.Name)}
			harness.Must(errors.Join(os.MkdirAll(d.place, 0o700),
				system(ctx, "truncate", "--size", diskSize, d.image),
				system(ctx, "mkfs.ext4", "-q", "-F", d.image)))
			harness.Must(d.mount(ctx))
			b.disks[n.Name], b.mounts = d, append(b.mounts, d.place)
			n.Dir = filepath.Join(d.place, "data")
			n.Flags["data-dir"], n.Flags["disk-reserve"], n.Flags["hang-timeout"] = n.Dir, diskReserve, hangTimeout
		}
	})
	if err != nil {
		b.noDisks = err.Error()
	}
}

func (d *disk) mount(ctx context.Context) error {
	return system(ctx, "mount", "-o", "loop", d.image, d.place)
}

// takeDisks unmounts the disks, also after the run was interrupted. It is called when no
// node runs.
func (b *testbed) takeDisks() {
	for _, place := range slices.Backward(b.mounts) {
		err := await.Until(context.Background(), unmountFor, harness.PollEvery, func() error { // a loop device is released a little later than its file system
			return system(context.Background(), "umount", place)
		})
		if err != nil {
			fmt.Fprintf(os.Stderr, "chaos: %s stays mounted: %v\n", place, err)
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

func (d *disk) freeze() error { return d.ioctl(fiFreeze, 0) }
func (d *disk) thaw() error   { return d.ioctl(fiThaw, 0) }

// ioctl makes a call on the disk's root.
func (d *disk) ioctl(request uint, value int) error {
	f, err := os.Open(d.place)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), request, value); err != nil {
		return fmt.Errorf("%s: %w", d.place, err)
	}
	return nil
}

// hang makes every write of a node wait.
func (b *testbed) hang(n *harness.Node) {
	d := b.disks[n.Name]
	harness.Must(d.freeze())
	b.undo[n.Name] = d.thaw
}

// slow makes every write of a node wait for slowSync.
func (b *testbed) slow(n *harness.Node) {
	d := b.disks[n.Name]
	b.alternate(n, d.freeze, d.thaw, slowSync, slowPause)
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

// system runs a command of this machine.
func system(ctx context.Context, command ...string) error {
	if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func complain(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
}
