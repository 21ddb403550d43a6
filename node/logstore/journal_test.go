package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/simdisk"
)

// killed returns the files of a log in which each group of entries was stored at once, as they
// are after kill -9: all entries are in the journal. Terms are those of the groups.
func killed(t *testing.T, groups int) (path string) {
	t.Helper()
	s := open(t, Options{JournalBytes: 64 << 10})
	for g := range uint64(groups) {
		mustStore(t, s, entries(3*g+1, 3*g+3, g+1, 300))
	}
	path = filepath.Join(t.TempDir(), "raft.db")
	must.Do(t, copyFiles(s.path, path))
	return path
}

// copyFiles copies the files of a log as they are at one moment, which a kill would leave: it reads
// them, while entries may be filed, until two readings agree.
func copyFiles(from, to string) error {
	var content, before [3]string
	var errs [6]error
	for again := true; again; again = content != before {
		before = content
		for i, name := range Files(from) {
			data, err := os.ReadFile(name)
			content[i], errs[i] = string(data), err
		}
	}
	for i, name := range Files(to) {
		errs[3+i] = os.WriteFile(name, []byte(content[i]), fileMode)
	}
	return errors.Join(errs[:]...)
}

// TestJournalAfterKill: what is in the journal alone is in the log after a start, and what was filed
// has all its fields.
func TestJournalAfterKill(t *testing.T) {
	s := open(t, Options{JournalBytes: 64 << 10})
	logs := entries(1, 3, 7, 30)
	logs[1].Type, logs[1].Extensions = raft.LogConfiguration, nil
	logs[2].AppendedAt, logs[2].Data = time.Unix(1234, 5678), []byte{}
	mustStore(t, s, logs)
	first, last := must.Get(s.bolt.FirstIndex())(t), must.Get(s.bolt.LastIndex())(t)
	must.Equal(t, [2]uint64{first, last}, [2]uint64{}, "what bbolt has")
	path := filepath.Join(t.TempDir(), "raft.db")
	must.Do(t, copyFiles(s.path, path))
	again := open(t, Options{Path: path, Existing: true})
	check.Equal(t, span(t, again), [2]uint64{1, 3}, "after kill -9 the log")
	must.Do(t, again.Close())
	again = open(t, Options{Path: path, Existing: true})
	for i, want := range logs {
		var before, after raft.Log
		must.Do(t, errors.Join(s.GetLog(want.Index, &before), again.read(want.Index, &after)))
		if !before.AppendedAt.Equal(after.AppendedAt) || !bytes.Equal(before.Data, after.Data) || !bytes.Equal(before.Extensions, after.Extensions) ||
			before.Term != after.Term || before.Type != after.Type || !after.AppendedAt.Equal(want.AppendedAt) {
			t.Errorf("entry %d was %+v, and is %+v", i+1, before, after)
		}
	}
}

// TestDamagedJournal damages each frame in turn at many places: a broken last frame ends the
// journal, since its append was never acknowledged, and a broken one before others is damage.
func TestDamagedJournal(t *testing.T) {
	const groups = 4
	path := killed(t, groups)
	data := must.Get(os.ReadFile(journalPath(path, 0)))(t)
	magic := data[:sequenceAt]
	var starts []int
	for at := 0; ; {
		next := bytes.Index(data[at:], magic)
		if next < 0 {
			break
		}
		starts = append(starts, at+next)
		at += next + 1
	}
	must.Equal(t, len(starts), groups, "frames")
	end := len(bytes.TrimRight(data, "\x00"))
	for i, start := range starts {
		stop := append(slices.Clone(starts), end)[i+1]
		for at := start; at < stop; at += 1 + (stop-start)/9 {
			for name, damage := range map[string]func([]byte){
				"a bit":      func(b []byte) { b[at] ^= 4 },
				"the rest":   func(b []byte) { clear(b[at:stop]) },
				"one sector": func(b []byte) { clear(b[at:min(at+100, stop)]) },
			} {
				damaged := bytes.Clone(data)
				damage(damaged)
				if bytes.Equal(damaged, data) {
					continue
				}
				copied := filepath.Join(t.TempDir(), "raft.db")
				must.Do(t, errors.Join(copyFiles(path, copied), os.WriteFile(journalPath(copied, 0), damaged, fileMode)))
				s, err := Open(Options{Path: copied, Existing: true, JournalBytes: 64 << 10})
				if i < groups-1 {
					check.Err(t, err, ErrCorrupt, "%s at %d of frame %d: opened", name, at-start, i)
					continue
				}
				check.Err(t, err, nil, "%s at %d of the last frame: opened", name, at-start)
				check.Equal(t, span(t, s), [2]uint64{1, 3 * (groups - 1)}, "%s at %d of the last frame: the log", name, at-start)
				must.Do(t, s.Close())
			}
		}
	}
}

