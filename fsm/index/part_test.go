package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// rareWords makes words that no other entry has.
func rareWords(rng *rand.Rand, count int) []string {
	words := make([]string, count)
	for i := range words {
		words[i] = string([]rune{rune(0x20000 + rng.IntN(0xa000)), rune(0x20000 + rng.IntN(0xa000))})
	}
	return words
}

// TestPartEndsByBytes fills an index with texts of rare words alone, and checks
// that no part grows beyond its bound by more than one entry.
func TestPartEndsByBytes(t *testing.T) {
	const perEntry, bound = 500, 1 << 20
	_, x := newIndex(t, 0)
	x.partBytes = bound
	rng := rand.New(rand.NewPCG(21, 22))
	parts, greatest := 0, 0
	for seq := range uint64(200) {
		before := x.open
		x.Add(seq, nil, rareWords(rng, perEntry)...)
		if x.open == nil && before != nil {
			parts++
			greatest = max(greatest, before.bytes)
			must.Equal(t, before.end.Load(), seq+1, "the part from %d on ends at", before.start)
		}
	}
	if entry := perEntry * (termBytes + 20); parts < 5 || greatest > bound+entry {
		t.Errorf("%d parts, the greatest with %d bytes; want some, of %d at most", parts, greatest, bound+entry)
	}
	waitSealed(t, x)
	if got := x.Sealed(); got == 0 || got >= BlockEntries {
		t.Errorf("sealed %d, want a part of the first block", got)
	}
}

// TestWaitingBytes checks that Add waits for parts of many bytes before there are
// many parts.
func TestWaitingBytes(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer db.Close()
	hold, sealed := make(chan struct{}), make(chan uint64, maxWaiting)
	x := must.Get(Open(db, Options{Prefix: testPrefix, Version: testVersion, OnSealed: func(mark uint64) {
		sealed <- mark
		<-hold
	}}))(t)
	defer x.Close()
	x.partBytes = maxWaitingBytes / 2
	rng := rand.New(rand.NewPCG(23, 24))
	added := make(chan struct{})
	parts := 0
	go func() {
		defer close(added)
		for seq := uint64(0); parts < 4; seq++ {
			x.Add(seq, nil, rareWords(rng, 5000)...)
			if x.open == nil {
				parts++
				added <- struct{}{}
			}
		}
	}()
	// The first part is sealed, the next two reach the bound.
	for range 3 {
		<-added
	}
	<-sealed
	select {
	case <-added:
		t.Error("a fourth part was taken while two of half the bound each waited")
	case <-time.After(50 * time.Millisecond):
	}
	close(hold)
	for range added {
	}
}

// TestPartsOfBlockMerge searches a block that is sealed in many parts, by term, by
// prefix, and from both ends.
func TestPartsOfBlockMerge(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.part = 4_000
	w.index.partBytes = w.part
	rng := rand.New(rand.NewPCG(25, 26))
	w.model.fill(rng, 2*BlockEntries+100)
	w.add()
	waitSealed(t, w.index)
	w.index.Cut()
	w.keep(false)
	c := w.kept[0].cut
	if len(c.parts) > 1 || c.sealed <= 2*BlockEntries {
		t.Fatalf("%d parts in memory, sealed %d: want everything but the newest part on disk", len(c.parts), c.sealed)
	}
	for _, q := range []Query{
		{All: []string{"channel:c0"}, Limit: 100_000},
		{All: []string{"channel:c0", "w:common"}, Limit: 100_000},
		{Prefix: "comm", Limit: 100_000},
		{All: []string{"channel:c1"}, Prefix: "wide", Limit: 100_000},
		{All: []string{"channel:c1"}, Min: 3, Before: BlockEntries - 3, Limit: 100_000},
	} {
		checkSearch(t, c, w.kept[0].snap, w.model, q)
		for limit := 1; limit < 100; limit *= 3 {
			q.Limit = limit
			checkSearch(t, c, w.kept[0].snap, w.model, q)
		}
	}
	w.check(t, rng, 300)
	check.Err(t, c.Verify(w.kept[0].snap, 0, 0, w.model.terms), nil, "verify")
}

