package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/hashicorp/raft"
)

// waits reports whether a goroutine that runs a function waits for the queue.
func waits(function string) bool {
	buf := make([]byte, 1<<20)
	for one := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(one, "(*Store)."+function+"(") && strings.Contains(one, "sync.(*Cond).Wait(") {
			return true
		}
	}
	return false
}

// gate is a disk that keeps transactions waiting once it is shut.
type gate struct {
	shut   atomic.Bool
	opened chan error // the result of the next one; all pass once it is closed
	came   atomic.Int64
	once   sync.Once

	mu    sync.Mutex
	fatal []error
}

func (g *gate) options() Options {
	g.opened = make(chan error)
	return Options{
		Around: func(_ string, do func() error) error {
			if g.shut.Load() {
				g.came.Add(1)
				if err := <-g.opened; err != nil {
					return err
				}
			}
			return do()
		},
		Fatal: func(err error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.fatal = append(g.fatal, err)
		},
	}
}

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

func (g *gate) fatals() []error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fatal
}

// gated opens a store with entries 1 to 3, whose gate is shut. The gate opens at the end.
func gated(t *testing.T) (*gate, *Store) {
	t.Helper()
	g := &gate{}
	s := open(t, g.options())
	t.Cleanup(g.open)
	mustStore(t, s, entries(1, 3, 1, 20))
	g.shut.Store(true)
	return g, s
}

func mustQueue(t testing.TB, s *Store, logs []*raft.Log) {
	t.Helper()
	if queued, err := s.Queue(logs, nil); !queued || err != nil {
		t.Fatalf("entries from %d on: queued %v, %v", logs[0].Index, queued, err)
	}
}

// onDisk returns the index of the newest entry on the disk.
func onDisk(t testing.TB, s *Store) uint64 {
	t.Helper()
	return must.Get(lastOnDisk(s, filepath.Join(t.TempDir(), "raft.db")))(t)
}

// lastOnDisk returns the index of the newest entry that a start after kill -9 finds. It starts a copy
// of the log at path.
func lastOnDisk(s *Store, path string) (uint64, error) {
	if err := copyFiles(s.path, path); err != nil {
		return 0, err
	}
	copied, err := Open(Options{Path: path, Snapshot: s.snapshot, JournalBytes: s.journalBytes})
	if err != nil {
		return 0, err
	}
	_, last := copied.Bounds()
	return last, copied.Close()
}

// TestQueue: entries are there for those who send them, and count as written only when
// they are.
func TestQueue(t *testing.T) {
	g, s := gated(t)
	var hooks atomic.Int64
	var early atomic.Uint64 // the unwritten entry when the hook was called
	for _, logs := range [][]*raft.Log{entries(4, 5, 2, 20), entries(6, 6, 2, 20)} {
		queued, err := s.Queue(logs, func(time.Duration) {
			if u := s.Unwritten(); u == 4 {
				early.Store(u)
			}
			hooks.Add(1)
		})
		if !queued || err != nil {
			t.Fatalf("queued %v, %v", queued, err)
		}
	}
	check.Equal(t, s.Unwritten(), 4, "unwritten from")
	check.Equal(t, onDisk(t, s), 3, "the file ends at")
	check.Equal(t, span(t, s), [2]uint64{1, 3}, "span of the log")
	check.Err(t, s.WaitWritten(3), nil, "waiting for what is written")
	check := func() {
		t.Helper()
		for _, want := range append(entries(1, 3, 1, 20), entries(4, 6, 2, 20)...) {
			var got raft.Log
			if err := s.GetLog(want.Index, &got); err != nil || got.Term != want.Term || !bytes.Equal(got.Data, want.Data) || verify(&got) != nil {
				t.Errorf("entry %d is %+v, %v", want.Index, got, err)
			}
		}
		check.Err(t, s.GetLog(7, new(raft.Log)), raft.ErrLogNotFound, "entry 7")
	}
	check()
	if hooks.Load() != 0 {
		t.Error("the hook was called before anything was written")
	}
	g.open()
	if err := s.WaitWritten(6); err != nil || s.Unwritten() != 0 || onDisk(t, s) != 6 {
		t.Errorf("written up to %d, unwritten from %d on, %v", onDisk(t, s), s.Unwritten(), err)
	}
	check()
	must.Do(t, s.Close())
	if n := hooks.Load(); n < 1 || n > 2 || early.Load() != 0 {
		t.Errorf("the hook was called %d times, and entry %d was not written", n, early.Load())
	}
}