// TestStartSecuresTheJournal: what a start finds in the kernel's memory alone is on the disk before
// it counts as stored, also after a sync that failed.
func TestStartSecuresTheJournal(t *testing.T) {
	path := killed(t, 3)
	file := journalPath(path, 0)
	found := must.Get(os.ReadFile(file))(t)
	newest := bytes.LastIndex(found, found[:sequenceAt])
	lost := append(bytes.Clone(found[:newest]), make([]byte, len(found)-newest)...)
	secured := false
	s := open(t, Options{Path: path, Existing: true, Around: func(what string, do func() error) error {
		if what != Storing || secured {
			return do()
		}
		secured = true
		must.Do(t, os.WriteFile(file, lost, fileMode)) // what the disk has
		return do()
	}})
	check.Equal(t, secured, true, "the start has stored something")
	check.Equal(t, span(t, s), [2]uint64{1, 9}, "the log")
	check.Equal(t, bytes.Equal(must.Get(os.ReadFile(file))(t), found), true, "the newest frame is there again")
}

// TestClearingFails: appends after a purge that could not clear the journal are found again.
func TestClearingFails(t *testing.T) {
	for failed := 1; failed <= 2; failed++ {
		left := math.MaxInt // clearings until one fails
		s := open(t, Options{JournalBytes: 64 << 10, Snapshot: upTo(2), Around: func(what string, do func() error) error {
			if what != Clearing {
				return do()
			}
			if left--; left != 0 {
				return do()
			}
			return errors.Join(do(), syscall.EIO)
		}})
		mustStore(t, s, entries(1, 5, 1, 300))
		must.Do(t, s.DeleteRange(1, 2))
		left = failed
		check.Err(t, s.Rewrite(2), syscall.EIO, "clearing %d fails: the purge", failed)
		mustStore(t, s, entries(6, 7, 1, 300))
		check.Equal(t, onDisk(t, s), 7, "clearing %d failed: the log on the disk ends at", failed)
		must.Do(t, s.Rewrite(2))
		check.Equal(t, onDisk(t, s), 7, "the log on the disk ends at")
	}
}

// TestJournalOfItsLog: a log takes no frame of another one's journal, and misses its own, or a part.
func TestJournalOfItsLog(t *testing.T) {
	path := killed(t, 2)
	must.Do(t, os.Remove(path))
	s := open(t, Options{Path: path})
	check.Equal(t, span(t, s), [2]uint64{}, "a new log beside an old journal")
	mustStore(t, s, entries(1, 2, 1, 20))
	must.Do(t, s.Close())
	for i := range 2 {
		copied := filepath.Join(t.TempDir(), "raft.db")
		must.Do(t, errors.Join(copyFiles(s.path, copied), os.Truncate(journalPath(copied, i), smallJournal-1)))
		check.Err(t, check.Last(Open(Options{Path: copied, Existing: true, JournalBytes: smallJournal})), ErrCorrupt, "opened with a part of file %d", i)
		must.Do(t, os.Remove(journalPath(copied, i)))
		check.Err(t, check.Last(Open(Options{Path: copied, Existing: true, JournalBytes: smallJournal})), ErrCorrupt, "opened without file %d", i)
	}
}

// TestLargeAppend: entries that no file of the journal can take are stored, and what comes before
// and after them, too.
func TestLargeAppend(t *testing.T) {
	s := open(t, Options{})
	mustStore(t, s, entries(1, 2, 1, 20))
	mustQueue(t, s, entries(3, 4, 1, 200*smallJournal))
	must.Do(t, s.WaitWritten(4))
	mustStore(t, s, entries(5, 5, 1, 100*smallJournal))
	mustStore(t, s, entries(6, 6, 1, 20))
	check.Equal(t, onDisk(t, s), 6, "the log on the disk ends at")
	must.Do(t, s.Close())
	check.Equal(t, span(t, open(t, Options{Path: s.path})), [2]uint64{1, 6}, "after a start the log")
}

