package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// maxPartBytes is the memory at which a part ends. A block of texts of 1 KB in one
// language takes less, and so does the largest entry.
const maxPartBytes = 32 << 20

// startLength is the number of bytes of a word in part.starts.
const startLength = 3

// part is a run of entries of one block whose postings are in memory: the whole block,
// unless its terms take more than maxPartBytes. One goroutine adds to it; others may read.
// Lists are append-only: a slice of one, taken under the lock, may be read without it.
type part struct {
	start uint64        // the seq of its first entry
	end   atomic.Uint64 // the seq after its last entry; until it is full, the end of its block

	mu sync.RWMutex
	table
	// starts holds for the first bytes of a word the newest word that begins with them, as
	// its id plus one; term.before links to the next.
	starts map[uint32]uint32
}

// newPart returns an empty part that begins with the entry start, with room for terms.
func newPart(start uint64, terms int) *part {
	terms = max(terms, minTerms)
	p := &part{start: start, table: newTable(terms + terms/8), starts: make(map[uint32]uint32)}
	p.end.Store((p.block() + 1) << blockShift)
	return p
}

// block is the number of the block that the part belongs to.
func (p *part) block() uint64 { return p.start >> blockShift }

// add indexes the entry at off, which is higher than all offsets before.
func (p *part) add(off uint16, terms, words []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, term := range terms {
		if word, ok := strings.CutPrefix(term, WordClass); ok {
			p.addText(off, word, p.hash(word), wordName)
		} else {
			p.addText(off, term, p.hash(term), 0)
		}
	}
	for len(words) > 0 {
		some := words[:min(len(words), lookAhead)]
		words = words[len(some):]
		var hashes [lookAhead]uint64
		p.warm(&hashes, some)
		for i, word := range some {
			p.addText(off, word, hashes[i], wordName)
		}
	}
}

func (p *part) addText(off uint16, text string, hash uint64, class byte) {
	id, ok := p.find(text, hash, class)
	if !ok {
		id = p.newTerm(text, hash, class)
	}
	p.file(id, off)
}

// newTerm returns the id of a term, which is new unless it is escaped.
func (p *part) newTerm(text string, hash uint64, class byte) uint32 {
	if escaped := escapeTerm(text); escaped != text {
		text, hash = escaped, p.hash(escaped)
		if id, ok := p.find(text, hash, class); ok {
			return id
		}
	}
	if class != wordName {
		return p.insert(text, hash, class, 0)
	}
	start := wordStart(text)
	id := p.insert(text, hash, class, p.starts[start])
	p.starts[start] = id + 1
	return id
}

func wordStart(word string) uint32 {
	var start uint32
	for i := range min(len(word), startLength) {
		start |= uint32(word[i]) << (8 * i)
	}
	return start
}

// offsetsOf returns the offsets of an escaped term, in short if they fit there, also those
// of entries after the reader's cut.
func (p *part) offsetsOf(term string, short *[inlineList]uint16) []uint16 {
	class := byte(0)
	if word, ok := strings.CutPrefix(term, WordClass); ok {
		term, class = word, wordName
	}
	hash := p.hash(term)
	p.mu.RLock()
	defer p.mu.RUnlock()
	id, ok := p.find(term, hash, class)
	if !ok {
		return nil
	}
	return p.list(id, short)
}

// visitWords calls visit for words of the part that begin with prefix and have an
// offset below to, the newest first, while it holds the lock. The arguments of visit
// are valid only during the call. It examines at most look words, and returns how many
// of look are left.
func (p *part) visitWords(prefix string, to, look int, visit func(id uint32, word []byte)) int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var text []byte
	var short [inlineList]uint16
	visitIf := func(id uint32) {
		e := &p.terms[id]
		text = p.appendText(text[:0], e.name)
		if !strings.HasPrefix(string(text), prefix) {
			return
		}
		// Most words end below to: their lists need not be read.
		if int(e.last) < to || int(p.list(id, &short)[0]) < to {
			visit(id, text)
		}
	}
	if len(prefix) >= startLength {
		for id := p.starts[wordStart(prefix)]; id != 0 && look > 0; look-- {
			visitIf(id - 1)
			id = p.terms[id-1].before
		}
		return look
	}
	for i := len(p.terms) - 1; i >= 0 && look > 0; i-- {
		if p.terms[i].name.isWord() {
			look--
			visitIf(uint32(i))
		}
	}
	return look
}

