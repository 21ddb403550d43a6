package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// world is an index under test with its model, its Pebble and cuts taken before.
type world struct {
	t     *testing.T
	fs    *vfs.MemFS
	db    *pebble.DB
	index *Index
	model *model
	kept  []keptCut
}

// keptCut is a cut with its snapshot.
type keptCut struct {
	cut  Cut
	snap *pebble.Snapshot
}

func newWorld(t *testing.T, first uint64) *world {
	t.Helper()
	w := &world{t: t, fs: vfs.NewCrashableMem(), model: &model{first: first}}
	w.db = openDB(t, w.fs)
	w.index = openIndex(t, w.db, first)
	return w
}

// add adds to the index what the model has and the index has not.
func (w *world) add() {
	for seq := w.index.Cut().Next(); seq < w.model.next(); seq++ {
		// Words go in by either way.
		terms, _ := w.model.terms(seq)
		var words []string
		for len(terms) > 0 && seq%2 == 0 {
			word, ok := strings.CutPrefix(terms[len(terms)-1], WordClass)
			if !ok {
				break
			}
			words, terms = append(words, word), terms[:len(terms)-1]
		}
		w.index.Add(seq, terms, words...)
	}
}

// keep takes a cut and a snapshot, in the order that snapFirst says.
func (w *world) keep(snapFirst bool) {
	var k keptCut
	if snapFirst {
		k.snap = w.db.NewSnapshot()
		k.cut = w.index.Cut()
	} else {
		k.cut = w.index.Cut()
		k.snap = w.db.NewSnapshot()
	}
	w.kept = append(w.kept, k)
}

