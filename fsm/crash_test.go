package fsm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// crashAt is an option that panics at a step, once.
func crashAt(step string) func(*Options) {
	done := false
	return func(o *Options) {
		o.failpoint = func(s string) {
			if s == step && !done {
				done = true
				panic(errCrash)
			}
		}
	}
}

var errCrash = errors.New("crash")

// untilCrash runs f and reports whether it came to the crash.
func untilCrash(t *testing.T, f func() error) (crashed bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			if r != any(errCrash) {
				panic(r)
			}
			crashed = true
		}
	}()
	must.Do(t, f())
	return false
}

// TestCrashAfterKeeping receives a snapshot that is older than the state in memory
// and newer than that on the disk, and crashes. Raft relies on the snapshot once it
// is installed: after a restart the state covers it.
func TestCrashAfterKeeping(t *testing.T) {
	l := newLog(t)
	l.seed(40)
	_, meta, data := leader(t, l)
	l.seed(5)
	want := l.fresh(t, l.last())
	for _, step := range []string{snapshot.StepReceived, snapshot.StepKept, snapshot.StepForgotten, ""} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			m := must.Get(tryOpenAt(dir, crashAt(step)))(t)
			l.feed(m, 1, l.last())
			must.Equal(t, untilCrash(t, func() error { return receive(m, meta, data) }), step != "", "the step was reached")
			abandon(t, m)
			m = openAt(t, dir)
			if metas, err := m.Snapshots().List(); err != nil || len(metas) != 1 || metas[0].Index != meta.Index {
				t.Errorf("snapshots %+v, %v, want one of %d", metas, err, meta.Index)
			}
			check.Equal(t, len(fileNames(t, dir)), 3, "left behind")
			l.feed(m, meta.Index+1, l.last()) // Raft begins after the snapshot
			sameState(t, want, stateOf(t, m))
		})
	}
}

// TestReceivedStateIsMissing: a snapshot that Raft may rely on is not dropped
// because its state is gone.
func TestReceivedStateIsMissing(t *testing.T) {
	dir, _, _ := crashReceived(t)
	must.Do(t, os.RemoveAll(filepath.Join(dir, receivedDir(t, dir))))
	check.Err(t, check.Last(tryOpenAt(dir)), snapshot.ErrBehind, "opened")
}

// crashReceived makes a directory whose machine crashed when it had received a
// snapshot and not installed it. It returns the snapshot, too.
func crashReceived(t *testing.T) (dir string, meta *raft.SnapshotMeta, data []byte) {
	t.Helper()
	l := newLog(t)
	l.seed(40)
	_, meta, data = leader(t, l)
	dir = t.TempDir()
	m := must.Get(tryOpenAt(dir, crashAt(snapshot.StepReceived)))(t)
	if !untilCrash(t, func() error { return receive(m, meta, data) }) {
		t.Fatal("the step was not reached")
	}
	abandon(t, m)
	return dir, meta, data
}

// abandon closes what a crashed machine still has open: its own state, and one
// that was open but not yet live, which only a test can get at.
func abandon(t *testing.T, m *Machine) {
	t.Helper()
	if m.newest != nil && m.newest != m.store {
		check.Err(t, m.newest.Close(), nil, "close")
	}
	check.Err(t, m.Abandon(), nil, "abandon")
}

// TestCrashWhileBootFinishesAnInstall crashes a second time, in the boot that
// picks up a received state.
func TestCrashWhileBootFinishesAnInstall(t *testing.T) {
	dir, meta, data := crashReceived(t)
	// A received state with damaged files is dropped, the old one goes on.
	for name, damage := range map[string]func([]byte) []byte{
		"cut short": func(table []byte) []byte { return table[:10] },
		"bits flipped": func(table []byte) []byte {
			for i := 0; i < len(table)/2; i += 100 {
				table[i] ^= 1
			}
			return table
		},
	} {
		t.Run(name, func(t *testing.T) {
			copied := t.TempDir()
			copyDir(t, copied, dir)
			damageTables(t, copied, receivedDir(t, copied), damage)
			m := openAt(t, copied)
			check.Equal(t, m.Applied(), 0, "applied")
			check.Equal(t, len(must.Get(m.Snapshots().List())(t)), 0, "snapshots")
			check.Err(t, receive(m, meta, data), nil, "receiving again")
		})
	}
	check.Equal(t, openAt(t, dir).Applied(), meta.Index, "applied")
}

