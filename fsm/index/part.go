package index

import (
	"strings"
	"sync"
	"sync/atomic"
)

// maxPartBytes ends a part. It is above what 4,096 texts of 1 KB in one language
// take, and above what the greatest entry adds.
const maxPartBytes = 16 << 20

// startLength is the number of bytes of a word in part.starts.
const startLength = 3

// part is a run of entries of one block whose postings are in memory: all of the
// block, unless their terms take more than maxPartBytes. One goroutine adds to it;
// others may look at it meanwhile.
//
// Lists only grow at their end: a slice of one, taken under the lock, may be
// read without it.
type part struct {
	start uint64        // the seq of its first entry
	end   atomic.Uint64 // the seq after its last entry; until it is full, after the last it may have

	mu sync.RWMutex
	table
	// starts holds for the first bytes of a word the newest word that begins
	// with them, as its id plus one; term.before goes on from there.
	starts map[uint32]uint32
}

// newPart returns an empty part that begins with the entry start; terms is how
// many it will probably have.
func newPart(start uint64, terms int) *part {
	terms = max(terms, minTerms)
	p := &part{start: start, table: newTable(terms + terms/8), starts: make(map[uint32]uint32)}
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
			p.addText(off, word, wordName)
		} else {
			p.addText(off, term, 0)
		}
	}
	for _, word := range words {
		p.addText(off, word, wordName)
	}
}

func (p *part) addText(off uint16, text string, class byte) {
	hash := p.hash(text)
	id, ok := p.find(text, hash, class)
	if !ok {
		id = p.newTerm(text, hash, class)
	}
	p.file(id, off)
}

// newTerm returns the id of a term, which is new unless it has to be escaped.
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

// offsetsOf returns the offsets of an escaped term, in short if they fit there. Some
// may belong to entries that were added after the reader's cut.
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

// visitWords calls visit for words of the part that begin with prefix, the newest
// first, while it holds the lock. What visit gets is valid only during the call. It
// looks at most at look words, and returns how many more it could have looked at.
func (p *part) visitWords(prefix string, look int, visit func(word []byte, list []uint16)) int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var text []byte
	var short [inlineList]uint16
	visitIf := func(id uint32) {
		text = p.appendText(text[:0], p.terms[id].name)
		if strings.HasPrefix(string(text), prefix) {
			visit(text, p.list(id, &short))
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
