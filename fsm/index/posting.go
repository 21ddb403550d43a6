package index

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// BlockEntries is the number of entries in a block.
const BlockEntries = 1 << blockShift

const (
	blockShift  = 12
	bitmapWords = BlockEntries / 64
	bitmapBytes = BlockEntries / 8
)

// offsets is a set of entries of one block.
type offsets [bitmapWords]uint64

func (o *offsets) set(off uint16) { o[off>>6] |= 1 << (off & 63) }

func (o *offsets) setList(list []uint16) {
	for _, off := range list {
		o[(off>>6)&(bitmapWords-1)] |= 1 << (off & 63)
	}
}

// and keeps what is in other too and reports whether anything is left.
func (o *offsets) and(other *offsets) bool {
	var left uint64
	for i := range o {
		o[i] &= other[i]
		left |= o[i]
	}
	return left != 0
}

// clip keeps the offsets in [from, to).
func (o *offsets) clip(from, to int) {
	for i := range o {
		switch first := i * 64; {
		case first+64 <= from || first >= to:
			o[i] = 0
		default:
			if from > first {
				o[i] &= ^uint64(0) << (from - first)
			}
			if to < first+64 {
				o[i] &= 1<<(to-first) - 1
			}
		}
	}
}

// A posting value is either a bitmap of exactly bitmapBytes, little-endian, or
// shorter: the offsets in rising order, the first as it is, of the others the
// distance to the one before less one, as varints.

// appendPosting appends the posting value of list, which rises strictly and is
// not empty.
func appendPosting(dst []byte, list []uint16) []byte {
	start := len(dst)
	before := -1
	for _, off := range list {
		gap := int(off) - before - 1
		before = int(off)
		if gap < 0x80 {
			dst = append(dst, byte(gap))
		} else {
			dst = append(dst, byte(gap)|0x80, byte(gap>>7))
		}
		if len(dst)-start >= bitmapBytes {
			return appendBitmap(dst[:start], list)
		}
	}
	return dst
}

func appendBitmap(dst []byte, list []uint16) []byte {
	var set offsets
	set.setList(list)
	for _, word := range set {
		dst = binary.LittleEndian.AppendUint64(dst, word)
	}
	return dst
}

var errPosting = errors.New("index: malformed posting")

// loadPosting adds the offsets of a posting value to dst.
func loadPosting(dst *offsets, value []byte) error {
	if len(value) == bitmapBytes {
		for i := range dst {
			dst[i] |= binary.LittleEndian.Uint64(value[8*i:])
		}
		return nil
	}
	if len(value) == 0 || len(value) > bitmapBytes {
		return errPosting
	}
	off := -1
	for i := 0; i < len(value); i++ {
		gap := int(value[i])
		if gap >= 0x80 {
			i++
			if i == len(value) || value[i] >= 0x80 {
				return errPosting
			}
			gap = gap&0x7f | int(value[i])<<7
		}
		off += gap + 1
		if off >= BlockEntries {
			return errPosting
		}
		dst.set(uint16(off))
	}
	return nil
}

// appendNewest appends the seqs of the set in a block that begins at start,
// newest first, until dst has limit of them.
func (o *offsets) appendNewest(dst []uint64, start uint64, limit int) []uint64 {
	for i := bitmapWords - 1; i >= 0; i-- {
		for word := o[i]; word != 0; {
			if len(dst) == limit {
				return dst
			}
			top := bits.Len64(word) - 1
			word &^= 1 << top
			dst = append(dst, start+uint64(i*64+top))
		}
	}
	return dst
}
