package index

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
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
		if err := loadPosting(&set, value); err != nil {
			t.Fatal(err)
		}
		if got := listOf(&set); !slices.Equal(got, list) {
			t.Fatalf("got %v, want %v", got, list)
		}
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
	f.Add(appendPosting(nil, []uint16{1, 2, 300, 4095}))
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
		if got := keyAfter([]byte(c.in)); string(got) != c.want {
			t.Errorf("keyAfter(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	if got := keyAfter([]byte("\xff\xff")); got != nil {
		t.Errorf("keyAfter of the last prefix = %x", got)
	}
}

func TestSplitKey(t *testing.T) {
	const start = 77*BlockEntries + 5
	key := appendPart(appendTerm(nil, testPrefix, "w:ada"), start)
	term, block, first, err := splitKey(key)
	if err != nil || string(term) != string(testPrefix)+"pw:ada\x00" || block != 77 || first != start {
		t.Errorf("got %q, %d, %d, %v", term, block, first, err)
	}
	for _, bad := range []string{"", "abc", "abcdefg", "a\x0012345"} {
		if _, _, _, err := splitKey([]byte(bad)); err == nil {
			t.Errorf("splitKey(%q) took it", bad)
		}
	}
}
