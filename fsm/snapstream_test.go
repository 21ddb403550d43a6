package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

// TestDamagedStreams damages the stream in many places. The receiver
// refuses each and stays as it was.
func TestDamagedStreams(t *testing.T) {
	l := newLog(t)
	l.seed(30)
	_, meta, data := leader(t, l)
	to := openAt(t, t.TempDir())
	l.feed(to, 1, 5)
	want := stateOf(t, to)
	refused := func(name string, meta *raft.SnapshotMeta, data []byte) {
		t.Helper()
		if err := receive(to, meta, data); err == nil {
			t.Fatalf("%s: accepted", name)
		}
	}
	for i := 0; i < len(data); i += max(1, len(data)/150) {
		bad := bytes.Clone(data)
		bad[i] ^= 0x10
		refused(fmt.Sprintf("byte %d of %d", i, len(data)), meta, bad)
	}
	for i := 0; i < len(data); i += max(1, len(data)/40) {
		refused(fmt.Sprintf("cut to %d bytes", i), meta, data[:i])
	}
	refused("a byte more", meta, append(bytes.Clone(data), 0))
	other := *meta
	other.Index++
	refused("another index", &other, data)
	sameState(t, want, stateOf(t, to))
	if got := fileNames(t, to.opts.Dir); !slices.Equal(got, []string{currentFile, to.store.dir, snapshotDir}) {
		t.Errorf("left behind: %v", got)
	}
	if err := receive(to, meta, data); err != nil {
		t.Errorf("the stream as it was: %v", err)
	}
}

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
	m := openAt(t, t.TempDir())
	for name, h := range tests {
		t.Run(name, func(t *testing.T) {
			head, err := h.encode()
			if err != nil {
				t.Fatal(err)
			}
			sink := m.snaps.create(snapshotMeta{})
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
				t.Errorf("refused with %v", err)
			}
		})
	}
	long := append([]byte(streamMagic), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(long[len(streamMagic):], maxStreamHeader+1)
	if _, err := readStreamHeader(bytes.NewReader(long)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a header over the limit: %v", err)
	}
}

func FuzzStreamHeader(f *testing.F) {
	h := streamHeader{Index: 3, Term: 1, Files: []streamFile{{"000001.sst", 3}}}
	f.Add(must(h.encode()))
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
