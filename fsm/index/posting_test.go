package index

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func listOf(set *offsets) (list []uint16) {
	set.each(func(off int) { list = append(list, uint16(off)) })
	return list
}

func TestPostingRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		density := rapid.SampledFrom([]float64{0.0005, 0.01, 0.1, 0.13, 0.5, 1}).Draw(t, "density")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var list []uint16
		for off := range uint16(BlockEntries) {
			if rng.Float64() < density {
				list = append(list, off)
			}
		}
		if len(list) == 0 {
			list = []uint16{uint16(rng.IntN(BlockEntries))}
		}
		value := appendPosting([]byte("before"), list)[len("before"):]
		if len(value) > bitmapBytes {
			t.Fatalf("%d offsets in %d bytes", len(list), len(value))
		}
		var set offsets
		must.Do(t, loadPosting(&set, value))
		check.Diff(t, listOf(&set), list, "records")
		var newest []uint64
		for _, off := range slices.Backward(list) {
			newest = append(newest, 4096+uint64(off))
		}
		limit := 1 + rng.IntN(len(list)+1)
		if got := set.appendNewest(nil, 4096, limit); !slices.Equal(got, newest[:min(limit, len(newest))]) {
			t.Fatalf("newest %d: got %v", limit, got)
		}
		from := rng.IntN(BlockEntries + 1)
		to := from + rng.IntN(BlockEntries+1-from)
		set.clip(from, to)
		within := slices.DeleteFunc(slices.Clone(list), func(off uint16) bool { return int(off) < from || int(off) >= to })
		if got := listOf(&set); !slices.Equal(got, within) {
			t.Fatalf("clip [%d,%d): got %v, want %v", from, to, got, within)
		}
	})
}

// TestPostingOfBitmapSize encodes lists about as long as a bitmap, which must not
// be taken for one.
func TestPostingOfBitmapSize(t *testing.T) {
	var list []uint16
	for off := range uint16(bitmapBytes + 4) {
		list = append(list, 2*off)
		var set offsets
		if err := loadPosting(&set, appendPosting(nil, list)); err != nil || !slices.Equal(listOf(&set), list) {
			t.Fatalf("%d offsets: got %v, %v", len(list), listOf(&set), err)
		}
	}
}

func FuzzLoadPosting(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{0x80})
	f.Add([]byte{0xff, 0x1f, 0})
	f.Add(make([]byte, bitmapBytes))
	f.Add(appendPosting(nil, []uint16{1, 2, 300, 4095, BlockEntries - 1}))
	f.Fuzz(func(t *testing.T, value []byte) {
		var set offsets
		if loadPosting(&set, value) != nil {
			return
		}
		list := listOf(&set)
		if len(list) == 0 {
			return // a bitmap without a bit
		}
		var again offsets
		if err := loadPosting(&again, appendPosting(nil, list)); err != nil || again != set {
			t.Fatalf("%x: %v, then %v, %v", value, list, listOf(&again), err)
		}
	})
}

func TestKeyAfter(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"a", "b"}, {"a\xff", "b"}, {"ab\xff\xff", "ac"}, {"\x00", "\x01"},
	} {
		check.Equal(t, string(keyAfter([]byte(c.in))), c.want, "keyAfter(%q)", c.in)
	}
	check.Empty(t, keyAfter([]byte("\xff\xff")), "keyAfter of the last prefix")
}

func TestSplitKey(t *testing.T) {
	const start = 77*BlockEntries + 5
	beginning := appendTerm(nil, testPrefix, "w:ada")
	for _, c := range []struct {
		key   []byte
		block uint64
		off   uint16
	}{
		{appendDirectory(slices.Clone(beginning), 77), 95, directoryOff},
		{appendPart(slices.Clone(beginning), start), 77, 5},
	} {
		term, block, off, err := splitKey(c.key)
		if err != nil || !bytes.Equal(term, beginning) || block != c.block || off != c.off {
			t.Errorf("%x: got %q, %d, %d, %v", c.key, term, block, off, err)
		}
	}
	for _, bad := range []string{"", "abc", "abcdefg", "a\x0012345"} {
		check.Fails(splitKey([]byte(bad)))(t, "splitKey(%q) took it", bad)
	}
}

// TestKeysOfTermSort checks that a scan of a term meets the newest first, and each
// directory before its postings.
func TestKeysOfTermSort(t *testing.T) {
	term := appendTerm(nil, testPrefix, "w:ada")
	key := func(add func([]byte, uint64) []byte, n uint64) []byte { return add(slices.Clone(term), n) }
	keys := [][]byte{
		key(appendDirectory, 64), key(appendPart, 64*BlockEntries+9),
		key(appendDirectory, 33), key(appendPostings, 63), key(appendPart, 63*BlockEntries+BlockEntries-1),
		key(appendPart, 63*BlockEntries), key(appendPostings, 32), key(appendPart, 32*BlockEntries+7),
		key(appendDirectory, 31), key(appendPart, 31*BlockEntries),
	}
	if !slices.IsSortedFunc(keys, bytes.Compare) {
		t.Errorf("not in order: %x", keys)
	}
}

func TestDirectoryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := rapid.Uint64Range(0, 1<<20).Draw(t, "run") << runShift
		var value []byte
		var want []record
		for block := run; block < run+1<<runShift; block++ {
			for range rapid.IntRange(0, 2).Draw(t, "records") {
				posting := rapid.SliceOfN(rapid.Byte(), 0, maxRecord).Draw(t, "posting")
				from := len(value)
				value = appendRecord(value, block, posting)
				if last := len(want) - 1; last >= 0 && want[last].block == block {
					want[last].to = len(value)
				} else {
					want = append(want, record{block, from, len(value)})
				}
			}
		}
		got := must.Get(appendRecords(nil, value, run|(1<<runShift-1)))(t)
		check.Diff(t, got, want, "records")
	})
}

func FuzzAppendRecords(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{3, 1, 7, 3, 0, 5, 2, 1, 1})
	f.Add([]byte{5, 0, 3, 0})
	f.Add([]byte{32, 0})
	f.Add([]byte{1, 9, 1})
	f.Fuzz(func(t *testing.T, value []byte) {
		records, err := appendRecords(nil, value, 63)
		if err != nil {
			return
		}
		var again []byte
		for i, r := range records {
			if i > 0 && records[i-1].block == r.block {
				t.Fatalf("%x: block %d twice", value, r.block)
			}
			again = append(again, value[r.from:r.to]...)
			_, _ = loadRecords(new(offsets), value[r.from:r.to])
		}
		if !bytes.Equal(again, value) {
			t.Fatalf("%x became %x", value, again)
		}
	})
}
