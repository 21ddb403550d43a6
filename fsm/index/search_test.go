package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestReadersBesideAdds searches while entries are added and blocks sealed. It is meant for
// the race detector.
func TestReadersBesideAdds(t *testing.T) {
	db, x := newIndex(t, 1)
	m := newModel(1)
	m.fill(rand.New(rand.NewPCG(4, 4)), 4*BlockEntries)

	// Each view is searched, by then up to two blocks behind what is being added.
	every := uint64(97) // entries from one view to the next
	if testing.Short() {
		every = 389
	}
	views := make(chan keptCut, 2*BlockEntries/every)
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(i)))
			for k := range views {
				for range 4 {
					checkSearch(anywhere{t}, k.cut, k.snap, m.at(k.cut.next), m.draw(rng))
				}
				check.Err(t, k.snap.Close(), nil, "close")
			}
		})
	}
	for seq := uint64(1); seq < m.next(); seq++ {
		terms, _ := m.terms(seq)
		x.Add(seq, terms)
		if seq%every == 0 {
			snap := db.NewSnapshot()
			views <- keptCut{x.Cut(), snap}
		}
	}
	close(views)
	readers.Wait()
}

// anywhere fails a test from any goroutine.
type anywhere struct{ *testing.T }

func (t anywhere) Fatalf(format string, args ...any) { t.Errorf(format, args...) }

// TestAlso searches threads whose root is in another block than their entries.
func TestAlso(t *testing.T) {
	db, x := newIndex(t, 0)
	m := newModel(0)
	for seq := range uint64(4*BlockEntries + 10) {
		terms := []string{"channel:c"}
		if seq == 5 || seq == 2*BlockEntries+5 {
			terms = append(terms, "thread:x")
		}
		m.entries = append(m.entries, terms)
		x.Add(seq, terms)
	}
	waitSealed(t, x)
	x.Cut()
	c := x.Cut()
	for _, root := range []uint64{0, 5, 6, 7, BlockEntries, 2*BlockEntries + 5, 2 * BlockEntries, 3*BlockEntries + 7, 4*BlockEntries + 3, m.next()} {
		for _, all := range [][]string{{"thread:x"}, {"channel:c", "thread:x"}, {"thread:none"}, {"thread:x", "channel:c"}} {
			for limit := 1; limit < 4; limit++ {
				checkSearch(t, c, db, m, Query{All: all, Also: root, Limit: limit})
				checkSearch(t, c, db, m, Query{All: all, Also: root, Limit: limit, Before: root})
				checkSearch(t, c, db, m, Query{All: all, Also: root, Limit: limit, Min: root + 1})
			}
		}
	}
}

// TestWorkOfAll looks for the entries that a query without terms selects, of which most are
// left out: each block that it passes counts as work.
func TestWorkOfAll(t *testing.T) {
	db, x := newIndex(t, 0)
	const newest = 3*BlockEntries + 10
	for seq := range uint64(newest + 1) {
		x.Add(seq, nil)
	}
	shown := []uint64{newest, 2*BlockEntries + 63, 7, 0}
	var all Bitmap = slices.Repeat([]byte{0xff}, BlockEntries/8)
	without := func(block uint64) (Bitmap, error) {
		out := all
		for _, seq := range shown {
			if seq/BlockEntries == block {
				out = out.Without(seq)
			}
		}
		return out, nil
	}
	for limit, work := range map[int]int{1: 2, 2: 4, 4: 4, 5: 4} {
		steps := 0
		seqs, more, err := x.Cut().Search(db, Query{Limit: limit, Without: without, Work: &steps})
		if want := shown[:min(limit, len(shown))]; err != nil || !slices.Equal(seqs, want) || more != (limit < len(shown)) {
			t.Errorf("limit %d: %d, more %v, %v; want %d", limit, seqs, more, err, want)
		}
		check.Equal(t, steps, work, "limit %d steps", limit)
	}
	seqs, _, err := x.Cut().Search(db, Query{Limit: 5, Min: 1, Before: newest, Without: without})
	if want := []uint64{2*BlockEntries + 63, 7}; err != nil || !slices.Equal(seqs, want) {
		t.Errorf("with bounds: %d, %v, want %d", seqs, err, want)
	}
}

