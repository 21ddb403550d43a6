package logstore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	_ "github.com/commons-cluster/commons/internal/longtest" // fewer checks of rapid
)

// smallJournal is the size of a file of the journal that a few entries fill.
const smallJournal = 2 << 10

// open opens a store in a new directory; it is closed with the test.
func open(t testing.TB, opts Options) *Store {
	t.Helper()
	if opts.Path == "" {
		opts.Path = filepath.Join(t.TempDir(), "raft.db")
	}
	opts.JournalBytes = cmp.Or(opts.JournalBytes, smallJournal)
	s := must.Get(Open(opts))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// upTo is a snapshot that covers what is up to the index.
func upTo(index uint64) func() uint64 { return func() uint64 { return index } }

// entries makes entries lo to hi of a term with data of the given size.
func entries(lo, hi, term uint64, size int) []*raft.Log {
	var logs []*raft.Log
	for i := lo; i <= hi; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: term, Data: bytes.Repeat([]byte{byte(i), byte(term)}, size/2)})
	}
	return logs
}

func mustStore(t testing.TB, s *Store, logs []*raft.Log) {
	t.Helper()
	must.Do(t, s.StoreLogs(logs))
}

// span returns the first and last index.
func span(t testing.TB, s raft.LogStore) [2]uint64 {
	t.Helper()
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	must.Do(t, errors.Join(err1, err2))
	return [2]uint64{first, last}
}

// TestModel runs what Raft does to a log against a map, with restarts.
func TestModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		var covered uint64 // by the newest snapshot
		opts := Options{Path: filepath.Join(dir, fmt.Sprint(n)), JournalBytes: smallJournal, Snapshot: func() uint64 { return covered }, CacheBytes: int64(rapid.SampledFrom([]int{1, 2000, 1 << 20}).Draw(t, "cache"))}
		s := must.Get(Open(opts))(t)
		defer func() { _ = s.Close() }()
		model := map[uint64]*raft.Log{}
		var first, last, term uint64
		drop := func(lo, hi uint64) {
			for i := lo; i <= hi; i++ {
				delete(model, i)
			}
		}
		store := func(lo uint64) {
			term++
			logs := entries(lo, lo+uint64(rapid.IntRange(0, 20).Draw(t, "n")), term, rapid.IntRange(0, 300).Draw(t, "size"))
			queued := false
			if rapid.Bool().Draw(t, "queue") {
				queued = must.Get(s.Queue(logs, nil))(t)
			}
			if !queued {
				must.Do(t, s.StoreLogs(logs))
			}
			for _, l := range logs {
				model[l.Index] = l
			}
			if first == 0 {
				first = lo
			}
			last = lo + uint64(len(logs)) - 1
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { store(last + 1) },
			"truncate": func(t *rapid.T) {
				if first == 0 {
					return
				}
				hi := rapid.Uint64Range(first, last).Draw(t, "hi")
				covered = hi
				must.Do(t, s.DeleteRange(first, hi))
				drop(first, hi)
				if first = hi + 1; hi == last {
					first = 0
				}
			},
			"conflict": func(t *rapid.T) {
				if first == 0 {
					return
				}
				lo := rapid.Uint64Range(first, last).Draw(t, "lo")
				must.Do(t, s.DeleteRange(lo, last))
				drop(lo, last)
				if last = lo - 1; lo == first {
					first = 0
				}
			},
			"gap": func(t *rapid.T) {
				drop(first, last)
				first = 0
				covered = last + uint64(rapid.IntRange(1, 50).Draw(t, "gap"))
				store(covered + 1)
			},
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 4).Draw(t, "really") > 0 {
					return // a restart takes as long as a hundred of the others
				}
				must.Do(t, s.Close())
				s = must.Get(Open(opts))(t)
			},
			"": func(t *rapid.T) {
				written := last
				if unwritten := s.Unwritten(); unwritten > 0 {
					written = unwritten - 1
				}
				gotFirst, _ := s.FirstIndex()
				gotLast, _ := s.LastIndex()
				switch {
				case first == 0:
					if gotFirst != 0 || gotLast != 0 {
						t.Fatalf("empty log spans %d to %d", gotFirst, gotLast)
					}
				case gotFirst == 0 && written < first: // all of it is queued
				case gotFirst != first || gotLast < written || gotLast > last:
					t.Fatalf("log spans %d to %d, want %d to %d, of which %d is written", gotFirst, gotLast, first, last, written)
				}
				for i := range last + 2 {
					var got raft.Log
					err := s.GetLog(i, &got)
					want := model[i]
					switch {
					case want == nil:
						check.Err(t, err, raft.ErrLogNotFound, "entry %d", i)
					case err != nil:
						t.Fatalf("entry %d: %v", i, err)
					case got.Index != i || got.Term != want.Term || !bytes.Equal(got.Data, want.Data):
						t.Fatalf("entry %d is %+v, want %+v", i, got, want)
					}
				}
				s.mu.Lock()
				held, limit := s.win.cacheBytes, s.win.cacheLimit
				s.mu.Unlock()
				if held > limit {
					t.Fatalf("cache holds %d bytes of %d", held, limit)
				}
			},
		})
	})
}

func TestStableStore(t *testing.T) {
	s := open(t, Options{})
	if _, err := s.Get([]byte("k")); err == nil || err.Error() != "not found" {
		t.Errorf("Get of nothing: error %v; Raft knows it by the text \"not found\"", err)
	}
	if _, err := s.GetUint64([]byte("n")); err == nil || err.Error() != "not found" {
		t.Errorf("GetUint64 of nothing: error %v", err)
	}
	must.Do(t, errors.Join(s.Set([]byte("k"), []byte("v")), s.SetUint64([]byte("n"), 7), s.Close()))
	s = open(t, Options{Path: s.path})
	v, err1 := s.Get([]byte("k"))
	n, err2 := s.GetUint64([]byte("n"))
	if string(v) != "v" || n != 7 || err1 != nil || err2 != nil {
		t.Errorf("after a restart: %q, %d, %v, %v", v, n, err1, err2)
	}
}