// TestFilesThatGrow: the journal takes many times its size, its files grow, and each is filed
// and cleared before it is used again. A file that finds no space to grow takes none from others.
func TestFilesThatGrow(t *testing.T) {
	s := open(t, Options{})
	const n = 3000
	full := func(step func() error) error { return errors.Join(step(), syscall.ENOSPC) }
	check.Err(t, s.journal.grow(1, 9*smallJournal, full), syscall.ENOSPC, "growing on a full disk")
	check.Equal(t, must.Get(os.Stat(journalPath(s.path, 1)))(t).Size(), smallJournal, "bytes of the file")
	for i := uint64(1); i <= n; i++ {
		mustStore(t, s, entries(i, i, 1, 300))
	}
	check.Equal(t, onDisk(t, s), n, "the log on the disk ends at")
	must.Do(t, s.Close())
	for i := range 2 {
		size := must.Get(os.Stat(journalPath(s.path, i)))(t).Size()
		if size < 16*smallJournal || size > journalGrowth*smallJournal {
			t.Errorf("file %d has %d bytes", i, size)
		}
	}
}

// TestFiledLater: on a disk without space for bbolt the log takes entries until the journal is
// full, then says why it does not, and goes on once there is space.
func TestFiledLater(t *testing.T) {
	var full atomic.Bool
	s := open(t, Options{
		Fatal: func(err error) { t.Errorf("the node would end: %v", err) },
		Around: func(what string, do func() error) error {
			if what == Filing && full.Load() {
				return syscall.ENOSPC
			}
			return do()
		},
	})
	full.Store(true)
	next, err := uint64(1), error(nil)
	for ; err == nil && next < 1000; next++ {
		err = s.StoreLogs(entries(next, next, 1, 300))
	}
	check.Err(t, err, syscall.ENOSPC, "the log takes %d entries", next)
	next--
	if next < 4 {
		t.Errorf("the journal took %d entries", next)
	}
	check.Equal(t, onDisk(t, s), next-1, "the log on the disk ends at")
	queued, err := s.Queue(entries(next, next, 1, 20), nil)
	check.Equal(t, queued, false, "queued on a full disk: %v", err)
	full.Store(false)
	mustStore(t, s, entries(next, next, 1, 300))
	check.Equal(t, onDisk(t, s), next, "the log on the disk ends at")
}

// cutDisk is a disk whose power goes off in one of the next writes.
type cutDisk struct {
	mu    sync.Mutex
	path  string
	rng   *rand.Rand
	after int // writes that are still made; negative means that power stays on
	left  [][]byte
}

func (d *cutDisk) around(what string, do func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left != nil {
		return errors.New("the power is off")
	}
	if d.after--; d.after != -1 {
		return do()
	}
	before, err := contents(d.path)
	if err != nil {
		return err
	}
	d.left = before
	if d.rng.IntN(4) == 0 { // before it
		return errors.New("the power goes off")
	}
	err = do()
	if d.left, _ = contents(d.path); what != Rewriting && d.rng.IntN(3) > 0 {
		d.left = simdisk.TornLog(before, d.left, d.rng)
	}
	return errors.Join(err, errors.New("the power goes off"))
}

func contents(log string) (all [][]byte, err error) {
	for _, name := range Files(log) {
		data, unread := os.ReadFile(name)
		if errors.Is(unread, fs.ErrNotExist) { // it is still to be made
			data, unread = nil, nil
		}
		all, err = append(all, data), errors.Join(err, unread)
	}
	return all, err
}

// TestPowerCut turns the power off in any write of the log, of the journal and of bbolt behind it, also
// while it opens, and starts it from what is left: no entry is lost that was stored, and none returns that was
// replaced.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		m := cutModel{dir: filepath.Join(dir, fmt.Sprint(n)), rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), stored: map[uint64]uint64{}, tried: map[uint64][]uint64{}}
		must.Do(t, os.Mkdir(m.dir, 0o700))
		m.start(t)
		defer func() { _ = m.s.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"append":   func(t *rapid.T) { m.store(t, m.end(), false) },
			"queue":    func(t *rapid.T) { m.store(t, m.end(), true) },
			"conflict": m.conflict,
			"compact":  m.compact,
			"rewrite":  func(*rapid.T) { _ = m.s.Rewrite(m.covered) },
			"vote": func(*rapid.T) {
				if m.s.SetUint64([]byte("vote"), m.term) == nil {
					m.vote = m.term
				}
			},
			"cut": func(t *rapid.T) {
				m.disk.mu.Lock()
				m.disk.after = rapid.IntRange(0, 12).Draw(t, "writes")
				m.disk.mu.Unlock()
			},
			"": m.check,
		})
	})
}

