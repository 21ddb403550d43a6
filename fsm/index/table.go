package index

import (
	"encoding/binary"
	"hash/maphash"
	"strings"
)

// table holds the terms of a part and their offsets. It is made so that filing a
// term that is known reads two places in memory: a slot, and the term itself with
// its text and its first offsets. It holds no pointers but to long terms.
// With a Go map, filing an entry takes 40 % more CPU time (BenchmarkApply).
type table struct {
	seed maphash.Seed
	// slots has the place of each term, by the hash of its text. A slot is the
	// upper half of the hash, and the term's id plus one; 0 is free. At most
	// three of four are taken.
	slots []uint64
	terms []term   // by id: in the order in which they came
	long  []string // texts that do not fit into a term
	room  [][]uint16
	used  int    // of the last chunk of room
	sum   uint16 // of what warm has read
	bytes int    // memory of all this, about; see termBytes
}

// term is one term of a part.
type term struct {
	name   name
	inline uint64 // the first inlineList offsets; of a longer list its place in room
	before uint32 // id plus one of the word before with the same start, or 0
	count  uint16 // offsets
	last   uint16 // the greatest offset
}

// name is the text of a term, escaped and without WordClass. A text of at most
// shortName bytes is in it. Of a longer one it has the hash and the index in
// table.long. The last byte has the length or longName, and wordName. It is a struct
// rather than an array, because the compiler keeps only structs in registers.
type name struct {
	start uint64 // the first eight bytes
	rest  uint64
}

const (
	shortName = 15
	longName  = 0x7f
	wordName  = 0x80 // of a word
	tagShift  = 56   // of the last byte
)

// Sizes of a table.
const (
	minTerms   = 1 << 10 // terms that a part has room for when it is made
	inlineList = 4       // offsets that fit into a term
	chunkShift = 16      // of a chunk of room, in offsets; a list is at most BlockEntries long
	chunkSize  = 1 << chunkShift
	slotShift  = 32 // of the hash in a slot
)

// The memory of a table. It is counted, not measured, so that the parts of a block
// end at the same entries whenever they are built again.
const (
	// termBytes is the memory of a term without a long text and room: itself in a
	// slice that grows by a quarter, its place in slots that double, and its
	// start.
	termBytes = 112
	// longBytes is the memory of a long text beside its bytes.
	longBytes = 32
	// offsetBytes is the memory of room for one offset.
	offsetBytes = 2
)

// newTable returns a table with room for some terms.
func newTable(terms int) table {
	size := minTerms
	for size*3 < terms*4 {
		size *= 2
	}
	return table{
		seed: maphash.MakeSeed(), slots: make([]uint64, size), terms: make([]term, 0, terms),
		used: chunkSize,
	}
}

// makeName returns the name of a text with a hash; of a long one without its index.
func makeName(text string, hash uint64, class byte) name {
	if len(text) > shortName {
		return name{hash, uint64(class|longName) << tagShift}
	}
	tag := uint64(class|byte(len(text))) << tagShift
	switch size := len(text); {
	case size >= 8:
		rest := uint64(load4(text[size-8:])) | uint64(load4(text[size-4:]))<<32
		return name{uint64(load4(text)) | uint64(load4(text[4:]))<<32, rest>>(8*(16-size)) | tag}
	case size >= 4:
		return name{uint64(load4(text)) | uint64(load4(text[size-4:]))<<(8*(size-4)), tag}
	default:
		start := uint64(0)
		for i := range size {
			start |= uint64(text[i]) << (8 * i)
		}
		return name{start, tag}
	}
}

