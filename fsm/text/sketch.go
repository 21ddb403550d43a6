package text

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/bits"
)

// The sketch of a text is made of the least hashes of its runs of words: texts that
// share most of these runs share some parts of their sketches.
const (
	// sketchParts is how many parts a sketch has, of 8 bytes each. Of texts with seven in
	// ten runs in common, 98 in 100 pairs share one; with two in ten, 22.
	sketchParts = 6
	// sketchRows is how many least hashes make a part, and sketchRun how many words a run.
	sketchRows = 2
	sketchRun  = 3
	// sketchWords is how many words a text must have more than: a short one says what
	// others say, too.
	sketchWords = 50
)

// Sketch returns what near-duplicates of some texts, taken together, have in common with
// them; nil of those that are short.
func Sketch(texts []string) []byte {
	var words []string
	for _, s := range texts {
		words = Words(words, s)
	}
	if len(words) <= sketchWords {
		return nil
	}
	var least [sketchParts * sketchRows]uint64
	for i := range least {
		least[i] = math.MaxUint64
	}
	for i := range len(words) - sketchRun + 1 {
		h := fnv.New64a()
		for _, w := range words[i : i+sketchRun] {
			_, _ = h.Write(append([]byte(w), 0)) // never fails
		}
		run := h.Sum64()
		for j := range least {
			least[j] = min(least[j], mix(run+uint64(j)<<32))
		}
	}
	sketch := make([]byte, 0, sketchParts*8)
	for part := range sketchParts {
		sum := uint64(part)
		for _, l := range least[part*sketchRows : (part+1)*sketchRows] {
			sum = mix(bits.RotateLeft64(sum, 1) ^ l)
		}
		sketch = binary.BigEndian.AppendUint64(sketch, sum)
	}
	return sketch
}

// mix spreads the bits of a number over all of it (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
