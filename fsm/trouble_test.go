package fsm

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// lines counts the lines of a log.
type lines struct{ await.Buffer }

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

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
		o.FS = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if !full.Load() || op.Kind != errorfs.OpCreate || !strings.HasSuffix(op.Path, ".sst") {
				return nil
			}
			tries.Add(1)
			return syscall.ENOSPC
		}))
	}
	l := newLog(t)
	l.seed(20)
	m := must.Get(tryOpenAt(dir, change))(t)
	l.feed(m, 1, l.last())
	must.Do(t, m.store.Flush())
	flushed := l.last()
	l.seed(20)
	l.feed(m, flushed+1, l.last())

	full.Store(true)
	began := time.Now()
	for range 2 {
		check.Err(t, m.store.Flush(), syscall.ENOSPC, "flush")
	}
	time.Sleep(fullPause)
	full.Store(false)
	must.Do(t, m.store.DB.Flush())
	flushed = l.last()
	l.seed(20)
	l.feed(m, flushed+1, l.last())
	full.Store(true)
	check.Err(t, m.Close(), nil, "close")
	// Each pause lies between two tries of up to two writers at once. Without pauses
	// there are thousands a second.
	if n, most := tries.Load(), int64(4*(time.Since(began)/fullPause+2)); n > most {
		t.Errorf("%d tries to write, want at most %d", n, most)
	}
	check.Equal(t, out.count("writing the state failed"), 2, "lines about failed writes")
	check.Equal(t, out.count("the state is written again"), 1, "lines about writes that go well")
	check.Equal(t, out.count("the disk is full"), 1, "lines at the end")

	full.Store(false)
	m = openAt(t, dir, change)
	must.Equal(t, m.Applied(), flushed, "the state on disk is at")
	l.feed(m, flushed+1, l.last())
	check.Err(t, m.store.Flush(), nil, "flush")
}
