package logstore

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// write makes a log file with the entries and returns its content.
func write(t *testing.T, path string, logs []*raft.Log) []byte {
	t.Helper()
	s := must.Get(Open(Options{Path: path}))(t)
	mustStore(t, s, logs)
	must.Do(t, errors.Join(s.SetUint64([]byte("CurrentTerm"), 3), s.Close()))
	return must.Get(os.ReadFile(path))(t)
}

// Errors that readAll must never return.
var (
	errNotReported  = errors.New("the damage was not reported")
	errWrongContent = errors.New("wrong content was returned")
)

// readAll opens the file and reads every entry; the first error ends it.
func readAll(path string, want []*raft.Log) (opened bool, err error) {
	var reported error
	s, err := Open(Options{Path: path, Fatal: func(err error) { reported = err }})
	if err != nil {
		return false, err
	}
	defer func() { _ = s.Close() }()
	for _, l := range want {
		var got raft.Log
		if err := s.GetLog(l.Index, &got); err != nil {
			if errors.Is(err, ErrCorrupt) && reported == nil {
				return true, errNotReported
			}
			return true, err
		}
		if got.Term != l.Term || got.Type != l.Type || !bytes.Equal(got.Data, l.Data) {
			return true, errWrongContent
		}
	}
	return true, nil
}

// TestBitFlip flips single bits all over entries; each is either found or harmless.
func TestBitFlip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "raft.db")
	logs := entries(1, 20, 3, 2000)
	data := write(t, path, logs)
	found := 0
	for _, l := range logs {
		at := bytes.LastIndex(data, l.Data)
		if at < 0 {
			t.Fatalf("entry %d is not in the file", l.Index)
		}
		for _, offset := range []int{at, at + len(l.Data)/2, at + len(l.Data) - 1} {
			data[offset] ^= 1 << (offset % 8)
			must.Do(t, os.WriteFile(path, data, 0o600))
			data[offset] ^= 1 << (offset % 8)
			_, err := readAll(path, logs)
			var c *CorruptError
			if !errors.As(err, &c) || c.Index != l.Index || c.Path != path {
				t.Fatalf("bit of entry %d flipped: error %v", l.Index, err)
			}
			check.Contains(t, err.Error(), "wipe its data directory", "the error")
			found++
		}
	}
	check.Equal(t, found, 60, "flips tried")
}

// flippedFile names the file that a child of TestFlipAnywhere reads.
const flippedFile = "LOGSTORE_TEST_FLIPPED_FILE"

func flippedEntries() []*raft.Log { return entries(1, 40, 3, 300) }

// TestFlipAnywhere flips bits in the whole file, structure included: the log is
// rejected, or the flip was harmless, but no entry is returned changed. Children
// read the files because bbolt panics on a goroutine of its own at some damage.
func TestFlipAnywhere(t *testing.T) {
	t.Parallel()
	if path := os.Getenv(flippedFile); path != "" {
		must.Get(readAll(path, flippedEntries()))(t)
		return
	}
	path := filepath.Join(t.TempDir(), "raft.db")
	data := write(t, path, flippedEntries())
	used := bytes.TrimRight(data, "\x00") // bbolt makes the file larger than it needs
	step := len(used)/40 | 1
	if testing.Short() {
		step *= 10
	}
	detected := 0
	for offset := 0; offset < len(used); offset += step {
		damaged := bytes.Clone(used)
		damaged[offset] ^= 0x10
		must.Do(t, errors.Join(os.WriteFile(path, damaged, 0o600), os.Truncate(path, int64(len(data)))))
		child := exec.Command(os.Args[0], "-test.run=^TestFlipAnywhere$") //nolint:gosec // this test itself
		child.Env = append(os.Environ(), flippedFile+"="+path)
		out, err := child.CombinedOutput()
		check.Lacks(t, string(out), errWrongContent.Error(), "bit at %d flipped: %s", offset, out)
		check.Lacks(t, string(out), errNotReported.Error(), "bit at %d flipped: %s", offset, out)
		if err != nil {
			detected++
		}
	}
	if detected == 0 {
		t.Error("no flip was detected")
	}
}

// TestTornFile cuts the file off: it is rejected, never taken for an empty log.
func TestTornFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	logs := entries(1, 200, 3, 3000)
	data := write(t, path, logs)
	used := bytes.LastIndex(data, logs[199].Data) + 3000
	for _, size := range []int{1, 100, 4096, 8192, 12288, used / 2, used - 4096} {
		must.Do(t, os.WriteFile(path, data[:size], 0o600))
		check.Err(t, check.Last(readAll(path, logs)), ErrCorrupt, "cut to %d of %d bytes: error", size, len(data))
	}
}

// TestMissingFile: a log that was made before is not made anew, neither for a file
// that is gone nor for one that was cut to zero. One that was never made is.
func TestMissingFile(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"removed":     os.Remove,
		"cut to zero": func(path string) error { return os.Truncate(path, 0) },
	} {
		path := filepath.Join(t.TempDir(), "raft.db")
		write(t, path, entries(1, 20, 3, 100))
		must.Do(t, lose(path))
		check.Err(t, check.Last(Open(Options{Path: path, Existing: true})), ErrMissing, "%s: opened", name)
		// An unfinished file of an earlier attempt does not matter.
		must.Do(t, os.WriteFile(path+newSuffix, []byte("half a file"), 0o600))
		s := open(t, Options{Path: path})
		check.Equal(t, span(t, s), [2]uint64{}, "%s: span of a new log", name)
		check.Err(t, check.Last(os.Stat(path+newSuffix)), os.ErrNotExist, "%s: %s was left", name, newSuffix)
	}
}