// TestPartsAfterCrash crashes at any moment, and checks that the parts of a block
// end where they ended before.
func TestPartsAfterCrash(t *testing.T) {
	w := newWorld(t, 1)
	defer w.close()
	w.part = 3_000
	w.index.partBytes = w.part
	rng := rand.New(rand.NewPCG(27, 28))
	ends, newest := map[uint64]bool{}, uint64(0)
	for range 12 {
		w.model.fill(rng, 400+rng.IntN(200))
		for seq := w.index.next; seq < w.model.next(); seq++ {
			open := w.index.open
			terms, _ := w.model.terms(seq)
			w.index.Add(seq, terms)
			if open != nil && w.index.open == nil {
				end := open.end.Load()
				if end < newest && !ends[end] {
					t.Fatalf("a part ends at %d, and did not before the crash", end)
				}
				ends[end], newest = true, max(newest, end)
			}
		}
		if rng.IntN(2) == 0 {
			must.Do(t, w.db.Flush())
		}
		w.crash(rng)
		if mark := w.index.Sealed(); mark > 1 && !ends[mark] {
			t.Fatalf("sealed up to %d, where no part ended", mark)
		}
	}
	w.add()
	w.keep(false)
	w.check(t, rng, 100)
	check.Err(t, w.kept[0].cut.Verify(w.kept[0].snap, 0, 0, w.model.terms), nil, "verify")
}

// TestPrefixLooksAtBoundedWords writes far more words with one beginning than any
// language has: a search looks at the newest of them alone, and finds by those.
func TestPrefixLooksAtBoundedWords(t *testing.T) {
	db, x := newIndex(t, 0)
	const perEntry = 4_000
	entries := uint64(maxPrefixLook/perEntry + 4)
	for seq := range entries {
		words := make([]string, perEntry)
		for i := range words {
			words[i] = fmt.Sprintf("aaa%08x", int(seq)*perEntry+i)
		}
		x.Add(seq, nil, words...)
	}
	c := x.Cut()
	looked := 0
	left := maxPrefixLook
	for _, p := range slices.Backward(c.parts) {
		left = p.visitWords("aaa", BlockEntries, left, func(uint32, []byte) { looked++ })
	}
	if looked != maxPrefixLook || left != 0 {
		t.Errorf("looked at %d words and %d more are allowed, want %d", looked, left, maxPrefixLook)
	}
	seqs, _, err := c.Search(db, Query{Prefix: "aaa", Limit: 5})
	if err != nil || len(seqs) == 0 {
		t.Errorf("found %v, %v, want entries", seqs, err)
	}
	seqs, _, err = c.Search(db, Query{All: []string{fmt.Sprintf("w:aaa%08x", 3)}, Limit: 5})
	if err != nil || !slices.Equal(seqs, []uint64{0}) {
		t.Errorf("a whole word found %v, %v, want the first entry", seqs, err)
	}
}

// TestDirectoryOfManyParts holds what a search keeps in memory of a word that stands in
// many short parts.
func TestDirectoryOfManyParts(t *testing.T) {
	db, x := newIndex(t, 0)
	const perPart, parts = 8, 500
	x.partBytes = perPart * termBytes
	for seq := range uint64(parts * perPart) {
		x.Add(seq, nil, "tide", fmt.Sprint("only", seq))
	}
	waitSealed(t, x)
	x.Cut()
	cut := x.Cut()
	c := must.Get(openCursor(db, appendTerm(nil, testPrefix, WordClass+"tide")))(t)
	defer c.iter.Close()
	if x.Sealed() < (parts-1)*perPart {
		t.Fatalf("sealed %d", x.Sealed())
	}
	if block, ok, err := c.seek(0); block != 0 || !ok || err != nil {
		t.Fatalf("block %d, %v, %v", block, ok, err)
	}
	if len(c.records) != 1 || len(c.held) < parts || len(c.held) > (recordHead+maxFewRecord)*(parts+parts/perPart) {
		t.Errorf("%d records and %d bytes of about %d parts are held", len(c.records), len(c.held), parts)
	}
	work := 0
	seqs, _, err := cut.Search(db, Query{Prefix: "tid", Limit: 2 * parts * perPart, Work: &work})
	if err != nil || len(seqs) != parts*perPart || work < parts/2 {
		t.Errorf("%d entries are found by %d steps, %v", len(seqs), work, err)
	}
}