// TestCrashWhilePersisting crashes at each step of taking a snapshot.
func TestCrashWhilePersisting(t *testing.T) {
	l := newLog(t)
	l.seed(20)
	for step, kept := range map[string]int{snapshot.StepCovered: 0, snapshot.StepPersisted: 1} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			m := must.Get(tryOpenAt(dir, crashAt(step)))(t)
			l.feed(m, 1, 10)
			if !untilCrash(t, func() error { return takeSnapshot(m, 10, 1) }) {
				t.Fatal("the step was not reached")
			}
			abandon(t, m)
			m = openAt(t, dir)
			check.Equal(t, len(must.Get(m.Snapshots().List())(t)), kept, "snapshots")
			check.Equal(t, m.RestoreOnStart(), false, "wants a restore")
			first := uint64(1)
			if kept == 1 {
				first = 11 // Raft begins after the snapshot
			}
			l.feed(m, first, l.last())
			sameState(t, l.fresh(t, l.last()), stateOf(t, m))
		})
	}
}

// TestUndecodableEntryPanics checks that the state machine stops, and says where.
func TestUndecodableEntryPanics(t *testing.T) {
	r := newRig(t)
	r.Publish(nil)
	defer func() {
		var e *apply.Error
		err, _ := recover().(error)
		if !errors.As(err, &e) || e.Index != 3 || !strings.Contains(err.Error(), "log entry 3") {
			t.Errorf("panicked with %v", err)
		}
		check.Equal(t, r.Applied(), 2, "applied")
	}()
	r.apply([]apply.LogEntry{{Index: 3, Term: 1, Data: []byte("not a batch")}})
}

// TestFlippedBitsInTheState flips a bit in many places of the tables. A read of
// everything either finds what was written or reports the damage, to its caller
// and to Options.Fatal; it never finds something else.
func TestFlippedBitsInTheState(t *testing.T) {
	l := newLog(t)
	l.seed(60)
	dir := t.TempDir()
	m := openAt(t, dir)
	l.feed(m, 1, l.last())
	want := stateOf(t, m)
	closeMachine(t, m)
	found := 0
	for i := range 40 {
		// Each opening may compact tables away.
		tables, err := filepath.Glob(filepath.Join(dir, dbPrefix+"*", "*.sst"))
		if err != nil || len(tables) == 0 {
			t.Fatalf("no tables: %v", err)
		}
		path := tables[i%len(tables)]
		data := must.Get(os.ReadFile(path))(t)
		bad := bytes.Clone(data)
		bad[len(bad)*i/40] ^= 1 << (i % 8)
		must.Do(t, os.WriteFile(path, bad, 0o600))
		if readDamaged(t, dir, want) {
			found++
		}
		must.Do(t, os.WriteFile(path, data, 0o600))
	}
	if found < 20 {
		t.Errorf("only %d of 40 flipped bits were noticed", found)
	}
}

// readDamaged reads a whole state and reports whether damage was noticed.
func readDamaged(t *testing.T, dir string, want contents) (noticed bool) {
	t.Helper()
	var fatal atomic.Bool
	m, err := tryOpenAt(dir, func(o *Options) { o.Fatal = func(error) { fatal.Store(true) } })
	if err != nil {
		return true
	}
	v := m.View()
	rows, err := v.RowDigest(t.Context())
	v.Release()
	if err == nil && rows != want.Rows {
		t.Error("damage was read as data")
	}
	if err != nil && !fatal.Load() {
		t.Errorf("Fatal was not called with %v", err)
	}
	check.Err(t, m.Abandon(), nil, "abandon")
	return err != nil
}

// TestAppliedUnderAnotherTerm feeds a state the log entry that it was made with
// under another term: the log is another one's, and the state is no copy of it.
func TestAppliedUnderAnotherTerm(t *testing.T) {
	r := newRig(t)
	r.Publish(nil)
	r.log.feed(r.Machine, 1, r.log.last()) // as after a start
	r.log.entries[r.log.last()-1].Term++
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), "wipe this node's data") {
			t.Errorf("applied: %v", err)
		}
	}()
	r.log.feed(r.Machine, 1, r.log.last())
}
