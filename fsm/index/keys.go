package index

import (
	"encoding/binary"
	"errors"
	"fmt"
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
func appendTerm(dst, prefix []byte, term string) []byte {
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

// isFirstPart reports whether no part of the block stands before the one that begins
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
	if err != nil {
		return mark{}, false, fmt.Errorf("index: read seal mark: %w", err)
	}
	if len(value) == markBytes {
		m = mark{version: binary.BigEndian.Uint32(value), sealed: binary.BigEndian.Uint64(value[4:])}
		ok = true
	}
	if err := closer.Close(); err != nil {
		return mark{}, false, fmt.Errorf("index: read seal mark: %w", err)
	}
	if !ok {
		return mark{}, false, errors.New("index: malformed seal mark")
	}
	return m, true, nil
}
