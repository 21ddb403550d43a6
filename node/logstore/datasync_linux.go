package logstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync syncs the content of a file, and of its metadata only what reading it needs.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
