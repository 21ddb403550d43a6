package logstore

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

const doomed = "Zyzzyvaquark"

// cutStore returns a store whose entries 1 to 40 have the word and were deleted, and
// which has a vote and an id.
func cutStore(t *testing.T) *Store {
	t.Helper()
	s := open(t, Options{Snapshot: upTo(40), JournalBytes: DefaultJournalBytes})
	logs := entries(1, 60, 3, 900)
	for _, l := range logs[:40] {
		l.Data = append([]byte(doomed), l.Data...)
	}
	mustStore(t, s, logs)
	for key, value := range map[string]string{"LastVoteCand": "n2", "CurrentTerm": "\x00\x00\x00\x00\x00\x00\x00\x03"} {
		must.Do(t, s.Set([]byte(key), []byte(value)))
	}
	must.Do(t, s.SetID("the log"))
	must.Do(t, s.DeleteRange(1, 40))
	for _, file := range Files(s.path)[:2] {
		if !holds(t, file) {
			t.Fatalf("%s does not hold what was deleted: the test shows nothing", filepath.Base(file))
		}
	}
	return s
}

func holds(t *testing.T, path string) bool {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return bytes.Contains(data, []byte(doomed))
}

// mustBeWhole holds that a store has what cutStore left in it.
func mustBeWhole(t *testing.T, s *Store) {
	t.Helper()
	check.Equal(t, span(t, s), [2]uint64{41, 60}, "span of the log")
	want := entries(41, 60, 3, 900)
	for i := range want {
		var l raft.Log
		if err := s.GetLog(want[i].Index, &l); err != nil || !bytes.Equal(l.Data, want[i].Data) || l.Term != 3 {
			t.Errorf("entry %d: %v, term %d", want[i].Index, err, l.Term)
		}
	}
	id, err := s.ID()
	vote, errVote := s.Get([]byte("LastVoteCand"))
	term, errTerm := s.GetUint64([]byte("CurrentTerm"))
	if id != "the log" || string(vote) != "n2" || term != 3 || err != nil || errVote != nil || errTerm != nil {
		t.Errorf("id %q, vote %q, term %d; %v, %v, %v", id, vote, term, err, errVote, errTerm)
	}
}

// TestRewrite: no deleted entry is in the file, all others are, and the log goes on in the
// new file.
func TestRewrite(t *testing.T) {
	s := cutStore(t)
	check.Fails(s.Rewrite(50))(t, "entries that are there count as erased")
	// Bytes that a start took for cleared can come back with the power.
	returned := must.Get(os.OpenFile(journalPath(s.path, 1), os.O_WRONLY, 0))(t)
	must.Get(returned.WriteAt([]byte(doomed), 1000))(t)
	must.Do(t, returned.Close())
	must.Do(t, s.Rewrite(40))
	mustBeWhole(t, s)
	for _, file := range Files(s.path) {
		check.Equal(t, holds(t, file), false, "%s still holds what was deleted", filepath.Base(file))
	}
	check.Equal(t, must.Get(s.Erased())(t), 40, "erased up to")
	mustStore(t, s, entries(61, 62, 3, 10))
	must.Do(t, s.Close())
	again := must.Get(Open(Options{Path: s.path, Existing: true, Snapshot: upTo(40)}))(t)
	defer func() { _ = again.Close() }()
	check.Equal(t, span(t, again), [2]uint64{41, 62}, "after a start the log")
}

// TestCrashWhileRewriting: whatever step a crash comes after, the next start finds the
// same entries, votes and identity, and can rewrite the log.
func TestCrashWhileRewriting(t *testing.T) {
	for _, at := range []string{stepCopied, stepRenamed} {
		t.Run(at, func(t *testing.T) {
			s := cutStore(t)
			dir := t.TempDir()
			s.failpoint = func(step string) {
				if step != at {
					return
				}
				// Everything is through to the disk here: a crash leaves it like this.
				check.Err(t, os.CopyFS(dir, os.DirFS(filepath.Dir(s.path))), nil, "copy")
			}
			must.Do(t, s.Rewrite(40))
			left := must.Get(Open(Options{Path: filepath.Join(dir, filepath.Base(s.path)), Existing: true, Snapshot: upTo(40)}))(t)
			defer func() { _ = left.Close() }()
			mustBeWhole(t, left)
			names := must.Get(filepath.Glob(filepath.Join(dir, "*"+newSuffix)))(t)
			check.Empty(t, names, "left")
			if err := left.Rewrite(40); err != nil || holds(t, left.path) {
				t.Errorf("after the crash: %v, or the file holds what was deleted", err)
			}
		})
	}
}

// TestRewriteFails: the log goes on as it was.
func TestRewriteFails(t *testing.T) {
	s := cutStore(t)
	blocked := s.path + newSuffix
	must.Do(t, os.MkdirAll(filepath.Join(blocked, "full"), 0o700))
	check.Fails(s.Rewrite(40))(t, "no error")
	mustBeWhole(t, s)
	mustStore(t, s, entries(61, 61, 3, 10))
}

// TestRewriteBesideOthers: reads and writes wait, and all succeed.
func TestRewriteBesideOthers(t *testing.T) {
	s := cutStore(t)
	stop := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for i := uint64(61); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.StoreLogs(entries(i, i, 3, 50)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			var l raft.Log
			if err := s.read(45, &l); err != nil {
				t.Error(err)
				return
			}
			if _, err := s.ID(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 20 {
		check.Err(t, s.Rewrite(40), nil, "rewrite")
	}
	close(stop)
	others.Wait()
	_, last := s.Bounds()
	must.Do(t, s.Close())
	again := must.Get(Open(Options{Path: s.path, Existing: true}))(t)
	defer func() { _ = again.Close() }()
	check.Equal(t, span(t, again), [2]uint64{41, last}, "the span of the log")
}
