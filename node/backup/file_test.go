package backup

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestReplaceFile: a file is replaced by a complete one only, and no partial file is left.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	replace := func(text string, problem error) error {
		return ReplaceFile(path, must.Get(os.Create(path+".partial"))(t), func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return errors.Join(err, problem)
		})
	}
	must.Do(t, replace("first", nil))
	must.Do(t, replace("second", nil))
	problem := errors.New("cut off")
	check.Err(t, replace("third", problem), problem, "replace the file")
	check.Equal(t, string(must.Get(os.ReadFile(path))(t)), "second", "file")
	check.Equal(t, len(must.Get(os.ReadDir(dir))(t)), 1, "files in the directory")
}

// TestFileWriter: io.Copy takes the writer's way of writing, not the file's own, and the bytes
// since the last sync are bounded.
func TestFileWriter(t *testing.T) {
	const size = 3*syncedBytes + 100
	path := filepath.Join(t.TempDir(), "file")
	w := &fileWriter{file: must.Get(os.Create(path))(t)}
	most := 0
	source := io.LimitReader(zeros{}, size)
	counted := readerFunc(func(p []byte) (int, error) {
		most = max(most, w.written)
		return source.Read(p)
	})
	n := must.Get(io.Copy(w, counted))(t)
	check.Equal(t, n, size, "bytes")
	must.Do(t, w.file.Close())
	check.Equal(t, int(must.Get(os.Stat(path))(t).Size()), size, "bytes on the disk")
	if most == 0 || most >= syncedBytes || w.written >= syncedBytes {
		t.Errorf("up to %d bytes were not synced, %d at the end; want fewer than %d", most, w.written, syncedBytes)
	}
	check.Fails(io.Copy(w, iotest.OneByteReader(io.LimitReader(zeros{}, 1))))(t, "a closed file was written")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