// The keyspace, all of it below Options.Prefix:
//
//	m                       the seal mark: version (4 bytes), sealed seq (8 bytes)
//	p term 00 ^block 0000   the directory of a term in a run of blocks, under the newest
//	                        block that the run may have: where the term occurs, and
//	                        all postings that are short
//	p term 00 ^block ^off   a longer posting: the offsets of the term's entries in the
//	                        sealed part of a block that begins at off
//
// Numbers are big-endian. Block and offset are complemented, so that a forward scan of
// a term meets the newest run first, and in it the directory. A seal merges its record
// into the directory: Pebble appends it, and joins the records when it compacts. So a
// rare term has one key for a million entries, and a search for it reads one value.
// In a part of few entries, a posting of more than one entry is long, so that the
// directories of a block of many parts fit into memory.
//
// A posting is valid wherever its part ended: unfinished parts and duplicate records do
// no harm.
const (
	markKey    = 'm'
	postingKey = 'p'

	blockBytes = 4 // of a block number in a key
	partBytes  = 2 // of a part's first offset in a key
	markBytes  = 4 + 8

	// layout is the version of this layout. An index with another one is dropped.
	layout      = 1
	layoutShift = 24
)

// A run is a number of blocks whose short postings are stored together.
const (
	runShift = 5
	// maxBlock is above every block that a key can name.
	maxBlock = 1 << (8 * blockBytes)
	// maxRecord is the length of the longest posting that is stored in a directory.
	maxRecord = 64
	// maxFewRecord takes the place of maxRecord in a part with fewer entries than
	// fewEntries.
	fewEntries   = BlockEntries / 8
	maxFewRecord = 2
	// recordHead is how many bytes a record has before its posting.
	recordHead = 2
)

// WordClass leads the terms that are words of a text: "ada" has the term WordClass + "ada".
const WordClass = "w:"

// escapeTerm ensures that the end of a term in a key is unambiguous. 0xff is in no
// valid UTF-8, so no two terms of text get the same key.
func escapeTerm(term string) string {
	if strings.IndexByte(term, 0) < 0 {
		return term
	}
	return strings.ReplaceAll(term, "\x00", "\xff")
}

// appendTerm appends the prefix of all keys of the term's postings.
func appendTerm[T string | []byte](dst, prefix []byte, term T) []byte {
	dst = append(dst, prefix...)
	dst = append(dst, postingKey)
	dst = append(dst, term...)
	return append(dst, 0)
}

// appendBlock appends the part of a posting's key that names the block.
func appendBlock(dst []byte, block uint64) []byte {
	return binary.BigEndian.AppendUint32(dst, ^uint32(block))
}

// appendPart appends the end of a posting's key: the part that begins with start.
func appendPart(dst []byte, start uint64) []byte {
	return binary.BigEndian.AppendUint16(appendBlock(dst, start>>blockShift), ^uint16(start%BlockEntries))
}

// directoryOff is in a directory's key in place of an offset.
const directoryOff = 1<<16 - 1

// appendDirectory appends the end of the key of the directory for a block.
func appendDirectory(dst []byte, block uint64) []byte {
	return append(appendBlock(dst, block|(1<<runShift-1)), 0, 0)
}

// appendPostings appends a key end between a directory and all postings of a block.
func appendPostings(dst []byte, block uint64) []byte { return append(appendBlock(dst, block), 0, 1) }

// splitKey splits a key into the prefix of its term, the block, and the offset of the part.
func splitKey(key []byte) (term []byte, block uint64, off uint16, err error) {
	cut := len(key) - blockBytes - partBytes
	if cut < 1 || key[cut-1] != 0 {
		return nil, 0, 0, fmt.Errorf("index: malformed posting key %x", key)
	}
	return key[:cut], uint64(^binary.BigEndian.Uint32(key[cut:])), ^binary.BigEndian.Uint16(key[cut+blockBytes:]), nil
}

// keyAfter returns the first key after all that begin with prefix, or nil.
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

// mark is the seal mark: the end of what is sealed, and the version of the terms.
type mark struct {
	version uint32
	sealed  uint64
}

func (m mark) encode() []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, markBytes), m.version)
	return binary.BigEndian.AppendUint64(b, m.sealed)
}

// readMark returns the seal mark, and false before the first.
func readMark(r pebble.Reader, prefix []byte) (m mark, ok bool, err error) {
	value, closer, err := r.Get(append(slices.Clip(prefix), markKey))
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return m, false, nil
	case err != nil:
		return m, false, fmt.Errorf("index: read seal mark: %w", err)
	case len(value) != markBytes:
		return m, false, errors.Join(errors.New("index: malformed seal mark"), closer.Close())
	}
	m = mark{version: binary.BigEndian.Uint32(value), sealed: binary.BigEndian.Uint64(value[4:])}
	return m, true, closer.Close()
}

// BlockEntries is the number of entries in a block.
const BlockEntries = 1 << blockShift

const (
	blockShift  = 15
	bitmapWords = BlockEntries / 64
	bitmapBytes = BlockEntries / 8
)

// Bitmap is a set of seqs of a block, the lowest bit of a byte first; nil is empty.
type Bitmap []byte

