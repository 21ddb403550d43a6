package node

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/commons-cluster/commons/node/logstore"
)

// TestVoteIsNeverAnothers stops a node at every moment of a vote, which Raft stores in
// two steps. What it then finds is its old vote or its new one, or none: not the old
// candidate for the new term, whom Raft would give its vote without a look at its log.
func TestVoteIsNeverAnothers(t *testing.T) {
	const before, after = "before", "after"
	path := filepath.Join(t.TempDir(), "raft.db")
	stop := errors.New("stopped")
	for writes := range 4 {
		left := 1 << 20
		log, err := logstore.Open(logstore.Options{Path: path, Around: func(_ string, do func() error) error {
			if left--; left < 0 {
				return stop
			}
			return do()
		}})
		if err != nil {
			t.Fatal(err)
		}
		raftLog := raftLog{log, &Node{logger: quiet()}}
		vote := func(term uint64, candidate string) error {
			if err := raftLog.SetUint64(keyLastVoteTerm, term); err != nil {
				return err
			}
			return raftLog.Set(keyLastVoteCand, []byte(candidate))
		}
		if err := vote(3, before); err != nil {
			t.Fatal(err)
		}
		left = writes
		if err := vote(5, after); errors.Is(err, stop) != (writes < 3) {
			t.Errorf("a vote of %d writes: %v", writes, err)
		}
		term, err1 := log.GetUint64(keyLastVoteTerm)
		candidate, err2 := log.Get(keyLastVoteCand)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		// Raft takes nil for no vote.
		if whole := term == 3 && string(candidate) == before || term == 5 && string(candidate) == after; !whole && candidate != nil {
			t.Errorf("stopped after %d writes, it has voted for %q in term %d", writes, candidate, term)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStoredTermIsNotStoredAgain: Raft stores the term that it reads at its start, 0 when
// there is none, and would take the start down with it if that failed.
func TestStoredTermIsNotStoredAgain(t *testing.T) {
	writes := 0
	log, err := logstore.Open(logstore.Options{Path: filepath.Join(t.TempDir(), "raft.db"), Around: func(_ string, do func() error) error {
		writes++
		return do()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	raftLog := raftLog{log, &Node{logger: quiet()}}
	for _, step := range []struct {
		term   uint64
		writes int
	}{{0, 0}, {3, 1}, {3, 1}, {0, 2}} {
		if err := raftLog.SetUint64(keyCurrentTerm, step.term); err != nil || writes != step.writes {
			t.Errorf("term %d: %d writes, want %d; %v", step.term, writes, step.writes, err)
		}
		if term, err := log.GetUint64(keyCurrentTerm); step.writes > 0 && (term != step.term || err != nil) {
			t.Errorf("the term is %d, %v, want %d", term, err, step.term)
		}
	}
}
