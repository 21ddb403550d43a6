package index

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	_ "github.com/commons-cluster/commons/internal/longtest" // fewer checks of rapid

	"github.com/commons-cluster/commons/internal/must"
)

// world is an index under test with its model, its Pebble and cuts taken before.
type world struct {
	t     *testing.T
	fs    *vfs.MemFS
	db    *pebble.DB
	index *Index
	model *model
	kept  []keptCut
	part  int // memory that ends a part; 0 means maxPartBytes
}

// keptCut is a cut with its snapshot.
type keptCut struct {
	cut  Cut
	snap *pebble.Snapshot
}

func newWorld(t *testing.T, first uint64) *world {
	t.Helper()
	w := &world{t: t, fs: vfs.NewCrashableMem(), model: newModel(first)}
	w.db = openDB(t, w.fs)
	w.index = openIndex(t, w.db, first)
	return w
}

// add adds to the index what the model has and the index has not.
func (w *world) add() {
	for seq := w.index.next; seq < w.model.next(); seq++ {
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
		must.Do(w.t, k.snap.Close())
	}
	w.kept = nil
}

func (w *world) close() {
	w.dropKept()
	w.index.Close()
	must.Do(w.t, w.db.Close())
}

// crash loses what Pebble had not synced, and starts again from the rest.
func (w *world) crash(rng *rand.Rand) {
	after := w.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	w.close()
	w.fs = after
	w.db = openDB(w.t, w.fs)
	w.open()
}

func (w *world) restart() {
	w.index.Close()
	w.dropKept()
	w.open()
}

func (w *world) open() {
	w.index = openIndex(w.t, w.db, w.model.first)
	if w.part > 0 {
		w.index.partBytes = w.part
	}
}

func (w *world) check(t fataler, rng *rand.Rand, searches int) {
	t.Helper()
	for range searches {
		for _, k := range w.kept {
			m := w.model.at(k.cut.next)
			checkSearch(t, k.cut, k.snap, m, w.model.draw(rng))
		}
	}
}

func TestIndexProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		first := rapid.SampledFrom([]uint64{0, 1, BlockEntries - 1, BlockEntries, 5000, (BlockEntries << runShift) - 5000}).Draw(rt, "first")
		seed := rapid.Uint64().Draw(rt, "seed")
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t, first)
		defer w.close()
		if w.part = rapid.SampledFrom([]int{0, 20_000, 100_000}).Draw(rt, "part"); w.part > 0 {
			w.index.partBytes = w.part
		}
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
				must.Do(rt, w.db.Flush())
			}
			w.add()
		}
		w.keep(false)
		w.keep(true)
		w.check(rt, rng, 12)
		for _, k := range w.kept {
			must.Do(rt, k.cut.Verify(k.snap, 0, 0, w.model.terms))
		}
	})
}

func TestAddOutOfOrder(t *testing.T) {
	_, x := newIndex(t, 1)
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
