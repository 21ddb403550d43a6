package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestInterruptedSeal crashes between the pieces of a block.
func TestInterruptedSeal(t *testing.T) {
	errCrash := errors.New("crash")
	for pieces := range 4 {
		w := newWorld(t, 1)
		rng := rand.New(rand.NewPCG(3, 3))
		for i := range BlockEntries + 100 {
			w.model.entries = append(w.model.entries, []string{
				fmt.Sprintf("tag:x%d", i), fmt.Sprintf("tag:y%d", i), "channel:c0", testWord(rng),
			})
		}
		// Only this test seals this block.
		p := newPart(1, 0)
		for seq := uint64(1); seq < BlockEntries; seq++ {
			terms, _ := w.model.terms(seq)
			p.add(uint16(seq), terms, nil)
		}
		done := 0
		err := w.index.seal(p, func(batch *pebble.Batch) error {
			if done == pieces {
				return errCrash
			}
			done++
			return batch.Commit(pebble.NoSync)
		})
		if !errors.Is(err, errCrash) {
			t.Fatalf("seal in %d pieces: %v, want the crash", pieces, err)
		}
		must.Do(t, w.db.Flush())
		w.crash(rng)
		must.Equal(t, w.index.Sealed(), 1, "sealed after %d pieces", pieces)
		w.add()
		w.keep(false)
		waitSealed(t, w.index)
		w.index.Cut()
		w.keep(false)
		w.check(t, rng, 20)
		for _, k := range w.kept {
			must.Do(t, k.cut.Verify(k.snap, 0, 0, w.model.terms))
		}
		w.close()
	}
}

// TestOtherVersion checks that an index of another version is dropped whole.
func TestOtherVersion(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer db.Close()
	neighbors := [][]byte{[]byte("\x05iw\xff"), []byte("\x05iy")}
	for _, key := range neighbors {
		must.Do(t, db.Set(key, []byte("v"), pebble.NoSync))
	}
	x := openIndex(t, db, 1)
	for seq := uint64(1); seq < BlockEntries+5; seq++ {
		x.Add(seq, []string{"w:old"})
	}
	waitSealed(t, x)
	x.Close()

	x, err := Open(db, Options{Prefix: testPrefix, Version: testVersion + 1, First: 1})
	must.Do(t, err)
	must.Equal(t, x.Sealed(), 1, "sealed under a new version")
	for seq := uint64(1); seq < BlockEntries+5; seq++ {
		x.Add(seq, []string{"w:new"})
	}
	waitSealed(t, x)
	x.Cut()
	c := x.Cut()
	for term, want := range map[string]int{"w:old": 0, "w:new": BlockEntries + 4} {
		got, _, err := c.Search(db, Query{All: []string{term}, Limit: 2 * BlockEntries})
		if err != nil || len(got) != want {
			t.Errorf("%s: %d entries, %v, want %d", term, len(got), err, want)
		}
	}
	got, _, _ := c.Search(db, Query{Prefix: "old", Limit: 1})
	check.Empty(t, got, "what a word of the old version leads to")
	x.Close()
	for _, key := range neighbors {
		_, closer, err := db.Get(key)
		if err != nil {
			t.Fatalf("key %q beside the keyspace: %v", key, err)
		}
		closer.Close()
	}
}

// TestSnapshotBeforeSeal takes a snapshot, lets a block be sealed, and takes the
// cut then: the block is neither in the snapshot nor may it be gone from memory.
func TestSnapshotBeforeSeal(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.index.Close()
	const blocks = 2
	sealed, proceed, quit := make(chan uint64), make(chan struct{}), make(chan struct{})
	defer close(quit)
	var err error
	w.index, err = Open(w.db, Options{Prefix: testPrefix, Version: testVersion, OnSealed: func(mark uint64) {
		select {
		case sealed <- mark:
			<-proceed
		case <-quit:
		}
	}})
	must.Do(t, err)
	rng := rand.New(rand.NewPCG(8, 8))
	w.model.fill(rng, blocks*BlockEntries)
	w.add()
	<-sealed
	for range blocks - 1 {
		w.index.Cut()
		snap := w.db.NewSnapshot()
		proceed <- struct{}{}
		<-sealed
		w.kept = append(w.kept, keptCut{w.index.Cut(), snap})
	}
	close(proceed)
	for _, k := range w.kept {
		checkSearch(t, k.cut, k.snap, w.model, Query{All: []string{"channel:c0"}, Limit: blocks * BlockEntries})
	}
	w.check(t, rng, 10)
}

// TestAddWaits checks that unsealed blocks are bounded, and that a seal, or
// closing the index, frees the one who waits.
func TestAddWaits(t *testing.T) {
	for _, closing := range []bool{false, true} {
		db := openDB(t, vfs.NewMem())
		hold, sealed := make(chan struct{}), make(chan uint64, 2*maxWaiting)
		x, err := Open(db, Options{Prefix: testPrefix, Version: testVersion, OnSealed: func(mark uint64) {
			sealed <- mark
			<-hold // until then no other block is sealed
		}})
		must.Do(t, err)
		added := make(chan uint64)
		go func() {
			defer close(added)
			for seq := range uint64((maxWaiting + 3) * BlockEntries) {
				x.Add(seq, nil)
				if (seq+1)%BlockEntries == 0 {
					added <- seq + 1
				}
			}
		}()
		for range maxWaiting + 1 {
			<-added
		}
		must.Equal(t, <-sealed, BlockEntries, "first seal at")
		select {
		case n := <-added:
			t.Fatalf("%d entries taken with one block sealed", n)
		case <-time.After(50 * time.Millisecond):
		}
		var closed sync.WaitGroup
		if closing {
			closed.Go(x.Close)
			for range added {
			}
			close(hold)
		} else {
			close(hold)
			for range added {
			}
		}
		closed.Wait()
		x.Close()
		must.Do(t, db.Close())
	}
}

// TestRuns searches blocks on both sides of the end of a run.
func TestRuns(t *testing.T) {
	w := newWorld(t, (2<<runShift-1)*BlockEntries-500)
	defer w.close()
	rng := rand.New(rand.NewPCG(31, 32))
	w.model.fill(rng, 2*BlockEntries+600)
	w.add()
	waitSealed(t, w.index)
	w.index.Cut()
	w.keep(false)
	if c := w.kept[0].cut; len(c.parts) > 1 {
		t.Fatalf("%d parts in memory, want one", len(c.parts))
	}
	for _, q := range []Query{
		{All: []string{"tag:rare"}},
		{All: []string{"channel:c0", "w:common"}},
		{All: []string{"agent:a1"}, Prefix: "wide"},
		{All: []string{"agent:a1", "agent:a2"}},
	} {
		for _, q.Limit = range []int{1, 100_000} {
			checkSearch(t, w.kept[0].cut, w.kept[0].snap, w.model, q)
		}
	}
	w.check(t, rng, 50)
}
