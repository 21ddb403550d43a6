package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const fileMode = 0o600

// WriteFileAtomic replaces a file as a whole: after a crash it holds the former
// or the new content, never a part. It returns once the content is on disk. One
// writer at a time: the data directory is locked.
func WriteFileAtomic(path string, data []byte) error {
	temp := path + ".tmp"
	err := writeSynced(temp, data)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // the first error is the one to report
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		_ = d.Close() // the sync error says more
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return d.Close()
}
