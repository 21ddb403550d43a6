package fsm

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/must"
)

// notSaved are the spaces whose rows the saved data need not have.
var notSaved = []byte{
	state.SpaceFormat, // no cluster raises its format as long as there is but one
}

// TestSavedDataHasEveryRow: there is a row of each kind in the data directory that every
// later version has to open.
func TestSavedDataHasEveryRow(t *testing.T) {
	file := must.Get(os.Open(filepath.Join("..", "node", "testdata", "data-v1.tar.zst")))(t)
	defer func() { _ = file.Close() }() // only read
	packed := must.Get(zstd.NewReader(file))(t)
	defer packed.Close()
	dir := t.TempDir()
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Do(t, err)
		if header.Typeflag != tar.TypeReg || !strings.HasPrefix(header.Name, "state/") {
			continue
		}
		data, err := io.ReadAll(archive)
		name := filepath.Join(dir, filepath.FromSlash(header.Name))
		must.Do(t, errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, data, 0o600)))
	}
	m := openAt(t, filepath.Join(dir, "state"))
	v := m.View()
	defer v.Release()
	for _, space := range logicalSpaces() {
		rows := 0
		must.Do(t, state.ScanAll(v.Reader(), space, func(_, _ []byte) error { rows++; return nil }))
		if rows == 0 && !slices.Contains(notSaved, space) {
			t.Errorf("no row of the space %q is in the saved data: let TestSaveData in node/integration lead to one, and write the data anew", space)
		}
	}
}