// cutModel is a log on a disk that loses power.
type cutModel struct {
	dir           string
	starts        int
	rng           *rand.Rand
	disk          *cutDisk
	s             *Store
	covered, term uint64
	vote          uint64
	stored        map[uint64]uint64   // the terms of entries that count as stored
	tried         map[uint64][]uint64 // the terms that each entry ever had
}

func (m *cutModel) path() string { return filepath.Join(m.dir, fmt.Sprint(m.starts)) }

// start opens the log, again if the power goes off meanwhile.
func (m *cutModel) start(t *rapid.T) {
	for {
		m.disk = &cutDisk{path: m.path(), rng: m.rng, after: rapid.IntRange(-1, 4).Draw(t, "writes from the start on")}
		var err error
		m.s, err = Open(Options{
			Path: m.path(), Existing: m.starts > 0, JournalBytes: smallJournal, Snapshot: func() uint64 { return m.covered }, Around: m.disk.around,
		})
		if err == nil {
			return
		}
		must.Equal(t, m.disk.left != nil, true, "the power went off before %v", err)
		m.move(t)
	}
}

// move has the next start open what is left on the disk.
func (m *cutModel) move(t *rapid.T) {
	m.starts++
	for i, name := range Files(m.path()) {
		if m.disk.left[i] != nil {
			must.Do(t, os.WriteFile(name, m.disk.left[i], fileMode))
		}
	}
}

// end returns the index that the next entry has.
func (m *cutModel) end() uint64 {
	_, last := m.s.Bounds()
	return max(last, m.covered) + 1
}

func (m *cutModel) store(t *rapid.T, lo uint64, queue bool) {
	m.term++
	hi := lo + uint64(rapid.IntRange(0, 3).Draw(t, "n"))
	logs := entries(lo, hi, m.term, rapid.SampledFrom([]int{20, 300, 900, 9000}).Draw(t, "size"))
	for i := lo; i <= hi; i++ {
		m.tried[i] = append(m.tried[i], m.term)
	}
	queued := false
	if queue {
		queued, _ = m.s.Queue(logs, nil)
	}
	if queued && m.s.WaitWritten(hi) != nil || !queued && m.s.StoreLogs(logs) != nil {
		return
	}
	for i := lo; i <= hi; i++ {
		m.stored[i] = m.term
	}
}

func (m *cutModel) conflict(t *rapid.T) {
	_, last := m.s.Bounds()
	if last <= m.covered {
		return
	}
	lo := rapid.Uint64Range(m.covered+1, last).Draw(t, "lo")
	for i := lo; i <= last; i++ {
		delete(m.stored, i)
	}
	if m.s.DeleteRange(lo, last) != nil {
		return
	}
	for i := lo; i <= last; i++ {
		m.tried[i] = nil // they do not come back
	}
	m.store(t, lo, false)
}

func (m *cutModel) compact(t *rapid.T) {
	first, last := m.s.Bounds()
	if last == 0 {
		return
	}
	hi := rapid.Uint64Range(first, last).Draw(t, "hi")
	m.covered = max(m.covered, hi)
	_ = m.s.DeleteRange(first, hi)
}

// check starts the log again when the power went off, and compares it with the model.
func (m *cutModel) check(t *rapid.T) {
	m.disk.mu.Lock()
	left := m.disk.left
	m.disk.mu.Unlock()
	if left != nil {
		_ = m.s.Close()
		m.move(t)
		m.start(t)
	}
	first, last := m.s.Bounds()
	for i, term := range m.stored {
		var l raft.Log
		if err := m.s.GetLog(i, &l); i > m.covered && (err != nil || l.Term != term) {
			t.Fatalf("entry %d of term %d was stored, and is of term %d: %v; the log has %d to %d", i, term, l.Term, err, first, last)
		}
	}
	for i := max(first, m.covered+1); i <= last; i++ {
		var l raft.Log
		if err := m.s.GetLog(i, &l); err != nil || !slices.Contains(m.tried[i], l.Term) {
			t.Fatalf("entry %d is of term %d, and was of %d: %v", i, l.Term, m.tried[i], err)
		}
	}
	if vote, err := m.s.GetUint64([]byte("vote")); m.vote > 0 && (err != nil || vote < m.vote) {
		t.Fatalf("the vote %d is %d: %v", m.vote, vote, err)
	}
}