// TestPrefixStopsAtItsBound checks that no word beyond the bound leads to an
// entry, wherever the words are.
func TestPrefixStopsAtItsBound(t *testing.T) {
	const extra = 40
	for _, sealed := range []bool{false, true} {
		db := openDB(t, vfs.NewMem())
		x := openIndex(t, db, 0)
		m := newModel(0)
		add := func(word int) {
			terms := []string{fmt.Sprintf("w:word%03d", word)}
			m.entries = append(m.entries, terms)
			x.Add(m.next()-1, terms)
		}
		// The words beyond the bound stand in the oldest block alone.
		for i := range extra {
			add(MaxPrefixWords + i)
		}
		for block := range 3 {
			for i := range MaxPrefixWords {
				if block > 0 {
					add(i)
				}
			}
			for sealed && m.next() < uint64(block+1)*BlockEntries {
				add(0)
			}
		}
		waitSealed(t, x)
		x.Cut()
		c := x.Cut()
		if want := uint64(3 * BlockEntries); sealed && c.sealed != want {
			t.Fatalf("sealed up to %d, want %d", c.sealed, want)
		}
		for _, limit := range []int{1, 100, 1 << 20} {
			checkSearch(t, c, db, m, Query{Prefix: "word", Limit: limit})
			checkSearch(t, c, db, m, Query{Prefix: "word", Limit: limit, Before: 100})
			checkSearch(t, c, db, m, Query{Prefix: "word2", Limit: limit})
		}
		x.Close()
		must.Do(t, db.Close())
	}
}

func TestVerifyFindsDifferences(t *testing.T) {
	w := newWorld(t, 1)
	defer w.close()
	w.model.fill(rand.New(rand.NewPCG(6, 6)), BlockEntries+BlockEntries/2)
	w.add()
	waitSealed(t, w.index)
	w.index.Cut()
	w.keep(false)
	c, snap := w.kept[0].cut, w.kept[0].snap
	must.Equal(t, c.sealed, BlockEntries, "sealed")
	for _, seq := range []uint64{1, 100, BlockEntries - 1, BlockEntries, w.model.next() - 1} {
		for change, edit := range map[string]func([]string) []string{
			"is not found by its term": func(terms []string) []string { return append(slices.Clone(terms), "w:missing") },
			"which is not its term":    func(terms []string) []string { return terms[1:] },
		} {
			want := func(s uint64) ([]string, error) {
				terms, err := w.model.terms(s)
				if s == seq {
					terms = edit(terms)
				}
				return terms, err
			}
			err := c.Verify(snap, 0, 0, want)
			if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), change) ||
				!strings.Contains(err.Error(), fmt.Sprintf("entry %d ", seq)) {
				t.Errorf("entry %d changed: %v, want %q", seq, err, change)
			}
			check.Err(t, c.Verify(snap, seq+1, 0, want), nil, "range after the entry %d", seq)
			if err := c.Verify(snap, 0, seq, want); seq > 0 && err != nil {
				t.Errorf("range before the entry %d: %v", seq, err)
			}
		}
	}
	broken := errors.New("broken")
	check.Err(t, c.Verify(snap, 0, 0, func(uint64) ([]string, error) { return nil, broken }), broken, "error of")
}

// TestDamagedIndex checks that what cannot be read is an error, not an answer.
func TestDamagedIndex(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.model.fill(rand.New(rand.NewPCG(7, 7)), BlockEntries)
	w.add()
	waitSealed(t, w.index)
	w.index.Cut()
	for _, term := range []string{"channel:c0", "w:common"} {
		key := appendPart(appendTerm(nil, testPrefix, term), 0)
		must.Do(t, w.db.Set(key, []byte{0x80}, pebble.NoSync))
	}
	c := w.index.Cut()
	for _, q := range []Query{{All: []string{"channel:c0"}, Limit: 5}, {Prefix: "common", Limit: 5}} {
		check.Err(t, check.Last(c.Search(w.db, q)), errPosting, "search %+v of a damaged index", q)
	}
	check.Err(t, c.Verify(w.db, 0, 0, w.model.terms), ErrMismatch, "verify of a damaged index")
	must.Do(t, w.db.Set(append(slices.Clone(testPrefix), markKey), []byte("x"), pebble.NoSync))
	if x, err := Open(w.db, Options{Prefix: testPrefix, Version: testVersion}); err == nil {
		x.Close()
		t.Error("an index with a damaged mark was opened")
	}
}
