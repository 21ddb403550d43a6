package index

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestTable files offsets under texts of all lengths, with few hashes or one, so
// that most lookups meet another term first, and compares the table with a map.
func TestTable(t *testing.T) {
	type key struct {
		text  string
		class byte
	}
	rapid.Check(t, func(t *rapid.T) {
		hashes := rapid.SampledFrom([]uint64{1, 2, 50, 1 << 40}).Draw(t, "hashes")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		letters := 1 + rng.IntN(26)
		tb := newTable(0)
		hash := func(text string) uint64 { return ^(tb.hash(text) % hashes) }
		ids, want := map[key]uint32{}, map[key][]uint16{}
		for off := range uint16(300) {
			for range rng.IntN(40) {
				text := make([]byte, rng.IntN(20))
				for i := range text {
					text[i] = 'a' + byte(rng.IntN(letters))
				}
				k := key{string(text), wordName * byte(rng.IntN(2))}
				h := hash(k.text)
				id, ok := tb.find(k.text, h, k.class)
				if have, known := ids[k]; ok != known || ok && id != have {
					t.Fatalf("%q: found %d, %v, want %d, %v", k.text, id, ok, have, known)
				}
				if !ok {
					id = tb.insert(k.text, h, k.class, 0)
					ids[k] = id
				}
				tb.file(id, off)
				if list := want[k]; len(list) == 0 || list[len(list)-1] != off {
					want[k] = append(list, off)
				}
			}
		}
		must.Equal(t, len(tb.terms), len(ids), "terms")
		for k, id := range ids {
			if got, ok := tb.find(k.text, hash(k.text), k.class); !ok || got != id {
				t.Fatalf("%q: found %d, %v, want %d", k.text, got, ok, id)
			}
			text := k.text
			if k.class == wordName {
				text = WordClass + text
			}
			must.Equal(t, string(tb.appendTerm(nil, id)), text, "got the text")
			var short [inlineList]uint16
			if got := tb.list(id, &short); !slices.Equal(got, want[k]) {
				t.Fatalf("%q: got %v, want %v", k.text, got, want[k])
			}
		}
	})
}

// TestTableLists grows lists of all lengths beside each other, and checks that a
// list that was taken stays as it was, and that all memory for them is counted.
func TestTableLists(t *testing.T) {
	tb := newTable(0)
	texts := make([]string, 40)
	for i := range texts {
		texts[i] = strings.Repeat("x", i)
		tb.insert(texts[i], tb.hash(texts[i]), 0, 0)
	}
	type taken struct{ list, want []uint16 }
	var all []taken
	for off := range uint16(BlockEntries) {
		for id := range texts {
			if int(off)%(id+1) != 0 {
				continue
			}
			tb.file(uint32(id), off)
			tb.file(uint32(id), off)
			if id == 0 && off%7 == 0 || off%1000 == 0 {
				list := tb.list(uint32(id), new([inlineList]uint16))
				all = append(all, taken{list, slices.Clone(list)})
			}
		}
	}
	for _, k := range all {
		if !slices.Equal(k.list, k.want) {
			t.Fatalf("a list of %d changed", len(k.want))
		}
	}
	for id := range texts {
		var want []uint16
		for off := 0; off < BlockEntries; off += id + 1 {
			want = append(want, uint16(off))
		}
		check.Diff(t, tb.list(uint32(id), new([inlineList]uint16)), want, "every %d", id+1)
	}
	room := 0
	for _, chunk := range tb.room {
		room += offsetBytes * len(chunk)
	}
	for _, text := range texts {
		room += termBytes
		if len(text) > shortName {
			room += longBytes + len(text)
		}
	}
	check.Equal(t, tb.bytes, room, "bytes counted")
}