// TestWaitersAreWoken: who waits for an entry does not wait for those that came later, nor
// for a disk that hangs when the store has ended.
func TestWaitersAreWoken(t *testing.T) {
	g, s := gated(t)
	mustQueue(t, s, entries(4, 4, 2, 20))
	await.Eventually(t, "something is written", func() bool { return g.came.Load() == 1 })
	mustQueue(t, s, entries(5, 5, 2, 20))
	done := make(chan error, 1)
	go func() { done <- s.WaitWritten(4) }()
	await.Eventually(t, "somebody waits", func() bool { return waits("WaitWritten") })
	g.opened <- nil
	await.Eventually(t, "who waits for entry 4 is woken", func() bool { return len(done) > 0 })
	if err := <-done; err != nil || s.Unwritten() != 5 {
		t.Errorf("%v, unwritten from %d on", err, s.Unwritten())
	}
	go func() { done <- s.WaitWritten(5) }()
	await.Eventually(t, "somebody waits", func() bool { return waits("WaitWritten") })
	reason := s.end(&CorruptError{Path: s.path, Err: errors.New("a test")})
	await.Eventually(t, "who waits hears of the end", func() bool { return len(done) > 0 })
	check.Err(t, <-done, reason, "who waited is told")
}

// TestNothingOvertakesTheQueue: terms, votes and all other entries are stored behind it.
func TestNothingOvertakesTheQueue(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(s *Store) error
		last uint64
	}{
		"StoreLogs":   {func(s *Store) error { return s.StoreLogs(entries(7, 8, 2, 20)) }, 8},
		"SetUint64":   {func(s *Store) error { return s.SetUint64([]byte("term"), 3) }, 6},
		"Set":         {func(s *Store) error { return s.Set([]byte("vote"), []byte("n2")) }, 6},
		"DeleteRange": {func(s *Store) error { return s.DeleteRange(2, 6) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := gated(t)
			mustQueue(t, s, entries(4, 4, 2, 20))
			mustQueue(t, s, entries(5, 6, 2, 20))
			done := make(chan error, 1)
			go func() { done <- tt.do(s) }()
			await.Eventually(t, "it waits for the queue", func() bool { return waits(name) || len(done) > 0 })
			g.open()
			if err := <-done; err != nil || len(g.fatals()) > 0 {
				t.Errorf("it ended with %v, fatal %v", err, g.fatals())
			}
			if last := onDisk(t, s); last != tt.last || span(t, s)[1] != tt.last || s.Unwritten() != 0 {
				t.Errorf("the file ends at %d, the log at %d, want %d", last, span(t, s)[1], tt.last)
			}
		})
	}
}

// TestConflictInTheQueue: a leader queues entries while it learns that another leads, whose
// entries replace them. Its entries do not stay in the file.
func TestConflictInTheQueue(t *testing.T) {
	for _, lo := range []uint64{3, 4, 5} {
		t.Run(fmt.Sprint(lo), func(t *testing.T) {
			g, s := gated(t)
			mustQueue(t, s, entries(4, 6, 2, 20))
			done := make(chan error, 1)
			go func() { done <- errors.Join(s.DeleteRange(lo, 6), s.StoreLogs(entries(lo, lo, 3, 20))) }()
			await.Eventually(t, "it waits for the queue", func() bool {
				return waits("DeleteRange") || waits("StoreLogs") || len(done) > 0
			})
			g.open()
			if err := <-done; err != nil || len(g.fatals()) > 0 {
				t.Fatalf("%v, fatal %v", err, g.fatals())
			}
			var l raft.Log
			if err := s.GetLog(lo, &l); err != nil || l.Term != 3 || onDisk(t, s) != lo || span(t, s)[1] != lo {
				t.Errorf("entry %d is of term %d, %v; the file ends at %d, the log at %d", lo, l.Term, err, onDisk(t, s), span(t, s)[1])
			}
		})
	}
}

