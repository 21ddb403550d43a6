package logstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// disk lets transactions fail, and keeps the errors that a store on it reports.
type disk struct {
	before, after map[int]error // by number of the transaction: not made, or made all the same
	done          int           // transactions tried
	fatal         []error
}

// options are those of a store on the disk.
func (d *disk) options(snapshot func() uint64) Options {
	return Options{
		Snapshot: snapshot,
		Around: func(_ string, do func() error) error {
			d.done++
			if err := d.before[d.done]; err != nil {
				return err
			}
			return errors.Join(do(), d.after[d.done])
		},
		Fatal: func(err error) { d.fatal = append(d.fatal, err) },
	}
}

// fail lets the next transactions fail, after those that succeed. An error that is
// made says that the transaction is made all the same.
func (d *disk) fail(succeed int, err error, made bool) {
	d.before, d.after = map[int]error{}, map[int]error{}
	if made {
		d.after[d.done+succeed+1] = err
	} else {
		d.before[d.done+succeed+1] = err
	}
}

// checkEnded holds that the store has ended, and why, and that it takes no write.
func (d *disk) checkEnded(t testing.TB, s *Store, reason ...string) {
	t.Helper()
	must.Equal(t, len(d.fatal), 1, "Fatal was called with %v", d.fatal)
	for _, text := range append(reason, s.path, "start the node again") {
		check.Contains(t, d.fatal[0].Error(), text, "error")
	}
	first, last := s.Bounds()
	for what, err := range map[string]error{
		"stored entries":   s.StoreLogs(entries(last+1, last+1, 9, 10)),
		"stored a number":  s.SetUint64([]byte("number"), 9),
		"stored a value":   s.Set([]byte("value"), []byte("v")),
		"deleted the tail": s.DeleteRange(last, last),
		"deleted the head": s.DeleteRange(first, first),
	} {
		if err == nil && (last > 0 || !strings.HasPrefix(what, "deleted")) {
			t.Errorf("after %v it %s", d.fatal[0], what)
		}
	}
	check.Equal(t, len(d.fatal), 1, "Fatal was called with %v", d.fatal)
}

// TestWriteThatFailsAndIsThere lets every kind of write fail, once before it is in
// the file, after which the log goes on, and once when it is there, as after a sync
// of the meta page that failed.
func TestWriteThatFailsAndIsThere(t *testing.T) {
	for name, do := range map[string]func(s *Store) error{
		"append":      func(s *Store) error { return s.StoreLogs(entries(11, 12, 3, 20)) },
		"number":      func(s *Store) error { return s.SetUint64([]byte("number"), 1) },
		"value":       func(s *Store) error { return s.Set([]byte("value"), []byte("v")) },
		"delete head": func(s *Store) error { return s.DeleteRange(1, 5) },
		"delete tail": func(s *Store) error { return s.DeleteRange(8, 10) },
		"delete all":  func(s *Store) error { return s.DeleteRange(1, 10) },
	} {
		for _, made := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, made %v", name, made), func(t *testing.T) {
				var d disk
				s := open(t, d.options(upTo(5)))
				mustStore(t, s, entries(1, 10, 2, 20))
				d.fail(0, syscall.EIO, made)
				check.Err(t, do(s), syscall.EIO, "the error")
				check.Equal(t, span(t, s), [2]uint64{1, 10}, "span of the log that Raft sees")
				if made {
					d.checkEnded(t, s, "is in the file all the same")
					return
				}
				if err := do(s); err != nil || len(d.fatal) != 0 {
					t.Errorf("the next attempt: %v, fatal %v", err, d.fatal)
				}
			})
		}
	}
}