// Has reports whether a seq of the block is in the set.
func (b Bitmap) Has(seq uint64) bool {
	at := seq % BlockEntries
	return len(b) > 0 && b[at/8]&(1<<(at%8)) != 0
}

// With returns the set with a seq added.
func (b Bitmap) With(seq uint64) Bitmap {
	at, with := seq%BlockEntries, make(Bitmap, bitmapBytes)
	copy(with, b)
	with[at/8] |= 1 << (at % 8)
	return with
}

// Or returns the union of both sets.
func (b Bitmap) Or(other Bitmap) Bitmap {
	if len(b) == 0 {
		return other
	}
	either := slices.Clone(b)
	for i, bits := range other {
		either[i] |= bits
	}
	return either
}

// Without returns the set without a seq.
func (b Bitmap) Without(seq uint64) Bitmap {
	at, without := seq%BlockEntries, slices.Clone(b)
	if len(without) > 0 {
		without[at/8] &^= 1 << (at % 8)
	}
	if !slices.ContainsFunc(without, func(b byte) bool { return b != 0 }) {
		return nil
	}
	return without
}

// offsets is a set of entries of one block.
type offsets [bitmapWords]uint64

func (o *offsets) set(off uint16) { o[off>>6] |= 1 << (off & 63) }

func (o *offsets) setList(list []uint16) {
	for _, off := range list {
		o[(off>>6)&(bitmapWords-1)] |= 1 << (off & 63)
	}
}

// and intersects the set with other and reports whether anything is left.
func (o *offsets) and(other *offsets) bool {
	var left uint64
	for i := range o {
		o[i] &= other[i]
		left |= o[i]
	}
	return left != 0
}

// fill adds every offset.
func (o *offsets) fill() {
	for i := range o {
		o[i] = math.MaxUint64
	}
}

// remove removes the offsets of another set.
func (o *offsets) remove(other *offsets) {
	for i := range o {
		o[i] &^= other[i]
	}
}

// andNot removes what is in a bitmap.
func (o *offsets) andNot(bitmap Bitmap) {
	for i := 0; i < len(o) && len(bitmap) >= 8; i, bitmap = i+1, bitmap[8:] {
		o[i] &^= binary.LittleEndian.Uint64(bitmap)
	}
}

// each calls visit for each offset of the set, in order.
func (o *offsets) each(visit func(off int)) {
	for i, word := range o {
		for ; word != 0; word &= word - 1 {
			visit(i*64 + bits.TrailingZeros64(word))
		}
	}
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

// A posting value is either a bitmap of exactly bitmapBytes, little-endian, or shorter:
// the offsets in rising order as varints, the first one as it is, each other one as the
// difference to the one before, minus one.

// appendPosting appends the posting value of a list that rises and is not empty.
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
			var set offsets
			set.setList(list)
			dst = dst[:start]
			for _, word := range set {
				dst = binary.LittleEndian.AppendUint64(dst, word)
			}
			return dst
		}
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
			if i == len(value) {
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

// A directory is a sequence of records, by rising blocks: the block in its run (1
// byte), the length of the posting (1 byte), and the posting. Length 0 says that the
// posting has a key of its own.

// appendRecord appends the record of a posting in a block.
func appendRecord(dst []byte, block uint64, posting []byte) []byte {
	dst = append(dst, byte(block&(1<<runShift-1)), byte(len(posting)))
	return append(dst, posting...)
}

// record is the position of one block's records in a directory.
type record struct {
	block    uint64
	from, to int
}

// appendRecords appends the records of the directory whose key names block.
func appendRecords(dst []record, directory []byte, block uint64) ([]record, error) {
	first := block &^ (1<<runShift - 1)
	for at := 0; at < len(directory); {
		if len(directory)-at < recordHead {
			return nil, errPosting
		}
		r := record{block: first + uint64(directory[at]), from: at}
		r.to = at + recordHead + int(directory[at+1])
		last := len(dst) - 1
		if r.block > block || r.to > len(directory) || last >= 0 && dst[last].block > r.block {
			return nil, errPosting
		}
		if last >= 0 && dst[last].block == r.block {
			dst[last].to = r.to
		} else {
			dst = append(dst, r)
		}
		at = r.to
	}
	return dst, nil
}

// loadRecords adds the offsets of a block's records, and reports whether it has long
// postings.
func loadRecords(dst *offsets, records []byte) (long bool, err error) {
	for posting := range postingsOf(records) {
		if len(posting) == 0 {
			long = true
		} else if err := loadPosting(dst, posting); err != nil {
			return false, err
		}
	}
	return long, nil
}

// postingsOf goes through the postings of records; an empty one has a key of its own.
func postingsOf(records []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(records) > 0 {
			end := recordHead + int(records[1])
			if !yield(records[recordHead:end]) {
				return
			}
			records = records[end:]
		}
	}
}

// appendNewest appends the seqs of the set, newest first, until dst has limit of them.
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
