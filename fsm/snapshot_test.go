package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestRestart(t *testing.T) {
	for name, end := range map[string]func(*Machine) error{"close": (*Machine).Close, "crash": (*Machine).Abandon} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			l.seed(40)
			dir := t.TempDir()
			m := openAt(t, dir)
			l.feed(m, 1, 30)
			want := stateOf(t, m)
			must.Do(t, end(m))
			m = openAt(t, dir)
			if name == "close" {
				sameState(t, want, stateOf(t, m))
			} else if m.Applied() == 30 {
				t.Error("the crash lost nothing, so it tests nothing")
			}
			l.feed(m, 1, l.last()) // Raft begins at its snapshot, here at the start
			sameState(t, l.fresh(t, l.last()), stateOf(t, m))
			check.Equal(t, m.RestoreOnStart(), false, "wants a restore")
		})
	}
}

// TestPersistSurvivesACrash checks the rule of the boot: what a snapshot covers
// is on disk.
func TestPersistSurvivesACrash(t *testing.T) {
	l := newLog(t)
	l.seed(20)
	last := l.last() + 2
	l.add(raft.LogNoop, nil) // Raft's own entries: the snapshot counts them,
	l.add(raft.LogNoop, nil) // the state machine never sees them
	l.seed(5)
	dir := t.TempDir()
	m := openAt(t, dir)
	l.feed(m, 1, last)
	must.Do(t, takeSnapshot(m, last, 3))
	want := stateOf(t, m)
	l.feed(m, last+1, l.last())
	must.Do(t, m.Abandon())
	m = openAt(t, dir)
	sameState(t, want, stateOf(t, m))
	metas, err := m.Snapshots().List()
	if err != nil || len(metas) != 1 || metas[0].Index != last || metas[0].Term != 3 {
		t.Fatalf("snapshots %+v, %v", metas, err)
	}
	check.Diff(t, metas[0].Configuration, testConfiguration, "configuration")
	check.Equal(t, m.RestoreOnStart(), false, "wants a restore")
	l.feed(m, last+1, l.last())
	sameState(t, l.fresh(t, l.last()), stateOf(t, m))
}

// TestStateBehindItsSnapshot puts an older state under a newer snapshot.
func TestStateBehindItsSnapshot(t *testing.T) {
	l := newLog(t)
	l.seed(20)
	dir := t.TempDir()
	m := openAt(t, dir)
	l.feed(m, 1, l.last())
	must.Do(t, takeSnapshot(m, l.last(), 1))
	live := m.store.dir
	closeMachine(t, m)
	t.Run("no state", func(t *testing.T) {
		copied := t.TempDir()
		must.Do(t, os.CopyFS(copied, os.DirFS(dir)))
		must.Do(t, os.RemoveAll(filepath.Join(copied, live)))
		check.Err(t, check.Last(tryOpenAt(copied)), snapshot.ErrBehind, "opened")
	})
	t.Run("no CURRENT", func(t *testing.T) {
		copied := t.TempDir()
		must.Do(t, os.CopyFS(copied, os.DirFS(dir)))
		must.Do(t, os.Remove(filepath.Join(copied, currentFile)))
		check.Err(t, check.Last(tryOpenAt(copied)), snapshot.ErrCorrupt, "opened")
	})
	t.Run("metadata with a flipped bit", func(t *testing.T) {
		copied := t.TempDir()
		must.Do(t, os.CopyFS(copied, os.DirFS(dir)))
		names := fileNames(t, filepath.Join(copied, snapshotDir))
		path := filepath.Join(copied, snapshotDir, names[0])
		data := must.Get(os.ReadFile(path))(t)
		data[len(data)/2] ^= 1
		must.Do(t, os.WriteFile(path, data, 0o600))
		check.Err(t, check.Last(tryOpenAt(copied)), snapshot.ErrCorrupt, "opened")
	})
}

// leader returns a machine that has applied the log and taken a snapshot early
// in it, and the stream it would send.
func leader(t testing.TB, l *raftLog) (*Machine, *raft.SnapshotMeta, []byte) {
	t.Helper()
	m := openAt(t, t.TempDir())
	l.feed(m, 1, l.last()/2)
	must.Do(t, takeSnapshot(m, l.last()/2, 1))
	l.feed(m, l.last()/2+1, l.last())
	meta, data, err := send(m)
	must.Do(t, err)
	return m, meta, data
}

func TestSnapshotTransfer(t *testing.T) {
	l := newLog(t)
	l.seed(60)
	from, meta, data := leader(t, l)
	if meta.Index != from.Applied() || meta.Index <= l.last()/2 {
		t.Errorf("the stream is of index %d, the state of %d", meta.Index, from.Applied())
	}
	check.Equal(t, int64(len(data)), meta.Size, "bytes, as announced,")
	check.Equal(t, meta.ConfigurationIndex, 1, "configuration index")
	check.Diff(t, meta.Configuration, testConfiguration, "configuration")
	if slices.ContainsFunc(fileNames(t, from.opts.Dir), func(n string) bool { return strings.HasPrefix(n, outgoingPrefix) }) {
		t.Error("the checkpoint is left behind")
	}

	dir := t.TempDir()
	to := openAt(t, dir)
	l.feed(to, 1, 5)
	old := to.View()
	oldState := stateOf(t, to)
	must.Do(t, receive(to, meta, data))
	sameState(t, stateOf(t, from), stateOf(t, to))
	check.Err(t, to.Wait(t.Context(), meta.Index), nil, "wait")
	// The old view goes on.
	check.Equal(t, must.Get(old.RowDigest(t.Context()))(t), oldState.Rows, "rows of the old view")
	if _, raw := fsmtest.ReadEntry(t, old, old.LastSeq()); !strings.HasSuffix(oldState.Newest, raw) {
		t.Errorf("the old view reads %s", raw)
	}
	old.Release()
	// Both go on alike, and the receiver can send, too.
	applied := l.last()
	l.seed(10)
	l.feed(from, applied+1, l.last())
	l.feed(to, 1, l.last())
	sameState(t, stateOf(t, from), stateOf(t, to))
	meta, data, err := send(to)
	must.Do(t, err)
	third := openAt(t, t.TempDir())
	must.Do(t, receive(third, meta, data))
	sameState(t, stateOf(t, from), stateOf(t, third))
	// Restarts keep it.
	must.Do(t, to.Abandon())
	to = openAt(t, dir)
	l.feed(to, 1, l.last())
	sameState(t, stateOf(t, from), stateOf(t, to))
	check.Equal(t, len(fileNames(t, dir)), 3, "files")
}