// TestTailWithoutItsSuccessors: Raft takes a tail to be there until other entries are
// stored in its place, so that the log ends when they cannot be.
func TestTailWithoutItsSuccessors(t *testing.T) {
	damaged := entries(5, 6, 21, 20)
	for _, l := range damaged {
		l.Extensions = extension(l)
		l.Extensions[extensionBytes-1] ^= 1
	}
	const many = 2*sliceEntries + 10
	for name, do := range map[string]func(d *disk, s *Store) error{
		"full disk": func(d *disk, s *Store) error {
			d.fail(3, syscall.ENOSPC, false) // the tail goes in three transactions
			return errors.Join(s.DeleteRange(5, many), s.StoreLogs(entries(5, 6, 21, 20)))
		},
		"damaged successors": func(_ *disk, s *Store) error {
			return errors.Join(s.DeleteRange(5, many), s.StoreLogs(damaged))
		},
		"a part of the tail": func(d *disk, s *Store) error {
			d.fail(1, syscall.ENOSPC, false)
			return s.DeleteRange(5, many)
		},
		"the whole log": func(d *disk, s *Store) error {
			d.fail(3, syscall.ENOSPC, false)
			return errors.Join(s.DeleteRange(1, many), s.StoreLogs(entries(1, 2, 21, 20)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var d disk
			s := open(t, d.options(nil))
			mustStore(t, s, entries(1, many, 20, 20))
			must.Do(t, s.fileUpTo(many))
			check.Fails(do(&d, s))(t, "no error")
			d.checkEnded(t, s, "deleted for newer ones")
			must.Do(t, s.Close())
			s = open(t, Options{Path: s.path})
			if first, last := s.Bounds(); first > 1 || last >= many {
				t.Errorf("after a start the log spans %d to %d", first, last)
			}
		})
	}
}

// TestSettle: Raft continues from the end of a log whose tail was deleted without
// successors. A write that fails then does not end the log.
func TestSettle(t *testing.T) {
	for name, tt := range map[string]struct{ from, index, term uint64 }{
		"a tail":        {5, 4, 20},
		"the whole log": {1, 0, 0},
		"nothing":       {9, 8, 20},
	} {
		t.Run(name, func(t *testing.T) {
			var d disk
			s := open(t, d.options(nil))
			mustStore(t, s, entries(1, 8, 20, 20))
			must.Do(t, s.DeleteRange(tt.from, 8))
			index, term, err := s.Settle()
			check.Err(t, err, nil, "settled")
			check.Equal(t, [2]uint64{index, term}, [2]uint64{tt.index, tt.term}, "the newest entry and its term")
			d.fail(0, syscall.ENOSPC, false)
			check.Err(t, s.StoreLogs(entries(index+1, index+2, 21, 20)), syscall.ENOSPC, "a write on a full disk")
			check.Equal(t, len(d.fatal), 0, "reasons to end")
			mustStore(t, s, entries(index+1, index+2, 21, 20))
		})
	}
}

// TestGapNeedsASnapshot: entries that do not follow are no reason to delete what no
// snapshot covers.
func TestGapNeedsASnapshot(t *testing.T) {
	for name, tt := range map[string]struct {
		held, covered, index uint64
		follows              bool
	}{
		"next":                        {4, 0, 5, true},
		"next to a snapshot":          {4, 9, 10, true},
		"below a snapshot":            {4, 20, 10, true},
		"no snapshot":                 {4, 0, 10, false},
		"snapshot too old":            {4, 8, 10, false},
		"replaced":                    {4, 0, 4, false},
		"first":                       {0, 0, 1, true},
		"first after a snapshot":      {0, 9, 10, true},
		"empty, and not the first":    {0, 0, 5, false},
		"empty, and the snapshot old": {0, 3, 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			var d disk
			s := open(t, d.options(upTo(tt.covered)))
			if tt.held > 0 {
				mustStore(t, s, entries(1, tt.held, 1, 20))
			}
			err := s.StoreLogs(entries(tt.index, tt.index, 2, 20))
			if tt.follows {
				if _, last := s.Bounds(); err != nil || last != tt.index || len(d.fatal) != 0 {
					t.Errorf("the log ends at %d: %v, %v", last, err, d.fatal)
				}
				return
			}
			if _, is := errors.AsType[*DivergedError](err); !is {
				t.Fatalf("the error is %v", err)
			}
			d.checkEnded(t, s, fmt.Sprintf("entry %d is to follow", tt.index))
			_, last := s.Bounds()
			check.Equal(t, last, tt.held, "the end of the log")
		})
	}
}