// TestQueueRejects: what cannot be queued is left to StoreLogs.
func TestQueueRejects(t *testing.T) {
	two := entries(4, 5, 2, 20)
	for name, tt := range map[string]struct {
		queued []*raft.Log
		before func(g *gate, s *Store) error
		logs   []*raft.Log
		takes  bool
	}{
		"next":              {logs: entries(4, 9, 2, 20), takes: true},
		"next to queued":    {queued: two, logs: entries(6, 6, 2, 20), takes: true},
		"nothing":           {},
		"a gap":             {logs: entries(5, 5, 2, 20)},
		"replaced":          {logs: entries(3, 3, 2, 20)},
		"a gap to queued":   {queued: two, logs: entries(7, 7, 2, 20)},
		"queued replaced":   {queued: two, logs: entries(4, 4, 2, 20)},
		"behind a full one": {queued: entries(4, 4, 2, queueBytes), logs: entries(5, 5, 2, 20)},
		"too little space": {logs: entries(4, 4, 2, 20), before: func(_ *gate, s *Store) error {
			s.free = func() uint64 { return queueFree - 1 }
			return nil
		}},
		"just enough space": {logs: entries(4, 4, 2, 20), takes: true, before: func(_ *gate, s *Store) error {
			s.free = func() uint64 { return queueFree }
			return nil
		}},
		"the store has ended": {logs: entries(4, 4, 2, 20), before: func(_ *gate, s *Store) error {
			_ = s.end(&DivergedError{Path: s.path, Err: errors.New("a test")})
			return nil
		}},
		"the tail was deleted": {logs: entries(3, 3, 2, 20), before: func(g *gate, s *Store) error {
			g.open()
			return s.DeleteRange(3, 3)
		}},
		"the whole log was deleted": {logs: entries(1, 1, 2, 20), before: func(g *gate, s *Store) error {
			g.open()
			return s.DeleteRange(1, 3)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := gated(t)
			if tt.queued != nil {
				mustQueue(t, s, tt.queued)
			}
			if tt.before != nil {
				must.Do(t, tt.before(g, s))
			}
			before := s.Unwritten()
			queued, err := s.Queue(tt.logs, nil)
			if queued != tt.takes || err != nil {
				t.Errorf("queued %v, %v, want %v", queued, err, tt.takes)
			}
			if !tt.takes && s.Unwritten() != before {
				t.Errorf("unwritten from %d on, before from %d", s.Unwritten(), before)
			}
		})
	}
	t.Run("not consecutive", func(t *testing.T) {
		_, s := gated(t)
		if queued, err := s.Queue(append(entries(4, 4, 2, 20), entries(6, 6, 2, 20)...), nil); queued || err == nil {
			t.Errorf("queued %v, %v", queued, err)
		}
	})
}

// TestFreeSpace: the system's answer counts, unless the options have another; an error
// counts as no space.
func TestFreeSpace(t *testing.T) {
	s := open(t, Options{})
	if s.free() == 0 || freeSpace(s.path+" is not there") != 0 {
		t.Errorf("free are %d bytes, and %d where there is nothing", s.free(), freeSpace(s.path+" is not there"))
	}
	s = open(t, Options{Free: func() uint64 { return 7 }})
	check.Equal(t, s.free(), 7, "free bytes of a disk")
}

// TestQueuedWriteFails: others have the entries, so that the store ends, and they do
// not count as written, whether they are in the file or not.
func TestQueuedWriteFails(t *testing.T) {
	t.Run("not made", func(t *testing.T) {
		g, s := gated(t)
		wrote := make(chan time.Duration, 1)
		if queued, err := s.Queue(entries(4, 6, 2, 20), func(took time.Duration) { wrote <- took }); !queued || err != nil {
			t.Fatalf("queued %v, %v", queued, err)
		}
		done := make(chan error, 2)
		go func() { done <- s.WaitWritten(5) }()
		await.Eventually(t, "somebody waits", func() bool { return waits("WaitWritten") })
		g.opened <- syscall.EIO
		check.Err(t, <-done, syscall.EIO, "who waited is told")
		g.open()
		waitDrained(t, s)
		checkQueueEnded(t, s, g.fatals(), wrote)
		check.Equal(t, reopen(t, s), 3, "after a start the log ends at")
	})
	t.Run("made all the same", func(t *testing.T) {
		var d disk
		s := open(t, d.options(nil))
		mustStore(t, s, entries(1, 3, 1, 20))
		d.fail(0, syscall.EIO, true)
		wrote := make(chan time.Duration, 1)
		if queued, err := s.Queue(entries(4, 6, 2, 20), func(took time.Duration) { wrote <- took }); !queued || err != nil {
			t.Fatalf("queued %v, %v", queued, err)
		}
		check.Err(t, s.WaitWritten(4), syscall.EIO, "who waited is told")
		waitDrained(t, s)
		checkQueueEnded(t, s, d.fatal, wrote)
		check.Equal(t, reopen(t, s), 6, "after a start the log ends at")
	})
}

