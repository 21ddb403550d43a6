package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	// diskSize is that of the disk that each voter gets for itself, where this machine
	// lets us mount one, and diskReserve what a node keeps free of it.
	diskSize, diskReserve = "512m", "64MiB"
	ballastFile           = "ballast"
)

// giveDisks puts each voter's data on a small disk of its own. Where that is not
// possible, noDisks says why, and no disk is filled.
func (b *bench) giveDisks(ctx context.Context) {
	for _, n := range b.voters {
		disk := n.Dir + "-disk"
		if err := os.MkdirAll(disk, 0o700); err != nil {
			b.noDisks = err.Error()
			return
		}
		if out, err := exec.CommandContext(ctx, "mount", "-t", "tmpfs", "-o", "size="+diskSize, "tmpfs", disk).CombinedOutput(); err != nil {
			b.noDisks = fmt.Sprintf("mount: %v: %s", err, strings.TrimSpace(string(out)))
			return
		}
		b.disks = append(b.disks, disk)
		n.Dir = filepath.Join(disk, "data")
		n.Flags["data-dir"], n.Flags["disk-reserve"] = n.Dir, diskReserve
	}
}

// takeDisks unmounts what was mounted, also after the run was interrupted.
func (b *bench) takeDisks() {
	for _, disk := range b.disks {
		if out, err := exec.CommandContext(context.Background(), "umount", disk).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "chaos: %s stays mounted: %v: %s\n", disk, err, out)
		}
	}
}

// fill leaves a node's disk without a free byte.
func (b *bench) fill(n *harness.Node) error {
	f, err := os.Create(filepath.Join(filepath.Dir(n.Dir), ballastFile))
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(block)
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// empty gives the room back.
func (b *bench) empty(n *harness.Node) error {
	return os.Remove(filepath.Join(filepath.Dir(n.Dir), ballastFile))
}