// TestHeadNeedsASnapshot: the old end of the log goes only as far as a snapshot covers it.
func TestHeadNeedsASnapshot(t *testing.T) {
	s := open(t, Options{Snapshot: upTo(5)})
	mustStore(t, s, entries(1, 10, 1, 20))
	check.Fails(s.DeleteRange(1, 6))(t, "deleted an entry that no snapshot covers")
	check.Err(t, s.DeleteRange(1, 5), nil, "delete range")
	check.Equal(t, span(t, s), [2]uint64{6, 10}, "span of the log")
}

// TestDamageFoundWhileWriting: what bbolt finds damaged in a write ends the log, like
// damage that is found in a read.
func TestDamageFoundWhileWriting(t *testing.T) {
	var d disk
	s := open(t, d.options(nil))
	mustStore(t, s, entries(1, 100, 1, 1000))
	must.Do(t, os.Truncate(s.path, 2*s.pageSize))
	mustStore(t, s, entries(101, 101, 1, 20))
	err := s.fileUpTo(101)
	if !errors.Is(err, ErrCorrupt) || len(d.fatal) != 1 {
		t.Errorf("the error is %v, fatal were %v", err, d.fatal)
	}
	check.Err(t, s.SetUint64([]byte("vote"), 1), ErrCorrupt, "a vote after it")
}

// TestFaults runs what Raft does to a log on a disk that lets transactions fail. The
// log ends, or Raft's idea of it and the disk agree; what was committed stays.
func TestFaults(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		m := raftModel{path: filepath.Join(dir, fmt.Sprint(n))}
		m.open(t)
		defer func() { _ = m.s.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"append":   func(t *rapid.T) { m.faults(t); m.store(t, m.last()+1) },
			"conflict": m.conflict,
			"settle":   m.settle,
			"compact":  m.compact,
			"install":  m.install,
			"vote": func(t *rapid.T) {
				m.faults(t)
				_ = m.s.SetUint64([]byte("vote"), m.term)
			},
			"commit": func(t *rapid.T) { m.commit = rapid.Uint64Range(m.commit, m.last()).Draw(t, "commit") },
			"":       m.check,
		})
	})
}

// raftModel is the log as Raft sees it.
type raftModel struct {
	path           string
	d              disk
	s              *Store
	first          uint64            // the oldest entry
	terms          map[uint64]uint64 // of all entries that were ever stored
	end            uint64            // the newest entry, 0 without one
	snapshot, term uint64
	commit         uint64
}

// last is the last index that Raft goes by.
func (m *raftModel) last() uint64 { return max(m.end, m.snapshot) }

func (m *raftModel) open(t *rapid.T) {
	m.d = disk{}
	opts := m.d.options(func() uint64 { return m.snapshot })
	opts.Path = m.path
	s := must.Get(Open(opts))(t)
	m.s = s
	m.first, m.end = s.Bounds()
	if m.terms == nil {
		m.terms = map[uint64]uint64{}
	}
	for i := m.first; i <= m.end && i > 0; i++ {
		var l raft.Log
		must.Do(t, s.GetLog(i, &l))
		if i <= m.commit && i > m.snapshot && l.Term != m.terms[i] {
			t.Fatalf("committed entry %d of term %d is now of term %d", i, m.terms[i], l.Term)
		}
		m.terms[i] = l.Term
	}
	if m.commit > m.last() {
		t.Fatalf("committed were entries up to %d, the log ends at %d, the snapshot at %d", m.commit, m.end, m.snapshot)
	}
}

// faults may let one of the next transactions fail.
func (m *raftModel) faults(t *rapid.T) {
	m.d.fail(rapid.IntRange(0, 3).Draw(t, "succeed"), syscall.EIO, rapid.Bool().Draw(t, "made"))
}