func (w *world) dropKept() {
	for _, k := range w.kept {
		if err := k.snap.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
	w.kept = nil
}

func (w *world) close() {
	w.dropKept()
	w.index.Close()
	if err := w.db.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// crash loses what Pebble had not synced, and starts again from the rest.
func (w *world) crash(rng *rand.Rand) {
	after := w.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	w.close()
	w.fs = after
	w.db = openDB(w.t, w.fs)
	w.index = openIndex(w.t, w.db, w.model.first)
}

func (w *world) restart() {
	w.index.Close()
	w.dropKept()
	w.index = openIndex(w.t, w.db, w.model.first)
}

func (w *world) check(t fataler, rng *rand.Rand, searches int) {
	t.Helper()
	for range searches {
		for _, k := range w.kept {
			m := w.model.at(k.cut.Next())
			checkSearch(t, k.cut, k.snap, m, w.model.draw(rng))
		}
	}
}

func TestIndexProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		first := rapid.SampledFrom([]uint64{0, 1, 4095, 4096, 5000}).Draw(rt, "first")
		seed := rapid.Uint64().Draw(rt, "seed")
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t, first)
		defer w.close()
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{
			"few", "few", "block", "blocks", "seal", "keep", "keep snapshot first", "drop", "restart", "crash", "flush",
		}), 1, 10).Draw(rt, "steps")
		for _, step := range steps {
			switch step {
			case "few":
				w.model.fill(rng, rng.IntN(300))
			case "block":
				w.model.fill(rng, int(BlockEntries-w.model.next()%BlockEntries)-rng.IntN(2))
			case "blocks":
				w.model.fill(rng, rng.IntN(2*BlockEntries))
			case "seal":
				waitSealed(t, w.index)
			case "keep":
				w.keep(false)
			case "keep snapshot first":
				w.keep(true)
			case "drop":
				w.dropKept()
			case "restart":
				w.restart()
			case "crash":
				w.crash(rng)
			case "flush":
				if err := w.db.Flush(); err != nil {
					rt.Fatal(err)
				}
			}
			w.add()
		}
		w.keep(false)
		w.keep(true)
		w.check(rt, rng, 12)
		for _, k := range w.kept {
			if err := k.cut.Verify(k.snap, 0, 0, w.model.terms); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// TestSealedAfterRestart checks that a sealed block is not asked for again.
func TestSealedAfterRestart(t *testing.T) {
	w := newWorld(t, 1)
	defer w.close()
	rng := rand.New(rand.NewPCG(1, 1))
	w.model.fill(rng, 2*BlockEntries+10)
	w.add()
	waitSealed(t, w.index)
	w.restart()
	if got := w.index.Sealed(); got != 2*BlockEntries {
		t.Fatalf("sealed %d after a restart, want %d", got, 2*BlockEntries)
	}
	w.add()
	w.keep(false)
	w.check(t, rng, 50)
}

// TestCutsOutliveSeals searches cuts that were taken before their blocks were
// sealed and left memory.
func TestCutsOutliveSeals(t *testing.T) {
	w := newWorld(t, 1)
	defer w.close()
	rng := rand.New(rand.NewPCG(2, 2))
	for i := range 6 {
		w.model.fill(rng, BlockEntries/2)
		w.add()
		w.keep(i%2 == 0)
		waitSealed(t, w.index)
		w.keep(i%2 == 0)
	}
	w.check(t, rng, 40)
	// Memory: what is sealed is let go of by the cuts after.
	w.index.Cut()
	if c := w.index.Cut(); len(c.blocks) > 1 {
		t.Errorf("%d blocks in memory after all were sealed", len(c.blocks))
	}
}

// TestInterruptedSeal crashes between the pieces of a block.
func TestInterruptedSeal(t *testing.T) {
	errCrash := errors.New("crash")
	for pieces := range 4 {
		w := newWorld(t, 1)
		rng := rand.New(rand.NewPCG(3, 3))
		for i := range BlockEntries + 100 {
			w.model.entries = append(w.model.entries, []string{
				fmt.Sprintf("w:x%d", i), fmt.Sprintf("w:y%d", i), "channel:c0", testWord(rng),
			})
		}
		// A block that nobody seals but this test.
		b := newBlock(0, 0)
		for seq := uint64(1); seq < BlockEntries; seq++ {
			terms, _ := w.model.terms(seq)
			b.add(uint16(seq), terms, nil)
		}
		done := 0
		err := w.index.seal(b, func(batch *pebble.Batch) error {
			if done == pieces {
				return errCrash
			}
			done++
			return batch.Commit(pebble.NoSync)
		})
		if !errors.Is(err, errCrash) {
			t.Fatalf("seal in %d pieces: %v, want the crash", pieces, err)
		}
		if err := w.db.Flush(); err != nil {
			t.Fatal(err)
		}
		w.crash(rng)
		if got := w.index.Sealed(); got != 1 {
			t.Fatalf("sealed %d after %d pieces, want 1", got, pieces)
		}
		w.add()
		w.keep(false)
		waitSealed(t, w.index)
		w.index.Cut()
		w.keep(false)
		w.check(t, rng, 20)
		for _, k := range w.kept {
			if err := k.cut.Verify(k.snap, 0, 0, w.model.terms); err != nil {
				t.Fatal(err)
			}
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
		if err := db.Set(key, []byte("v"), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	x := openIndex(t, db, 1)
	for seq := uint64(1); seq < BlockEntries+5; seq++ {
		x.Add(seq, []string{"w:old"})
	}
	waitSealed(t, x)
	x.Close()

	x, err := Open(db, Options{Prefix: testPrefix, Version: testVersion + 1, First: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := x.Sealed(); got != 1 {
		t.Fatalf("sealed %d under a new version, want 1", got)
	}
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
	if got, _, _ := c.Search(db, Query{Prefix: "old", Limit: 1}); len(got) != 0 {
		t.Errorf("a word of the old version leads to %v", got)
	}
	x.Close()
	for _, key := range neighbors {
		_, closer, err := db.Get(key)
		if err != nil {
			t.Fatalf("key %q beside the keyspace: %v", key, err)
		}
		closer.Close()
	}
}

func TestAddOutOfOrder(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer db.Close()
	x := openIndex(t, db, 1)
	defer x.Close()
	x.Add(1, nil)
	for _, seq := range []uint64{0, 1, 3} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("entry %d was taken after 1", seq)
				}
			}()
			x.Add(seq, nil)
		}()
	}
}

// TestReadersBesideAdds searches while entries are added and blocks sealed. It
// says most under the race detector.
func TestReadersBesideAdds(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer db.Close()
	x := openIndex(t, db, 1)
	defer x.Close()
	m := &model{first: 1}
	m.fill(rand.New(rand.NewPCG(4, 4)), 4*BlockEntries)

	views := make(chan keptCut)
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(i)))
			for k := range views {
				for range 4 {
					checkSearch(t2{t}, k.cut, k.snap, m.at(k.cut.Next()), m.draw(rng))
				}
				if err := k.snap.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for seq := uint64(1); seq < m.next(); seq++ {
		terms, _ := m.terms(seq)
		x.Add(seq, terms)
		if seq%97 != 0 {
			continue
		}
		snap := db.NewSnapshot()
		select {
		case views <- keptCut{x.Cut(), snap}:
		default:
			if err := snap.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	close(views)
	readers.Wait()
}

// t2 fails a test from any goroutine.
type t2 struct{ *testing.T }

func (t t2) Fatalf(format string, args ...any) { t.Errorf(format, args...) }

// TestAddWaits checks that unsealed blocks are bounded, and that closing frees
// the one who waits.
func TestAddWaits(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer db.Close()
	hold, holding := make(chan struct{}), make(chan uint64, 1)
	x, err := Open(db, Options{Prefix: testPrefix, Version: testVersion, OnSealed: func(sealed uint64) {
		select {
		case holding <- sealed:
		default:
		}
		<-hold // no block after this one is sealed
	}})
	if err != nil {
		t.Fatal(err)
	}
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
	if sealed := <-holding; sealed != BlockEntries {
		t.Fatalf("first seal at %d", sealed)
	}
	select {
	case n := <-added:
		t.Fatalf("%d entries taken with one block sealed", n)
	case <-time.After(50 * time.Millisecond):
	}
	close(hold)
	for range added {
	}
	x.Close()
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
	if c.sealed != BlockEntries {
		t.Fatalf("sealed %d", c.sealed)
	}
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
			if err := c.Verify(snap, seq+1, 0, want); err != nil {
				t.Errorf("range after the entry %d: %v", seq, err)
			}
			if err := c.Verify(snap, 0, seq, want); seq > 0 && err != nil {
				t.Errorf("range before the entry %d: %v", seq, err)
			}
		}
	}
	broken := errors.New("broken")
	if err := c.Verify(snap, 0, 0, func(uint64) ([]string, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("error of want: %v", err)
	}
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
		key := appendBlock(appendTerm(nil, testPrefix, term), 0)
		if err := w.db.Set(key, []byte{0x80}, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	c := w.index.Cut()
	for _, q := range []Query{{All: []string{"channel:c0"}, Limit: 5}, {Prefix: "common", Limit: 5}} {
		if got, _, err := c.Search(w.db, q); !errors.Is(err, errPosting) {
			t.Errorf("search %+v of a damaged index: %v, %v", q, got, err)
		}
	}
	if err := c.Verify(w.db, 0, 0, w.model.terms); !errors.Is(err, ErrMismatch) {
		t.Errorf("verify of a damaged index: %v", err)
	}
	if err := w.db.Set(append(slices.Clone(testPrefix), markKey), []byte("x"), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	if x, err := Open(w.db, Options{Prefix: testPrefix, Version: testVersion}); err == nil {
		x.Close()
		t.Error("an index with a damaged mark was opened")
	}
}

func TestOpenNeedsPrefix(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	defer db.Close()
	for _, prefix := range [][]byte{nil, {}, {0xff}} {
		if x, err := Open(db, Options{Prefix: prefix}); err == nil {
			x.Close()
			t.Errorf("opened with the prefix %x", prefix)
		}
	}
}