// TestCallersEntriesStay: Raft hands over entries that others read meanwhile.
func TestCallersEntriesStay(t *testing.T) {
	s := open(t, Options{})
	l := &raft.Log{Index: 1, Term: 1, Data: []byte("x")}
	mustStore(t, s, []*raft.Log{l})
	if l.Extensions != nil {
		t.Error("StoreLogs changed the caller's entry")
	}
	var got raft.Log
	if err := s.GetLog(1, &got); err != nil || len(got.Extensions) != extensionBytes {
		t.Errorf("stored entry has the extension %x, error %v", got.Extensions, err)
	}
}

func TestBytes(t *testing.T) {
	s := open(t, Options{Snapshot: upTo(60)})
	mustStore(t, s, entries(1, 100, 1, 1000))
	one := s.BytesSince(99)
	if one < 1000 || one > 1200 {
		t.Errorf("an entry of 1000 bytes counts %d", one)
	}
	check := func(s *Store, when string, since map[uint64]int64, trailing map[int64]uint64) {
		t.Helper()
		for index, n := range since {
			// A restart counts what the file holds, a few bytes off per entry.
			if got := float64(s.BytesSince(index)) / float64(one); got < float64(n)*0.95 || got > float64(n)*1.05 {
				t.Errorf("%s: %.2f entries' bytes since %d, want %d", when, got, index, n)
			}
		}
		for limit, n := range trailing {
			check.Equal(t, s.Trailing(limit), n, "%s: Trailing(%d)", when, limit)
		}
	}
	check(s, "filled", map[uint64]int64{0: 100, 50: 50, 100: 0, 200: 0},
		map[int64]uint64{0: 0, one - 1: 0, one: 1, 10 * one: 10, 1000 * one: 100})
	must.Do(t, s.DeleteRange(1, 60))
	check(s, "truncated", map[uint64]int64{0: 40, 60: 40, 61: 39}, map[int64]uint64{10 * one: 10, 1000 * one: 40})
	must.Do(t, s.DeleteRange(91, 100))
	check(s, "tail gone", map[uint64]int64{0: 30, 61: 29, 95: 0}, map[int64]uint64{1000 * one: 30})
	must.Do(t, s.Close())
	check(open(t, Options{Path: s.path}), "opened again", map[uint64]int64{0: 30, 61: 29}, map[int64]uint64{1000 * one: 30})
}

// TestDeleteInTheMiddle: a log with a gap is never made.
func TestDeleteInTheMiddle(t *testing.T) {
	s := open(t, Options{})
	mustStore(t, s, entries(1, 10, 1, 10))
	check.Fails(s.DeleteRange(4, 6))(t, "deleted the middle of the log")
	check.Equal(t, span(t, s), [2]uint64{1, 10}, "span of the log")
}

// TestAppendDuringTruncation truncates a long log under a writer and a reader.
func TestAppendDuringTruncation(t *testing.T) {
	const n = 4 * sliceEntries
	s := open(t, Options{CacheBytes: 1, Snapshot: upTo(n)})
	mustStore(t, s, entries(1, n, 1, 20))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var appended uint64
	wg.Go(func() {
		for i := uint64(n + 1); ; i++ {
			select {
			case <-stop:
				appended = i - 1
				return
			default:
				check.Err(t, s.StoreLog(entries(i, i, 1, 20)[0]), nil, "append during truncation")
			}
		}
	})
	wg.Go(func() {
		floor := uint64(0)
		for {
			select {
			case <-stop:
				return
			default:
			}
			first, _ := s.FirstIndex()
			if first < floor {
				t.Errorf("first index went from %d to %d", floor, first)
			}
			floor = first
			var l raft.Log
			if i := 1 + rand.Uint64N(n); i >= n-10 {
				check.Err(t, s.GetLog(i, &l), nil, "entry %d beyond the truncation", i)
			} else if err := s.GetLog(i, &l); err != nil && !errors.Is(err, raft.ErrLogNotFound) {
				t.Errorf("entry %d: %v", i, err)
			}
		}
	})
	check.Err(t, s.DeleteRange(1, n-11), nil, "delete range")
	close(stop)
	wg.Wait()
	check.Equal(t, span(t, s), [2]uint64{n - 10, appended}, "the span of the log")
}

// TestSlices: the bounds of one transaction hold for small and large entries.
func TestSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		n := uint64(rapid.IntRange(1, 3000).Draw(t, "n"))
		size := rapid.Int64Range(1, sliceBytes+1).Draw(t, "size")
		for i := uint64(1); i <= n; i++ {
			w.push(i, size)
		}
		within := func(lo, hi uint64) {
			count := hi - lo + 1
			if count < 1 || count > sliceEntries || count > 1 && int64(count)*size > sliceBytes {
				t.Fatalf("a slice of %d entries of %d bytes", count, size)
			}
		}
		lo := rapid.Uint64Range(1, n).Draw(t, "lo")
		end := w.sliceEnd(lo, n)
		within(lo, end)
		if end < n && end-lo+1 < sliceEntries && int64(end-lo+2)*size <= sliceBytes {
			t.Fatalf("slice from %d ends early at %d", lo, end)
		}
		within(w.sliceStart(lo, n), n)
	})
}