// load4 returns the first four bytes of s, the first one as the lowest.
func load4(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func (n name) isWord() bool { return n.rest>>tagShift&wordName != 0 }

// appendText appends the text of a term without its class.
func (t *table) appendText(dst []byte, n name) []byte {
	size := n.rest >> tagShift &^ wordName
	if size == longName {
		return append(dst, t.long[uint32(n.rest)]...)
	}
	var b [shortName + 1]byte
	binary.LittleEndian.PutUint64(b[:8], n.start)
	binary.LittleEndian.PutUint64(b[8:], n.rest)
	return append(dst, b[:size&shortName]...)
}

// appendTerm appends a term with its class.
func (t *table) appendTerm(dst []byte, id uint32) []byte {
	n := t.terms[id].name
	if n.isWord() {
		dst = append(dst, WordClass...)
	}
	return t.appendText(dst, n)
}

// is reports whether a term has a name that makeName made of text.
func (t *table) is(have, want name, text string) bool {
	if len(text) <= shortName {
		return have == want
	}
	return have.start == want.start && have.rest>>tagShift == want.rest>>tagShift && t.long[uint32(have.rest)] == text
}

func (t *table) hash(text string) uint64 { return maphash.String(t.seed, text) }

// find returns the id of a term.
func (t *table) find(text string, hash uint64, class byte) (id uint32, ok bool) {
	want := makeName(text, hash, class)
	mask := uint64(len(t.slots) - 1)
	for at := hash >> slotShift & mask; ; at = (at + 1) & mask {
		slot := t.slots[at]
		if slot == 0 {
			return 0, false
		}
		if slot>>slotShift == hash>>slotShift {
			id := uint32(slot) - 1
			if t.is(t.terms[id].name, want, text) {
				return id, true
			}
		}
	}
}

// lookAhead is how many words are looked for at once.
const lookAhead = 64

// warm hashes words, and reads the slots and terms that find and file will read. Each of
// these reads may wait for memory: here they do not wait for each other.
func (t *table) warm(hashes *[lookAhead]uint64, words []string) {
	var slots [lookAhead]uint64
	mask := uint64(len(t.slots) - 1)
	for i, word := range words {
		hash := t.hash(word)
		hashes[i&(lookAhead-1)] = hash
		slots[i&(lookAhead-1)] = t.slots[hash>>slotShift&mask]
	}
	for i := range words {
		if slot := slots[i&(lookAhead-1)]; slot != 0 {
			t.sum += t.terms[uint32(slot)-1].last
		}
	}
}

// insert adds a term that is not there, without offsets. text is escaped.
func (t *table) insert(text string, hash uint64, class byte, before uint32) (id uint32) {
	n := makeName(text, hash, class)
	t.bytes += termBytes
	if len(text) > shortName {
		n.rest |= uint64(len(t.long))
		t.long = append(t.long, strings.Clone(text))
		t.bytes += longBytes + len(text)
	}
	id = uint32(len(t.terms))
	t.terms = append(t.terms, term{name: n, before: before})
	if len(t.terms)*4 > len(t.slots)*3 {
		old := t.slots
		t.slots = make([]uint64, 2*len(old))
		for _, slot := range old {
			if slot != 0 {
				t.place(slot)
			}
		}
	}
	t.place(hash>>slotShift<<slotShift | uint64(id+1))
	return id
}

// place puts a slot where find looks for it.
func (t *table) place(slot uint64) {
	mask := uint64(len(t.slots) - 1)
	at := slot >> slotShift & mask
	for t.slots[at] != 0 {
		at = (at + 1) & mask
	}
	t.slots[at] = slot
}

// file adds an offset to a term, unless it was the last one added.
func (t *table) file(id uint32, off uint16) {
	e := &t.terms[id]
	n := e.count
	if n > 0 && e.last == off {
		return
	}
	e.last, e.count = off, n+1
	if n < inlineList {
		e.inline |= uint64(off) << (16 * n)
		return
	}
	if n&(n-1) == 0 {
		e.inline = t.grow(e)
	}
	t.room[e.inline>>chunkShift][e.inline%chunkSize+uint64(n)] = off
}

// grow copies the offsets of a term to a place in room for twice as many. Readers keep the
// old one.
func (t *table) grow(e *term) uint64 {
	had := int(e.count) - 1
	if chunkSize-t.used < 2*had {
		t.room = append(t.room, make([]uint16, chunkSize))
		t.used = 0
		t.bytes += offsetBytes * chunkSize
	}
	last := len(t.room) - 1
	to := t.room[last][t.used:]
	if had == inlineList {
		for i := range had {
			to[i] = uint16(e.inline >> (16 * i))
		}
	} else {
		copy(to, t.room[e.inline>>chunkShift][e.inline%chunkSize:][:had])
	}
	at := uint64(last)<<chunkShift | uint64(t.used)
	t.used += 2 * had
	return at
}

// list returns the offsets of a term, in short if they fit there. They never change.
func (t *table) list(id uint32, short *[inlineList]uint16) []uint16 {
	e := &t.terms[id]
	if e.count > inlineList {
		return t.room[e.inline>>chunkShift][e.inline%chunkSize:][:e.count]
	}
	for i := range short {
		short[i] = uint16(e.inline >> (16 * i))
	}
	return short[:e.count]
}