// TestID: a log has no id before SetID, and keeps it afterwards.
func TestID(t *testing.T) {
	s := open(t, Options{})
	check.Equal(t, must.Get(s.ID())(t), "", "a new log has the id")
	must.Do(t, errors.Join(s.SetID("some id"), s.Close()))
	s = open(t, Options{Path: s.path, Existing: true})
	check.Equal(t, must.Get(s.ID())(t), "some id", "the id")
}

// TestReceivedDamage: an entry that was damaged on its way is rejected.
func TestReceivedDamage(t *testing.T) {
	s := open(t, Options{Fatal: func(err error) { t.Errorf("the node would end: %v", err) }})
	sender := open(t, Options{})
	mustStore(t, sender, entries(1, 2, 1, 100))
	for name, f := range map[string]func(l *raft.Log){
		"data":    func(l *raft.Log) { l.Data = append([]byte{0xff}, l.Data[1:]...) },
		"term":    func(l *raft.Log) { l.Term++ },
		"type":    func(l *raft.Log) { l.Type = raft.LogNoop },
		"sum":     func(l *raft.Log) { l.Extensions = append(bytes.Clone(l.Extensions[:4]), l.Extensions[4]^1) },
		"version": func(l *raft.Log) { l.Extensions = append([]byte{9}, l.Extensions[1:]...) },
	} {
		var l raft.Log
		must.Do(t, sender.GetLog(1, &l))
		f(&l)
		check.Err(t, s.StoreLogs([]*raft.Log{&l}), ErrCorrupt, "changed %s", name)
	}
	check.Equal(t, span(t, s), [2]uint64{}, "rejected entries were stored")
	var l raft.Log
	must.Do(t, sender.GetLog(1, &l))
	mustStore(t, s, []*raft.Log{&l})
}

// TestStopDuringTruncation stops after each slice, at either end of the log.
func TestStopDuringTruncation(t *testing.T) {
	const n = 3*sliceEntries + 10
	logs := entries(1, n, 1, 20)
	for _, tt := range []struct {
		name string
		cut  func(s *Store) error // one slice
		want [2]uint64
	}{
		{"old end", func(s *Store) error { return s.deleteSlice(1, s.win.sliceEnd(1, n-5), nil) }, [2]uint64{sliceEntries + 1, n}},
		{"tail", func(s *Store) error { return s.deleteSlice(s.win.sliceStart(5, n), n, nil) }, [2]uint64{1, n - sliceEntries}},
	} {
		s := open(t, Options{})
		mustStore(t, s, logs)
		must.Do(t, errors.Join(s.fileUpTo(n), tt.cut(s), s.Close()))
		s = open(t, Options{Path: s.path})
		check.Equal(t, span(t, s), tt.want, "%s: span of the log", tt.name)
	}
}

// TestEntriesThatDoNotFollow: a file with a gap, or with terms that fall, is not
// what any order of writes leaves.
func TestEntriesThatDoNotFollow(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil  func(s *Store) error
		reason string
	}{
		"gap":           {func(s *Store) error { return s.bolt.DeleteRange(11, 20) }, "entry 21 stands after 10"},
		"falling terms": {func(s *Store) error { return s.bolt.StoreLogs(entries(25, 30, 2, 20)) }, "entry 25 is of term 2, the one before it of term 3"},
	} {
		s := open(t, Options{Snapshot: upTo(20)})
		mustStore(t, s, entries(1, 30, 3, 20))
		must.Do(t, errors.Join(s.fileUpTo(30), tt.spoil(s), s.Close()))
		err := check.Last(Open(Options{Path: s.path, Snapshot: upTo(20)}))
		check.Err(t, err, ErrCorrupt, "%s: opened", name)
		check.ErrText(t, err, tt.reason, "%s: opened", name)
	}
}

func TestAlign(t *testing.T) {
	for _, tt := range []struct {
		name        string
		lo, hi      uint64
		index, term uint64
		want        [2]uint64
		fails       bool
	}{
		{"no log", 1, 0, 50, 2, [2]uint64{}, false},
		{"no snapshot", 1, 30, 0, 0, [2]uint64{1, 30}, false},
		{"own snapshot", 1, 30, 20, 2, [2]uint64{1, 30}, false},
		{"own snapshot, log truncated", 21, 30, 20, 2, [2]uint64{21, 30}, false},
		{"log before the snapshot", 1, 30, 50, 2, [2]uint64{}, false},
		{"never committed", 1, 30, 20, 3, [2]uint64{}, false},
		{"lost entries", 22, 30, 20, 2, [2]uint64{22, 30}, true},
		{"lost entries, no snapshot", 2, 30, 0, 0, [2]uint64{2, 30}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, Options{Snapshot: upTo(tt.lo - 1)})
			if tt.hi > 0 {
				mustStore(t, s, entries(tt.lo, tt.hi, 2, 20))
			}
			err := s.Align(tt.index, tt.term)
			if errors.Is(err, ErrCorrupt) != tt.fails || err != nil && !tt.fails {
				t.Errorf("error %v, want failure %v", err, tt.fails)
			}
			check.Equal(t, span(t, s), tt.want, "span of the log")
		})
	}
}

// TestReadAfterClose: a read that comes late finds a closed log, and no damage.
func TestReadAfterClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	write(t, path, entries(1, 10, 3, 100))
	s := must.Get(Open(Options{Path: path, Fatal: func(err error) { t.Errorf("reported: %v", err) }}))(t)
	must.Do(t, s.Close())
	var l raft.Log
	if err := s.GetLog(1, &l); err == nil || errors.Is(err, ErrCorrupt) {
		t.Errorf("reading a closed log: %v", err)
	}
}
