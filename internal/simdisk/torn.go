package simdisk

import (
	"bytes"
	"math/rand/v2"
)

// A sector is written as a whole, and so is a page of bbolt, whose first pages are its meta pages.
const (
	sectorBytes = 512
	pageBytes   = 4096
	metaBytes   = 2 * pageBytes
)

// TornLog returns what a loss of power leaves of a log's files, whose first is bbolt's, while they are
// changed from before to after. Of the others any sectors are there. bbolt syncs the other
// pages before it writes a meta page: the meta pages are old, and any of the others are new.
func TornLog(before, after [][]byte, rng *rand.Rand) [][]byte {
	left := make([][]byte, len(after))
	for i := range after {
		left[i] = bytes.Clone(after[i])
		at, unit := 0, sectorBytes
		if i == 0 && !bytes.Equal(before[0], after[0]) {
			at, unit = copy(left[0][:metaBytes], before[0]), pageBytes
		}
		for ; at < min(len(before[i]), len(left[i])); at += unit {
			if rng.IntN(2) == 0 {
				copy(left[i][at:min(at+unit, len(left[i]))], before[i][at:])
			}
		}
	}
	return left
}
