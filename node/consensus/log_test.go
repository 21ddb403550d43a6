package consensus

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/logstore"
)

// TestVoteIsNeverAnothers stops a node at every moment of a vote, which Raft stores in
// two steps. Then it finds its old vote, its new one, or no vote: not the old candidate for
// the new term, whom Raft would give its vote without a look at its log.
func TestVoteIsNeverAnothers(t *testing.T) {
	const before, after = "before", "after"
	path := filepath.Join(t.TempDir(), "raft.db")
	stop := errors.New("stopped")
	for writes := range 4 {
		left := 1 << 20
		log := must.Get(logstore.Open(logstore.Options{Path: path, Around: func(_ string, do func() error) error {
			if left--; left < 0 {
				return stop
			}
			return do()
		}}))(t)
		raftLog := raftLog{Store: log, hooks: Hooks{Failed: func(error) {}}, terms: &terms{}}
		vote := func(term uint64, candidate string) error {
			if err := raftLog.SetUint64(KeyLastVoteTerm, term); err != nil {
				return err
			}
			return raftLog.Set(keyLastVoteCand, []byte(candidate))
		}
		must.Do(t, vote(3, before))
		left = writes
		check.Equal(t, errors.Is(vote(5, after), stop), writes < 3, "a vote of %d writes", writes)
		term, err1 := log.GetUint64(KeyLastVoteTerm)
		candidate, err2 := log.Get(keyLastVoteCand)
		must.Do(t, errors.Join(err1, err2))
		// Raft takes nil for no vote.
		if whole := term == 3 && string(candidate) == before || term == 5 && string(candidate) == after; !whole && candidate != nil {
			t.Errorf("stopped after %d writes, it has voted for %q in term %d", writes, candidate, term)
		}
		must.Do(t, log.Close())
	}
}

// TestStoredTermIsNotStoredAgain: Raft stores the term that it reads at its start, 0 in
// an empty log, and would take the start down with it if that failed.
func TestStoredTermIsNotStoredAgain(t *testing.T) {
	writes := 0
	log := must.Get(logstore.Open(logstore.Options{Path: filepath.Join(t.TempDir(), "raft.db"), Around: func(_ string, do func() error) error {
		writes++
		return do()
	}}))(t)
	defer func() { _ = log.Close() }()
	raftLog := raftLog{Store: log, hooks: Hooks{Failed: func(error) {}}, terms: &terms{}}
	writes = 0
	for _, step := range []struct {
		term   uint64
		writes int
	}{{0, 0}, {3, 1}, {3, 1}, {5, 2}} {
		if err := raftLog.SetUint64(KeyCurrentTerm, step.term); err != nil || writes != step.writes {
			t.Errorf("term %d: %d writes, want %d; %v", step.term, writes, step.writes, err)
		}
		if term, err := log.GetUint64(KeyCurrentTerm); step.writes > 0 && (term != step.term || err != nil) {
			t.Errorf("the term is %d, %v, want %d", term, err, step.term)
		}
	}
}

func TestClusterIsNamedByItsFirstConfiguration(t *testing.T) {
	entry := func(index uint64, kind raft.LogType, id string) *raft.Log {
		return &raft.Log{Index: index, Term: 1, Type: kind, Data: raft.EncodeConfiguration(Alone(id))}
	}
	first := foundedAs(entry(1, raft.LogConfiguration, "a-1"))
	if len(first) != 2*cluster.ClusterIDBytes || foundedAs(entry(1, raft.LogConfiguration, "a-1")) != first {
		t.Errorf("the name is %q", first)
	}
	if other := foundedAs(entry(1, raft.LogConfiguration, "a-2")); other == first {
		t.Error("two clusters have one name")
	}
	for _, e := range []*raft.Log{entry(2, raft.LogConfiguration, "a-1"), entry(1, raft.LogCommand, "a-1")} {
		check.Equal(t, foundedAs(e), "", "entry %d of type %v founds cluster", e.Index, e.Type)
	}
}
