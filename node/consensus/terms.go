package consensus

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/node/logstore"
)

// terms are the current term and the term of the newest vote, as they are on disk.
//
// Raft's main goroutine changes the current term: first on disk, then in memory. A
// heartbeat that is handled beside that goroutine holds change for reading, and is
// handled there only in the current term. So it never changes a term, and the term in
// memory never falls behind the one on disk.
type terms struct {
	change         sync.RWMutex // held while the current term is changed on disk
	current, voted atomic.Uint64
}

func loadTerms(log raft.StableStore) (*terms, error) {
	var t terms
	current, voted, err := StoredTerms(log)
	t.current.Store(current)
	t.voted.Store(voted)
	return &t, err
}

// StoredTerms returns the current term that a log holds, and the term of the newest vote.
// One that was never stored is 0.
func StoredTerms(log raft.StableStore) (current, voted uint64, err error) {
	for key, term := range map[string]*uint64{string(KeyCurrentTerm): &current, string(KeyLastVoteTerm): &voted} {
		if *term, err = log.GetUint64([]byte(key)); err != nil && !errors.Is(err, logstore.ErrNotFound) {
			return 0, 0, fmt.Errorf("reading %s from the log: %w", key, err)
		}
	}
	return current, voted, nil
}

// raise stores a newer current term. It returns nil at once if the term is current, and
// an error if the term is older.
func (t *terms) raise(term uint64, store func() error) error {
	// A heartbeat beside Raft's main goroutine gets here only with the current term, which
	// cannot change until it ends.
	if term == t.current.Load() {
		return nil
	}
	t.change.Lock()
	defer t.change.Unlock()
	if current := t.current.Load(); term < current {
		return fmt.Errorf("the current term is %d", current)
	}
	if err := store(); err != nil {
		return err
	}
	t.current.Store(term)
	return nil
}

var errOvertaken = errors.New("another node leads by now")

// elected returns an error unless this node's newest vote is of the term. A node leads
// only in a term in which it voted for itself.
func (t *terms) elected(term uint64) error {
	if t.voted.Load() != term {
		return errOvertaken
	}
	return nil
}
