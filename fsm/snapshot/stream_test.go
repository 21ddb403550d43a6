package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestHostileHeaders builds streams that try to write elsewhere or too much.
func TestHostileHeaders(t *testing.T) {
	file := func(name string, size int64) streamFile { return streamFile{Name: name, Size: size} }
	tests := map[string]streamHeader{
		"no files":      {},
		"parent":        {Files: []streamFile{file("../evil", 1)}},
		"absolute":      {Files: []streamFile{file("/tmp/evil", 1)}},
		"nested":        {Files: []streamFile{file("a/b", 1)}},
		"hidden":        {Files: []streamFile{file(".hidden", 1)}},
		"empty":         {Files: []streamFile{file("", 1)}},
		"twice":         {Files: []streamFile{file("a", 1), file("a", 1)}},
		"negative":      {Files: []streamFile{file("a", -1)}},
		"overflow":      {Files: []streamFile{file("a", 1<<62), file("b", 1<<62), file("c", 1<<62)}},
		"a huge length": {Files: []streamFile{file("a", 1<<60)}},
	}
	store := New(nil, Options{Dir: t.TempDir(), FS: vfs.Default})
	for name, h := range tests {
		t.Run(name, func(t *testing.T) {
			head, err := h.encode()
			must.Do(t, err)
			sink := store.Create(Meta{})
			_, err = io.Copy(sink, bytes.NewReader(append(head, make([]byte, 64)...)))
			if err == nil {
				err = sink.Close()
			} else if cancel := sink.Cancel(); cancel != nil {
				t.Error(cancel)
			}
			if err == nil {
				t.Fatal("accepted")
			}
			if name == "a huge length" && !errors.Is(err, ErrNoSpace) {
				t.Errorf("rejected with %v", err)
			}
		})
	}
	long := append([]byte(streamMagic), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(long[len(streamMagic):], maxStreamHeader+1)
	check.Err(t, check.Last(readStreamHeader(bytes.NewReader(long))), ErrCorrupt, "a header over the limit")
}

func FuzzStreamHeader(f *testing.F) {
	h := streamHeader{Index: 3, Term: 1, Files: []streamFile{{"000001.sst", 3}}}
	valid := must.Get(h.encode())(f)
	f.Add(valid)
	f.Add([]byte(streamMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := readStreamHeader(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, file := range h.Files {
			if filepath.Base(file.Name) != file.Name || file.Size < 0 {
				t.Fatalf("accepted %+v", file)
			}
		}
	})
}
