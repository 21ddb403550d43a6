package index

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestErase checks that no posting has an erased entry, sealed before or not, that terms of
// erased entries alone are gone, and that all other entries are found, also those of parts
// that are sealed meanwhile.
func TestErase(t *testing.T) {
	w := newWorld(t, 1)
	defer w.close()
	rng := rand.New(rand.NewPCG(7, 7))
	var mu sync.Mutex
	erased := map[uint64]Bitmap{}
	steps := 0
	w.index.eraseBatch = 16
	w.index.opts.Pace = func() func() {
		return func() {
			if steps++; steps%64 == 0 {
				needDirectories(t, w.db)
			}
		}
	}
	w.index.opts.Erased = func(block uint64) (Bitmap, error) {
		mu.Lock()
		defer mu.Unlock()
		return erased[block], nil
	}
	gone := map[uint64]bool{}
	doom := func(block uint64) {
		mu.Lock()
		defer mu.Unlock()
		for range 300 {
			seq := block*BlockEntries + 1 + uint64(rng.IntN(BlockEntries-1))
			gone[seq] = true
			erased[block] = erased[block].With(seq)
		}
	}
	w.model.fill(rng, 3*BlockEntries)
	doom(0)
	for seq := range gone { // a posting that stands in a key of its own
		w.model.entries[seq-1] = append(w.model.entries[seq-1], WordClass+"doomed")
	}
	saved := erased
	erased = map[uint64]Bitmap{}
	whole := *w.model
	w.model.entries = whole.entries[:BlockEntries]
	w.add()
	waitSealed(t, w.index)
	if !hasTerm(t, w.db, "doomed") {
		t.Fatal("the term is not there before it is erased")
	}
	mu.Lock()
	erased = saved
	mu.Unlock()
	doom(1)
	w.model.entries = whole.entries
	added := make(chan struct{})
	go func() {
		defer close(added)
		w.add()
	}()
	must.Do(t, w.index.Erase(t.Context()))
	if steps == 0 {
		t.Error("it made no step")
	}
	<-added
	waitSealed(t, w.index)
	check.Equal(t, hasTerm(t, w.db, "doomed"), false, "the term is still in a key")
	snap := w.db.NewSnapshot()
	w.index.Cut()
	cut := w.index.Cut()
	defer func() { _ = snap.Close() }()
	err := cut.Verify(snap, 0, w.index.Sealed(), func(seq uint64) ([]string, error) {
		if gone[seq] {
			return nil, nil
		}
		return w.model.terms(seq)
	})
	check.Err(t, err, nil, "verify")
}

// needDirectories fails the test if a posting that has a key of its own has no directory before it.
func needDirectories(t *testing.T, db *pebble.DB) {
	t.Helper()
	lower := append(bytes.Clone(testPrefix), postingKey)
	iter := must.Get(db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: keyAfter(lower)}))(t)
	var of []byte
	var run uint64
	for valid := iter.First(); valid; valid = iter.Next() {
		term, block, off, err := splitKey(iter.Key())
		must.Do(t, err)
		if off == directoryOff {
			of, run = bytes.Clone(term), block>>runShift
		} else if !bytes.Equal(of, term) || block>>runShift != run {
			t.Fatalf("posting %x of block %d has no directory", term, block)
		}
	}
	must.Do(t, iter.Close())
}

func hasTerm(t *testing.T, db *pebble.DB, word string) bool {
	t.Helper()
	iter := must.Get(db.NewIter(nil))(t)
	found := false
	for valid := iter.First(); valid; valid = iter.Next() {
		found = found || bytes.Contains(iter.Key(), []byte(word))
	}
	must.Do(t, iter.Close())
	return found
}
