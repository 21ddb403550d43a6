package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// The keyspace, all of it below Options.Prefix:
//
//	m                      the seal mark: version (4 bytes), sealed seq (8 bytes)
//	p term 00 ^block ^off  the offsets of the term's entries in a sealed part of a
//	                       block that begins at off
//
// Numbers are big-endian. Block and offset are complemented, so that a forward scan
// of a term meets the newest part first. What a posting says is true wherever its
// part ended: parts that were begun and not finished do no harm.
const (
	markKey    = 'm'
	postingKey = 'p'

	blockBytes = 4 // of a block number in a key
	partBytes  = 2 // of a part's first offset in a key
	markBytes  = 4 + 8
)

// WordClass is the class of the terms that are words of a text. The word "ada"
// has the term WordClass + "ada".
const WordClass = "w:"

// escapeTerm makes sure that a term cannot run into what follows it in a key.
// 0xff is in no valid UTF-8, so that no two terms of text meet here.
func escapeTerm(term string) string {
	if strings.IndexByte(term, 0) < 0 {
		return term
	}
	return strings.ReplaceAll(term, "\x00", "\xff")
}

// appendTerm appends what the keys of all postings of the term begin with.
func appendTerm[T string | []byte](dst, prefix []byte, term T) []byte {
	dst = append(dst, prefix...)
	dst = append(dst, postingKey)
	dst = append(dst, term...)
	return append(dst, 0)
}

// appendBlock appends what the keys of a term's postings in a block go on with.
func appendBlock(dst []byte, block uint64) []byte {
	return binary.BigEndian.AppendUint32(dst, ^uint32(block))
}

// appendPart appends the end of a posting's key: the part that begins with the
// entry start.
func appendPart(dst []byte, start uint64) []byte {
	return binary.BigEndian.AppendUint16(appendBlock(dst, start>>blockShift), ^uint16(start%BlockEntries))
}

// splitKey cuts a posting's key into what all keys of its term begin with, the
// block, and the first seq of the part.
func splitKey(key []byte) (term []byte, block, start uint64, err error) {
	cut := len(key) - blockBytes - partBytes
	if cut < 1 || key[cut-1] != 0 {
		return nil, 0, 0, fmt.Errorf("index: malformed posting key %x", key)
	}
	block = uint64(^binary.BigEndian.Uint32(key[cut:]))
	return key[:cut], block, block<<blockShift + uint64(^binary.BigEndian.Uint16(key[cut+blockBytes:])), nil
}

// isFirstPart reports whether no part of the block comes before the one that begins
// with the entry start.
func isFirstPart(block, start uint64) bool { return start == block<<blockShift }

// keyAfter returns the first key after all that begin with prefix, nil if there is none.
func keyAfter(prefix []byte) []byte {
	for end := len(prefix); end > 0; end-- {
		if prefix[end-1] != 0xff {
			after := append([]byte(nil), prefix[:end]...)
			after[end-1]++
			return after
		}
	}
	return nil
}

// mark says up to where the index is in Pebble, and how its terms were made.
type mark struct {
	version uint32
	sealed  uint64
}

func (m mark) encode() []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, markBytes), m.version)
	return binary.BigEndian.AppendUint64(b, m.sealed)
}

// readMark returns the seal mark, and false if there is none yet.
func readMark(r pebble.Reader, prefix []byte) (m mark, ok bool, err error) {
	value, closer, err := r.Get(append(slices.Clip(prefix), markKey))
	if errors.Is(err, pebble.ErrNotFound) {
		return mark{}, false, nil
	}
	if err == nil {
		if ok = len(value) == markBytes; ok {
			m = mark{version: binary.BigEndian.Uint32(value), sealed: binary.BigEndian.Uint64(value[4:])}
		} else {
			err = errors.New("malformed")
		}
		err = errors.Join(err, closer.Close())
	}
	if err != nil {
		return mark{}, false, fmt.Errorf("index: read seal mark: %w", err)
	}
	return m, ok, nil
}

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
