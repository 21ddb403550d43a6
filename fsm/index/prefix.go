package index

import (
	"bytes"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// MaxPrefixWords is the maximum number of words that a prefix expands to in memory, and as many
// on disk.
const MaxPrefixWords = 256

// maxPrefixLook bounds the words in memory that a search examines for a prefix, newest
// first. No language has that many.
const maxPrefixLook = 32 << 10

// maxPrefixHeld bounds the words from memory that are held before they are reduced.
const maxPrefixHeld = 4 * MaxPrefixWords

// words are the words that a prefix expands to, and their union in the sealed blocks. There
// is no vocabulary on disk: the first directory of a word shows that the word is there, and
// reading it is the first step of the word's cursor.
type words struct {
	// memory has the first words, sorted, of the parts in memory; a word is there once for
	// each part that has it.
	memory []memoryWord
	texts  []byte // of memory
	bound  string // words of memory from this one on are not held; "" if all are
	room   int    // how many may be held until only the first ones are kept

	union // of the sealed blocks; its cursors share iter

	iter *pebble.Iterator
	key  []byte
}

// memoryWord is a word in a part of memory. Its head has the first bytes after the prefix.
type memoryWord struct {
	sortedTerm
	part *part
}

// findWords finds the words in memory for the query's prefix.
func (s *search) findWords() {
	w := &s.words
	look := maxPrefixLook
	for _, p := range slices.Backward(s.cut.parts) {
		if p.end.Load() <= s.cut.sealed {
			break
		}
		if p.start >= s.cut.next {
			continue
		}
		to := min(s.cut.next-p.block()<<blockShift, BlockEntries)
		look = p.visitWords(s.query.Prefix, int(to), look, func(id uint32, word []byte) {
			w.hold(p, id, word, len(s.query.Prefix))
		})
	}
	s.work += maxPrefixLook - look
	w.keepFirst()
}

// openWords opens a cursor for each word on disk for the query's prefix.
func (s *search) openWords() error {
	lower := appendTerm(nil, s.cut.prefix, WordClass+s.query.Prefix)
	lower = lower[:len(lower)-1]
	iter, err := s.reader.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: keyAfter(lower)})
	if err != nil {
		return err
	}
	w := &s.words
	w.iter = iter
	for valid := iter.First(); valid && len(w.cursors) < MaxPrefixWords; {
		term, _, _, err := splitKey(iter.Key())
		if err != nil {
			return err
		}
		c := w.addSealed(term)
		if err := c.read(); err != nil {
			return err
		}
		valid = w.nextWord(c.key[:c.size])
	}
	w.start()
	s.work += len(w.cursors)
	return iter.Error()
}

// hold collects a word from memory, unless too many sort before it.
func (w *words) hold(p *part, id uint32, word []byte, prefix int) {
	if w.bound != "" && string(word) >= w.bound {
		return
	}
	if len(w.memory) >= w.room {
		w.keepFirst()
		w.room = len(w.memory) + maxPrefixHeld
	}
	from := len(w.texts)
	w.texts = append(w.texts, word...)
	w.memory = append(w.memory, memoryWord{newSortedTerm(id, w.texts, from, prefix), p})
}

func (w *words) text(i int) []byte { return w.memory[i].text(w.texts) }

// keepFirst sorts the words from memory and keeps the first ones.
func (w *words) keepFirst() {
	slices.SortFunc(w.memory, func(x, y memoryWord) int { return x.compare(y.sortedTerm, w.texts) })
	distinct := 0
	for i := range w.memory {
		if i > 0 && bytes.Equal(w.text(i), w.text(i-1)) {
			continue
		}
		if distinct++; distinct > MaxPrefixWords {
			w.bound = string(w.text(i))
			w.cut(i)
			return
		}
	}
}

// cut drops the words from memory from position n on.
func (w *words) cut(n int) {
	texts := make([]byte, 0, len(w.texts))
	for i := range w.memory[:n] {
		m := &w.memory[i]
		from := len(texts)
		texts = append(texts, w.text(i)...)
		m.from, m.to = uint32(from), uint32(len(texts))
	}
	clear(w.memory[n:])
	w.memory, w.texts = w.memory[:n], append(w.texts[:0], texts...)
}

// loadMemory adds the offsets of all words in a part of memory. Some may belong to entries
// that were added after the reader's cut.
func (w *words) loadMemory(p *part, into *offsets) {
	var short [inlineList]uint16
	for i := range w.memory {
		if w.memory[i].part == p {
			p.mu.RLock()
			list := p.list(w.memory[i].id, &short)
			p.mu.RUnlock()
			into.setList(list)
		}
	}
}

// addSealed returns a new cursor with the memory of a former one, if there is one.
func (w *words) addSealed(term []byte) *cursor {
	n := len(w.cursors)
	w.cursors = slices.Grow(w.cursors, 1)[:n+1]
	c := &w.cursors[n]
	*c = cursor{
		iter: w.iter, key: append(c.key[:0], term...), size: len(term), next: maxBlock,
		held: c.held[:0], records: c.records[:0],
	}
	return c
}

// nextWord moves iter to the next word, which is close if the present one is rare.
func (w *words) nextWord(key []byte) bool {
	if !w.iter.Next() || !bytes.HasPrefix(w.iter.Key(), key) {
		return w.iter.Valid()
	}
	w.key = append(w.key[:0], key...)
	w.key[len(w.key)-1]++
	return w.iter.SeekGE(w.key)
}

// close releases the words, and keeps their memory for the next search.
func (w *words) close() error {
	clear(w.memory)
	for i := range w.cursors {
		w.cursors[i].iter = nil
	}
	w.memory, w.texts, w.cursors, w.heap, w.bound, w.room = w.memory[:0], w.texts[:0], w.cursors[:0], w.heap[:0], "", 0
	if w.iter == nil {
		return nil
	}
	err := w.iter.Close()
	w.iter = nil
	return err
}