// waitDrained waits until the goroutine that writes has ended.
func waitDrained(t *testing.T, s *Store) {
	t.Helper()
	await.Eventually(t, "it has ended to write", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.draining
	})
}

// checkQueueEnded holds that a store has ended with the entries from 4 on unwritten.
func checkQueueEnded(t *testing.T, s *Store, fatal []error, wrote chan time.Duration) {
	t.Helper()
	for name, err := range map[string]error{
		"StoreLogs": s.StoreLogs(entries(7, 7, 2, 20)), "SetUint64": s.SetUint64([]byte("term"), 3), "WaitWritten": s.WaitWritten(4),
	} {
		if _, is := errors.AsType[*DivergedError](err); !is {
			t.Errorf("%s: %v", name, err)
		}
	}
	if queued, err := s.Queue(entries(7, 7, 2, 20), nil); queued || err != nil {
		t.Errorf("queued %v, %v", queued, err)
	}
	if s.Unwritten() != 4 || s.WaitWritten(3) != nil || span(t, s)[1] != 3 {
		t.Errorf("unwritten from %d on, %v; the log ends at %d", s.Unwritten(), s.WaitWritten(3), span(t, s)[1])
	}
	if len(fatal) != 1 || !strings.Contains(fatal[0].Error(), "start the node again") {
		t.Errorf("Fatal was called with %v", fatal)
	}
	check.Equal(t, len(wrote), 0, "calls of the hook")
}

// reopen closes a store, and returns where its log ends after the next start.
func reopen(t *testing.T, s *Store) uint64 {
	t.Helper()
	must.Do(t, s.Close())
	return span(t, open(t, Options{Path: s.path}))[1]
}

// TestCloseWritesTheQueue: a node that is stopped keeps its queue.
func TestCloseWritesTheQueue(t *testing.T) {
	g, s := gated(t)
	mustQueue(t, s, entries(4, 6, 2, 20))
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	await.Eventually(t, "it waits for the queue", func() bool { return waits("Close") || len(closed) > 0 })
	if len(closed) > 0 {
		t.Error("it is closed, and the queue is not written")
	}
	g.open()
	if err := <-closed; err != nil || len(g.fatals()) > 0 {
		t.Errorf("%v, fatal %v", err, g.fatals())
	}
	check.Equal(t, span(t, open(t, Options{Path: s.path}))[1], 6, "after a start the log ends at")
}

// TestQueueDuringTruncation queues entries while the old end of the log is deleted, its
// file is written anew, and followers read.
func TestQueueDuringTruncation(t *testing.T) {
	const n, head = 400, 40
	var covered, newest atomic.Uint64
	s := open(t, Options{CacheBytes: 1, Snapshot: covered.Load})
	mustStore(t, s, entries(1, head, 1, 20))
	mustQueue(t, s, entries(head+1, head+1, 1, 20)) // an empty log takes none
	newest.Store(head + 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := uint64(head + 2); i <= n; i++ {
			if queued, err := s.Queue(entries(i, i, 1, 20), nil); !queued || err != nil {
				t.Errorf("entry %d: queued %v, %v", i, queued, err)
				break
			}
			newest.Store(i)
		}
	})
	wg.Go(func() {
		for i := uint64(0); i < n; i = newest.Load() {
			var l raft.Log
			if last := newest.Load(); s.GetLog(last, &l) != nil || l.Index != last {
				t.Errorf("entry %d is not there", last)
				break
			}
			if t.Failed() {
				break
			}
		}
	})
	for i := uint64(10); i <= head; i += 10 {
		covered.Store(i)
		check.Err(t, errors.Join(s.DeleteRange(1, i), s.Rewrite(i)), nil, "error")
	}
	wg.Wait()
	must.Do(t, s.WaitWritten(n))
	check.Equal(t, span(t, s), [2]uint64{head + 1, n}, "the log")
	check.Equal(t, onDisk(t, s), n, "the log on the disk ends at")
}
