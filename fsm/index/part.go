package index

import (
	"strings"
	"sync"
	"sync/atomic"
)

// part is a run of entries of one block whose postings are in memory: all of the
// block, unless their terms take more than maxPartBytes. One goroutine adds to it;
// others may look at it meanwhile.
//
// Lists only grow at their end: a slice of one, taken under the lock, may be
// read without it.
type part struct {
	start uint64        // the seq of its first entry
	end   atomic.Uint64 // the seq after its last entry; until it is full, after the last it may have
	bytes int           // memory that it takes, about; of the one that adds

	mu    sync.RWMutex
	ids   map[string]uint32 // of the terms that are not words
	words map[string]uint32 // of the words, without their class
	terms []postings
	// starts holds for the first bytes of a word the newest word that begins
	// with them, as its id plus one; postings.before goes on from there.
	starts map[uint32]uint32
	arena  []uint16 // room for short lists
}

// postings is one term of a part.
type postings struct {
	term   string
	list   []uint16
	before uint32 // id plus one of the word before with the same start; 0: none
}

// Sizes of a part, in entries of what they count.
const (
	minTerms    = 1 << 10  // terms that a part has room for when it is made
	arenaChunk  = 16 << 10 // offsets
	firstList   = 2        // offsets of a new term's list
	arenaList   = 512      // offsets of the longest list kept in the arena
	startLength = 3        // bytes of a word in starts
)

// The memory of a part. It is counted, not measured, so that the parts of a block
// end at the same entries whenever they are built again.
const (
	// maxPartBytes ends a part. It is above what 4,096 texts of 1 KB in one
	// language take, and above what the greatest entry adds.
	maxPartBytes = 16 << 20
	// termBytes is what a term takes beside its text and its list: its postings,
	// its place in a map that doubles, and its start.
	termBytes = 144
	// offsetBytes is what room for one offset takes.
	offsetBytes = 2
)

// newPart returns an empty part that begins with the entry start; terms is how
// many it will probably have.
func newPart(start uint64, terms int) *part {
	terms = max(terms, minTerms)
	p := &part{
		start:  start,
		ids:    make(map[string]uint32),
		words:  make(map[string]uint32, terms),
		starts: make(map[uint32]uint32),
		terms:  make([]postings, 0, terms+terms/8),
	}
	p.end.Store((p.block() + 1) << blockShift)
	return p
}

// block is the number of the block that the part belongs to.
func (p *part) block() uint64 { return p.start >> blockShift }

// add files the entry at off under its terms and words. off is above all before.
func (p *part) add(off uint16, terms, words []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, term := range terms {
		if word, ok := strings.CutPrefix(term, WordClass); ok {
			p.addWord(off, word)
			continue
		}
		id, ok := p.ids[term]
		if !ok {
			id = p.newTerm(escapeTerm(term))
		}
		p.append(id, off)
	}
	for _, word := range words {
		p.addWord(off, word)
	}
}

func (p *part) addWord(off uint16, word string) {
	id, ok := p.words[word]
	if !ok {
		id = p.newWord(escapeTerm(word))
	}
	p.append(id, off)
}

// newTerm returns the id of an escaped term, which is new unless it was escaped.
func (p *part) newTerm(term string) uint32 {
	if id, ok := p.ids[term]; ok {
		return id
	}
	id := uint32(len(p.terms))
	term = strings.Clone(term)
	p.terms = append(p.terms, postings{term: term})
	p.ids[term] = id
	p.bytes += termBytes + len(term)
	return id
}

// newWord is newTerm for a word without its class.
func (p *part) newWord(word string) uint32 {
	if id, ok := p.words[word]; ok {
		return id
	}
	id := uint32(len(p.terms))
	start := wordStart(word)
	term := WordClass + word
	p.terms = append(p.terms, postings{term: term, before: p.starts[start]})
	p.starts[start] = id + 1
	p.words[term[len(WordClass):]] = id
	p.bytes += termBytes + len(term)
	return id
}

func (p *part) append(id uint32, off uint16) {
	t := &p.terms[id]
	n := len(t.list)
	if n > 0 && t.list[n-1] == off {
		return
	}
	if n == cap(t.list) {
		t.list = p.grow(t.list)
	}
	t.list = append(t.list, off)
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
func (p *part) grow(list []uint16) []uint16 {
	size := max(firstList, 2*cap(list))
	p.bytes += offsetBytes * size
	if size > arenaList {
		return append(make([]uint16, 0, size), list...)
	}
	if len(p.arena) < size {
		p.arena = make([]uint16, arenaChunk)
	}
	room := p.arena[:0:size]
	p.arena = p.arena[size:]
	return append(room, list...)
}

// list returns the offsets of a term. Some may belong to entries that were added
// after the reader's cut.
func (p *part) list(term string) []uint16 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	ids := p.ids
	if word, ok := strings.CutPrefix(term, WordClass); ok {
		ids, term = p.words, word
	}
	id, ok := ids[term]
	if !ok {
		return nil
	}
	return p.terms[id].list
}

// visitWords calls visit for words of the part that begin with prefix, the newest
// first, while it holds the lock. It looks at most at look words, and returns how
// many more it could have looked at.
func (p *part) visitWords(prefix string, look int, visit func(word string, list []uint16)) int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if len(prefix) >= startLength {
		for id := p.starts[wordStart(prefix)]; id != 0 && look > 0; look-- {
			t := &p.terms[id-1]
			id = t.before
			if word := t.term[len(WordClass):]; strings.HasPrefix(word, prefix) {
				visit(word, t.list)
			}
		}
		return look
	}
	for i := len(p.terms) - 1; i >= 0 && look > 0; i-- {
		t := &p.terms[i]
		if word, ok := strings.CutPrefix(t.term, WordClass); ok {
			look--
			if strings.HasPrefix(word, prefix) {
				visit(word, t.list)
			}
		}
	}
	return look
}