// TestCoveredBeyondApplied sends a state whose snapshot counts log entries that
// the state machine never saw: the receiver must not ask for those again.
func TestCoveredBeyondApplied(t *testing.T) {
	l := newLog(t)
	l.seed(5)
	m := openAt(t, t.TempDir())
	l.feed(m, 1, l.last())
	must.Do(t, takeSnapshot(m, l.last()+7, 9))
	meta, data, err := send(m)
	must.Do(t, err)
	check.Equal(t, meta.Index, l.last()+7, "the stream is: index")
	check.Equal(t, meta.Term, 9, "the stream is: term")
	dir := t.TempDir()
	to := openAt(t, dir)
	must.Do(t, receive(to, meta, data))
	closeMachine(t, to)
	to = openAt(t, dir)
	sameState(t, stateOf(t, m), stateOf(t, to))
}

func TestSnapshotsAreBounded(t *testing.T) {
	l := newLog(t)
	l.seed(10)
	m := openAt(t, t.TempDir())
	for i := uint64(1); i <= 8; i++ {
		l.feed(m, i, i)
		must.Do(t, takeSnapshot(m, i, 1))
	}
	metas, err := m.Snapshots().List()
	if err != nil || len(metas) != snapshot.Kept || metas[0].Index != 8 || metas[1].Index != 7 {
		t.Errorf("snapshots %+v, %v", metas, err)
	}
	check.Equal(t, len(fileNames(t, filepath.Join(m.opts.Dir, snapshotDir))), snapshot.Kept, "files")
	check.Err(t, check.Last(m.Snapshots().Open("nonsense")), os.ErrNotExist, "open of what is not there")
	for range 2 { // a stream that is closed twice makes room for one other
		var open []io.Closer
		for range snapshot.MaxStreams {
			_, stream, err := m.Snapshots().Open(metas[0].ID)
			must.Do(t, err)
			open = append(open, stream)
		}
		if _, _, err := m.Snapshots().Open(metas[0].ID); err == nil {
			t.Error("one stream too many was opened")
		}
		for _, c := range open {
			check.Err(t, errors.Join(c.Close(), c.Close()), nil, "error")
		}
	}
}

// TestDamagedStreams damages the stream in many places. The receiver
// rejects each and stays as it was.
func TestDamagedStreams(t *testing.T) {
	l := newLog(t)
	l.seed(30)
	_, meta, data := leader(t, l)
	to := openAt(t, t.TempDir())
	l.feed(to, 1, 5)
	want := stateOf(t, to)
	rejected := func(name string, meta *raft.SnapshotMeta, data []byte) {
		t.Helper()
		check.Fails(receive(to, meta, data))(t, "%s: accepted", name)
	}
	for i := 0; i < len(data); i += max(1, len(data)/150) {
		bad := bytes.Clone(data)
		bad[i] ^= 0x10
		rejected(fmt.Sprintf("byte %d of %d", i, len(data)), meta, bad)
	}
	for i := 0; i < len(data); i += max(1, len(data)/40) {
		rejected(fmt.Sprintf("cut to %d bytes", i), meta, data[:i])
	}
	rejected("a byte more", meta, append(bytes.Clone(data), 0))
	other := *meta
	other.Index++
	rejected("another index", &other, data)
	sameState(t, want, stateOf(t, to))
	check.Diff(t, fileNames(t, to.opts.Dir), []string{currentFile, to.store.dir, snapshotDir}, "left behind")
	check.Err(t, receive(to, meta, data), nil, "the stream as it was")
}

// TestPersistOfAReplacedState takes a snapshot of a state that a restore replaces
// meanwhile: its position must not be claimed for the new state.
func TestPersistOfAReplacedState(t *testing.T) {
	l := newLog(t)
	l.seed(30)
	_, meta, data := leader(t, l)
	to := openAt(t, t.TempDir())
	l.feed(to, 1, 5)
	snap := must.Get(to.FSM().Snapshot())(t)
	defer snap.Release()
	sink := must.Get(to.Snapshots().Create(1, meta.Index+10, 9, testConfiguration, 1, nil))(t)
	must.Do(t, receive(to, meta, data))
	check.Fails(snap.Persist(sink))(t, "persisted")
	check.Err(t, sink.Cancel(), nil, "cancel")
	metas, err := to.Snapshots().List()
	if err != nil || len(metas) != 1 || metas[0].Index != meta.Index {
		t.Errorf("snapshots %+v, %v", metas, err)
	}
}

func TestOtherKeyspaceVersionIsRejected(t *testing.T) {
	dir := t.TempDir()
	m := openAt(t, dir)
	must.Do(t, m.store.DB.Set(state.KeyVersion, []byte{state.KeyspaceVersion + 1}, pebble.NoSync))
	closeMachine(t, m)
	if _, err := tryOpenAt(dir); err == nil || !strings.Contains(err.Error(), "keyspace version") {
		t.Errorf("opened with %v", err)
	}
}
