package backup

import (
	"io"
	"os"

	"github.com/commons-cluster/commons/cluster"
)

// ReplaceFile is cluster.ReplaceFile for a large file: it syncs the partial file in parts.
func ReplaceFile(path string, partial *os.File, write func(io.Writer) error) error {
	return cluster.ReplaceFile(path, partial, func(io.Writer) error { return write(&fileWriter{file: partial}) })
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

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	if w.written += n; err == nil && w.written >= syncedBytes {
		w.written, err = 0, w.file.Sync()
	}
	return n, err
}
