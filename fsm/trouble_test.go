package fsm

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// lines counts the lines of a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// TestFullDisk: while the disk is full a flush ends with an error instead of never, Pebble
// tries again with pauses and logs that once each time, and the state closes, with the rows
// that were flushed before. The rest comes from the log.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	var tries atomic.Int64
	var out lines
	dir := t.TempDir()
	change := func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&out, nil))
		o.fs = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if !full.Load() || op.Kind != errorfs.OpCreate || !strings.HasSuffix(op.Path, ".sst") {
				return nil
			}
			tries.Add(1)
			return syscall.ENOSPC
		}))
	}
	l := newLog(t)
	l.seed(20)
	m, err := tryOpenAt(dir, change)
	if err != nil {
		t.Fatal(err)
	}
	l.feed(m, 1, l.last())
	if err := m.store.Flush(); err != nil {
		t.Fatal(err)
	}
	flushed := l.last()
	l.seed(20)
	l.feed(m, flushed+1, l.last())

	full.Store(true)
	began := time.Now()
	for range 2 {
		if err := m.store.Flush(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("flush: %v", err)
		}
	}
	time.Sleep(fullPause)
	full.Store(false)
	if err := m.store.DB.Flush(); err != nil {
		t.Fatal(err)
	}
	flushed = l.last()
	l.seed(20)
	l.feed(m, flushed+1, l.last())
	full.Store(true)
	if err := m.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	// Each pause lies between two tries of up to two writers at once. Without pauses
	// there are thousands a second.
	if n, most := tries.Load(), int64(4*(time.Since(began)/fullPause+2)); n > most {
		t.Errorf("%d tries to write, want at most %d", n, most)
	}
	if n := out.count("writing the state failed"); n != 2 {
		t.Errorf("%d lines about failed writes", n)
	}
	if n := out.count("the state is written again"); n != 1 {
		t.Errorf("%d lines about writes that go well", n)
	}
	if n := out.count("the disk is full"); n != 1 {
		t.Errorf("%d lines at the end", n)
	}

	full.Store(false)
	m = openAt(t, dir, change)
	if applied := m.Applied(); applied != flushed {
		t.Fatalf("the state on disk is at %d, want %d", applied, flushed)
	}
	l.feed(m, flushed+1, l.last())
	if err := m.store.Flush(); err != nil {
		t.Error(err)
	}
}
