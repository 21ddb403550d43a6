package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// LockFile is the name of the file in a data directory that a process locks.
const LockFile = "lock"

// DirLock is the exclusive hold of one process on a data directory.
type DirLock struct{ f *os.File }

// LockDir makes the directory if it is missing and locks it until the process ends. The
// error names the process that holds it, if known.
func LockDir(dir string) (*DirLock, error) {
	if err := os.MkdirAll(dir, dataDirMode); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	path := filepath.Join(dir, LockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := lockHolder(f)
		_ = f.Close() // the file is unchanged
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another process%s; stop it or use another directory", dir, holder)
		}
		return nil, fmt.Errorf("lock the data directory %s: %w", dir, err)
	}
	// The process id is for the message above alone; the lock holds without it.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return &DirLock{f: f}, nil
}

// Release gives the directory up. It is safe to call more than once.
func (l *DirLock) Release() error {
	err := l.f.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

const maxPIDLen = 20

func lockHolder(f *os.File) string {
	buf := make([]byte, maxPIDLen)
	n, _ := f.ReadAt(buf, 0) // an empty file has no process id to show
	pid := strings.TrimSpace(string(buf[:n]))
	if pid == "" || strings.Trim(pid, "0123456789") != "" {
		return ""
	}
	return " (process " + pid + ")"
}

const (
	dataDirMode = 0o700
	fileMode    = 0o600
)

// WriteFileAtomic replaces a file, through to the disk: after a crash it has the former or
// the new content. There is one writer at a time, because the data directory is locked.
func WriteFileAtomic(path string, data []byte) error {
	if err := CheckReplaceable(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	return ReplaceFile(path, f, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// ReplaceFile has write fill a partial file, and renames it to path, in the same directory, once
// it is complete and on the disk. It closes the partial file, and removes it after an error.
func ReplaceFile(path string, partial *os.File, write func(io.Writer) error) error {
	err := write(partial)
	if err = errors.Join(err, partial.Sync(), partial.Close()); err == nil {
		err = os.Rename(partial.Name(), path)
	}
	if err != nil {
		_ = os.Remove(partial.Name()) // the first error is the one to report
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// CheckReplaceable returns an error if a path names a device, a pipe or a socket. A rename
// by root would replace it, and other programs need it: such as /dev/null.
func CheckReplaceable(path string) error {
	if at, err := os.Stat(path); err == nil && at.Mode().Type()&^fs.ModeDir != 0 {
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
