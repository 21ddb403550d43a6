package index

import (
	"strings"
	"sync"
)

// block is a block whose postings are in memory. One goroutine adds to it;
// others may look at it meanwhile.
//
// Lists only grow at their end: a slice of one, taken under the lock, may be
// read without it.
type block struct {
	number uint64

	mu    sync.RWMutex
	ids   map[string]uint32 // of the terms that are not words
	words map[string]uint32 // of the words, without their class
	terms []postings
	// starts holds for the first bytes of a word the newest word that begins
	// with them, as its id plus one; postings.before goes on from there.
	starts map[uint32]uint32
	arena  []uint16 // room for short lists
}

// postings is one term of a block in memory.
type postings struct {
	term   string
	list   []uint16
	before uint32 // id plus one of the word before with the same start; 0: none
}

// Sizes of a block in memory, in entries of what they count.
const (
	minTerms    = 1 << 10  // terms that a block has room for when it is made
	arenaChunk  = 16 << 10 // offsets
	firstList   = 2        // offsets of a new term's list
	arenaList   = 512      // offsets of the longest list kept in the arena
	startLength = 3        // bytes of a word in starts
)

// newBlock returns an empty block; terms is how many it will probably have.
func newBlock(number uint64, terms int) *block {
	terms = max(terms, minTerms)
	return &block{
		number: number,
		ids:    make(map[string]uint32),
		words:  make(map[string]uint32, terms),
		starts: make(map[uint32]uint32),
		terms:  make([]postings, 0, terms+terms/8),
	}
}

// start is the seq of the block's first entry.
func (b *block) start() uint64 { return b.number << blockShift }

// end is the seq after the block's last entry.
func (b *block) end() uint64 { return (b.number + 1) << blockShift }

// add files the entry at off under its terms and words. off is above all before.
func (b *block) add(off uint16, terms, words []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, term := range terms {
		if word, ok := strings.CutPrefix(term, WordClass); ok {
			b.addWord(off, word)
			continue
		}
		id, ok := b.ids[term]
		if !ok {
			id = b.newTerm(escapeTerm(term))
		}
		b.append(id, off)
	}
	for _, word := range words {
		b.addWord(off, word)
	}
}

func (b *block) addWord(off uint16, word string) {
	id, ok := b.words[word]
	if !ok {
		id = b.newWord(escapeTerm(word))
	}
	b.append(id, off)
}

// newTerm returns the id of an escaped term, which is new unless it was escaped.
func (b *block) newTerm(term string) uint32 {
	if id, ok := b.ids[term]; ok {
		return id
	}
	id := uint32(len(b.terms))
	term = strings.Clone(term)
	b.terms = append(b.terms, postings{term: term})
	b.ids[term] = id
	return id
}

// newWord is newTerm for a word without its class.
func (b *block) newWord(word string) uint32 {
	if id, ok := b.words[word]; ok {
		return id
	}
	id := uint32(len(b.terms))
	start := wordStart(word)
	p := postings{term: WordClass + word, before: b.starts[start]}
	b.starts[start] = id + 1
	b.terms = append(b.terms, p)
	b.words[p.term[len(WordClass):]] = id
	return id
}

func (b *block) append(id uint32, off uint16) {
	p := &b.terms[id]
	n := len(p.list)
	if n > 0 && p.list[n-1] == off {
		return
	}
	if n == cap(p.list) {
		p.list = b.grow(p.list)
	}
	p.list = append(p.list, off)
}

func wordStart(word string) uint32 {
	var start uint32
	for i := range min(len(word), startLength) {
		start |= uint32(word[i]) << (8 * i)
	}
	return start
}

// grow returns list with at least one free place. The old array stays as it is
// for those who read it.
func (b *block) grow(list []uint16) []uint16 {
	size := max(firstList, 2*cap(list))
	if size > arenaList {
		return append(make([]uint16, 0, size), list...)
	}
	if len(b.arena) < size {
		b.arena = make([]uint16, arenaChunk)
	}
	room := b.arena[:0:size]
	b.arena = b.arena[size:]
	return append(room, list...)
}

// list returns the offsets of a term. Some may belong to entries that were added
// after the reader's cut.
func (b *block) list(term string) []uint16 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	ids := b.ids
	if word, ok := strings.CutPrefix(term, WordClass); ok {
		ids, term = b.words, word
	}
	id, ok := ids[term]
	if !ok {
		return nil
	}
	return b.terms[id].list
}

// visitWords calls visit for each word of the block that begins with prefix, in
// no order, while it holds the lock.
func (b *block) visitWords(prefix string, visit func(word string, list []uint16)) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if len(prefix) >= startLength {
		for id := b.starts[wordStart(prefix)]; id != 0; {
			p := &b.terms[id-1]
			id = p.before
			if word := p.term[len(WordClass):]; strings.HasPrefix(word, prefix) {
				visit(word, p.list)
			}
		}
		return
	}
	for i := range b.terms {
		p := &b.terms[i]
		if word, ok := strings.CutPrefix(p.term, WordClass); ok && strings.HasPrefix(word, prefix) {
			visit(word, p.list)
		}
	}
}
