package backup

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/commons-cluster/commons/cluster"
)

// ReplaceFile has write fill a partial file, and renames it to path, in the same directory, once
// it is complete and on the disk. It closes the partial file, and removes it after an error.
func ReplaceFile(path string, partial *os.File, write func(io.Writer) error) error {
	err := write(&fileWriter{file: partial})
	if err = errors.Join(err, partial.Sync(), partial.Close()); err == nil {
		err = os.Rename(partial.Name(), path)
	}
	if err != nil {
		_ = os.Remove(partial.Name()) // the first error is the one to report
		return err
	}
	return cluster.SyncDir(filepath.Dir(path))
}

// syncedBytes is the part of a file that is written between two syncs.
const syncedBytes = 4 << 20

// fileWriter writes a file to the disk in parts. The Raft log may be on the same disk: its syncs
// wait for the unwritten data of other files, and a sync of a whole backup would block them for
// a long time. The caller syncs the end of the file.
type fileWriter struct {
	file    *os.File
	written int // since the last sync
}

// Write implements io.Writer.
func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	if w.written += n; err == nil && w.written >= syncedBytes {
		w.written, err = 0, w.file.Sync()
	}
	return n, err
}