// store stores entries of a new term from lo on.
func (m *raftModel) store(t *rapid.T, lo uint64) {
	m.term++
	hi := lo + uint64(rapid.IntRange(0, 5).Draw(t, "n"))
	if m.s.StoreLogs(entries(lo, hi, m.term, 20)) != nil {
		return
	}
	if m.end == 0 || lo > m.end+1 {
		m.first = lo
	}
	for i := lo; i <= hi; i++ {
		m.terms[i] = m.term
	}
	m.end = hi
}

// conflict replaces entries that are not committed.
func (m *raftModel) conflict(t *rapid.T) {
	if lo := m.deleteTail(t); lo != 0 {
		m.store(t, lo)
	}
}

// settle deletes entries that are not committed, and does not replace them.
func (m *raftModel) settle(t *rapid.T) {
	if m.deleteTail(t) == 0 {
		return
	}
	index, term, err := m.s.Settle()
	if err != nil || index != 0 && term != m.terms[index] {
		t.Fatalf("the log is said to end at %d of term %d, %v", index, term, err)
	}
	m.end = index
}

// deleteTail deletes entries that are not committed. It returns the first one, 0 after an
// error or if all are committed.
func (m *raftModel) deleteTail(t *rapid.T) uint64 {
	floor := max(m.commit, m.snapshot) + 1
	if m.end < floor {
		return 0
	}
	m.faults(t)
	lo := rapid.Uint64Range(floor, m.end).Draw(t, "lo")
	if m.s.DeleteRange(lo, m.end) != nil {
		return 0
	}
	return lo
}

// compact takes a snapshot and deletes the entries below it, except for some.
func (m *raftModel) compact(t *rapid.T) {
	if m.end == 0 || m.commit < m.first || m.commit > m.end {
		return
	}
	m.faults(t)
	m.snapshot = max(m.snapshot, m.commit)
	hi := rapid.Uint64Range(m.first, min(m.snapshot, m.end)).Draw(t, "hi")
	if m.s.DeleteRange(m.first, hi) != nil {
		return
	}
	if m.first = hi + 1; hi == m.end {
		m.first, m.end = 0, 0
	}
}

// install installs a snapshot from another node, and stores what follows it.
func (m *raftModel) install(t *rapid.T) {
	m.faults(t)
	m.snapshot = m.last() + uint64(rapid.IntRange(1, 5).Draw(t, "ahead"))
	m.commit = m.snapshot
	m.store(t, m.snapshot+1)
}

// check compares the log with what Raft takes it to be, or starts it again when it
// has ended.
func (m *raftModel) check(t *rapid.T) {
	if len(m.d.fatal) > 0 {
		if m.s.StoreLogs(entries(m.last()+1, m.last()+1, m.term+1, 20)) == nil || m.s.SetUint64([]byte("vote"), 0) == nil {
			t.Fatalf("it goes on after %v", m.d.fatal)
		}
		must.Do(t, m.s.Close())
		m.open(t)
	}
	m.d.fail(0, nil, false)
	first, last := m.s.Bounds()
	// Entries that a snapshot covers may be gone, if the next ones could not be stored.
	if last > m.end || last < m.end && m.end > m.snapshot {
		t.Fatalf("the log ends at %d, Raft takes it to end at %d, the snapshot at %d", last, m.end, m.snapshot)
	}
	for i := max(first, m.snapshot+1); i <= last && i > 0; i++ {
		var l raft.Log
		if err := m.s.GetLog(i, &l); err != nil || l.Term != m.terms[i] {
			t.Fatalf("entry %d is of term %d, %v, and Raft takes it to be of term %d", i, l.Term, err, m.terms[i])
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "look") == 0 { // it takes as long as ten of the others
		check.Equal(t, must.Get(lastOnDisk(m.s, m.path+".copy"))(t), last, "the log on the disk ends at")
	}
	m.first, m.end = first, last
}
