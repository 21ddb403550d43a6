package index

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// MaxPrefixWords is the number of words that a prefix stands for at most.
const MaxPrefixWords = 256

// maxPrefixLook is the number of words in memory that a search looks at for a
// prefix at most, the newest first, so that thousands of words that begin alike
// make no search expensive. It is far above what a language has.
const maxPrefixLook = 32 << 10

// maxPrefixHeld is the number of words from which on only the first ones are kept.
const maxPrefixHeld = 4 * MaxPrefixWords

// Bounds of what a word's cursor reads ahead.
const (
	maxAhead      = 32      // postings
	maxAheadBytes = 1 << 10 // bytes of values from which on it stops
)

// words are the words that a prefix stands for, and a cursor over their union in
// the sealed blocks. There is no vocabulary on disk: the first key of a word's
// postings shows that the word is there, and reading it is the first step of the
// word's cursor.
type words struct {
	memory []string // the words of the parts in memory, sorted; of many the first ones
	bound  string   // words of memory from this one on are not held; "" if all are
	last   string   // words of memory after this one are too many; "" if none is
	sealed []wordCursor
	heap   []*wordCursor // by block, the newest on top

	iter *pebble.Iterator // shared by the cursors
	key  []byte
}

// wordCursor is one word's place in the sealed blocks. It reads ahead: the postings
// of one word are next to each other, and the cursors share one iterator.
type wordCursor struct {
	key    []byte // what the word's keys begin with
	block  uint64
	here   []reading // the postings in block, one for each of its parts
	ahead  []reading // postings read ahead, newest first; of each block all
	values []byte
	window int // postings that the next seek reads, and the rest of the last one's block
}

// reading is a posting that was read, and where its value is in wordCursor.values.
type reading struct {
	block    uint64
	from, to int
}

// none reports whether no word begins with the prefix.
func (w *words) none() bool { return len(w.memory) == 0 && len(w.sealed) == 0 }

// has reports whether a word of memory that begins with the prefix is among the first
// MaxPrefixWords.
func (w *words) has(word []byte) bool { return w.last == "" || string(word) <= w.last }

// expand finds the words that the query's prefix stands for.
func (s *search) expand() error {
	w := &s.words
	look := maxPrefixLook
	for _, p := range slices.Backward(s.cut.parts) {
		if p.end.Load() <= s.cut.sealed {
			break
		}
		if p.start >= s.cut.next {
			continue
		}
		start := p.block() << blockShift
		look = p.visitWords(s.query.Prefix, look, func(word []byte, list []uint16) {
			if start+uint64(list[0]) < s.cut.next {
				w.hold(word)
			}
		})
	}
	s.work += maxPrefixLook - look
	w.keepFirst()
	if s.cut.sealed > s.cut.first {
		lower := appendTerm(nil, s.cut.prefix, WordClass+s.query.Prefix)
		lower = lower[:len(lower)-1]
		iter, err := s.reader.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: keyAfter(lower)})
		if err != nil {
			return err
		}
		w.iter = iter
	}
	return w.list(len(s.cut.prefix) + 1 + len(WordClass))
}

// hold notes a word of memory, unless too many come before it.
func (w *words) hold(word []byte) {
	if w.bound != "" && string(word) >= w.bound {
		return
	}
	if len(w.memory) == maxPrefixHeld {
		w.keepFirst()
	}
	w.memory = append(w.memory, string(word))
}

// keepFirst sorts the words of memory and keeps the first ones, one more than a
// prefix stands for: list has to see that there are more.
func (w *words) keepFirst() {
	slices.Sort(w.memory)
	w.memory = slices.Compact(w.memory)
	if len(w.memory) > MaxPrefixWords {
		w.memory = w.memory[:MaxPrefixWords+1]
		w.bound = w.memory[MaxPrefixWords]
	}
}

// list goes through the words of both kinds in order, notes those on disk, and
// stops at MaxPrefixWords. wordAt is where the word begins in a key.
func (w *words) list(wordAt int) error {
	count, mem := 0, 0
	valid := w.iter != nil && w.iter.First()
	for valid && count < MaxPrefixWords {
		term, block, _, err := splitKey(w.iter.Key())
		if err != nil {
			return err
		}
		word := term[wordAt : len(term)-1]
		if mem < len(w.memory) && w.memory[mem] <= string(word) {
			same := w.memory[mem] == string(word)
			mem++
			if !same {
				count++
				continue
			}
		}
		count++
		c := w.addSealed(term)
		if err := c.read(w.iter); err != nil {
			return err
		}
		c.skip(block)
		valid = w.nextWord(c.key)
	}
	if w.iter != nil && w.iter.Error() != nil {
		return w.iter.Error()
	}
	mem += min(len(w.memory)-mem, MaxPrefixWords-count)
	if mem < len(w.memory) {
		w.last = w.lastListed(mem, wordAt)
	}
	return nil
}

// lastListed returns the greatest of the words listed, mem of them in memory.
func (w *words) lastListed(mem, wordAt int) string {
	last := ""
	if mem > 0 {
		last = w.memory[mem-1]
	}
	if n := len(w.sealed); n > 0 {
		key := w.sealed[n-1].key
		last = max(last, string(key[wordAt:len(key)-1]))
	}
	return last
}

// addSealed returns a new cursor, in memory used before where there is some.
func (w *words) addSealed(term []byte) *wordCursor {
	if len(w.sealed) < cap(w.sealed) {
		w.sealed = w.sealed[:len(w.sealed)+1]
	} else {
		w.sealed = append(w.sealed, wordCursor{})
	}
	c := &w.sealed[len(w.sealed)-1]
	*c = wordCursor{
		key: append(c.key[:0], term...), ahead: c.ahead[:0], values: c.values[:0], window: 1,
	}
	return c
}

// read takes the posting that iter is on for the cursor's place, and those after it
// that the window allows. It stops between blocks.
func (c *wordCursor) read(iter *pebble.Iterator) error {
	c.here, c.ahead, c.values = nil, c.ahead[:0], c.values[:0]
	for valid := true; valid && bytes.HasPrefix(iter.Key(), c.key); valid = iter.Next() {
		_, block, start, err := splitKey(iter.Key())
		if err != nil {
			return err
		}
		if c.enough() && c.ahead[len(c.ahead)-1].block != block {
			break
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return err
		}
		from := len(c.values)
		c.values = append(c.values, value...)
		c.ahead = append(c.ahead, reading{block, from, len(c.values)})
		if c.enough() && isFirstPart(block, start) {
			break // one step more would only make the seek that follows slower
		}
	}
	c.window = min(2*c.window, maxAhead)
	return iter.Error()
}

// enough reports whether the window is read.
func (c *wordCursor) enough() bool {
	return len(c.ahead) >= c.window || len(c.values) >= maxAheadBytes
}

// skip moves c within what was read, to a block not above target, and returns
// false if there is none.
func (c *wordCursor) skip(target uint64) bool {
	for i, r := range c.ahead {
		if r.block > target {
			continue
		}
		end := i + 1
		for end < len(c.ahead) && c.ahead[end].block == r.block {
			end++
		}
		c.block, c.here, c.ahead = r.block, c.ahead[i:end], c.ahead[end:]
		return true
	}
	c.here, c.ahead = nil, c.ahead[:0]
	return false
}

// nextWord moves iter from a word to the next one. Pebble steps by itself where
// the key is near, as long as seeks follow seeks.
func (w *words) nextWord(key []byte) bool {
	w.key = append(w.key[:0], key...)
	w.key[len(w.key)-1]++
	return w.iter.SeekGE(w.key)
}

// startSealed prepares the cursor over the union, and returns false if no word
// is on disk.
func (w *words) startSealed() bool {
	w.heap = w.heap[:0]
	for i := range w.sealed {
		w.heap = append(w.heap, &w.sealed[i])
	}
	for i := len(w.heap)/2 - 1; i >= 0; i-- {
		w.down(i)
	}
	return len(w.heap) > 0
}

// down restores the heap below i, whose block may have become lower.
func (w *words) down(i int) {
	for {
		newest := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(w.heap); child++ {
			if w.heap[child].block > w.heap[newest].block {
				newest = child
			}
		}
		if newest == i {
			return
		}
		w.heap[i], w.heap[newest] = w.heap[newest], w.heap[i]
		i = newest
	}
}

// seek returns the newest block not above target in which one of the words
// occurs, and false if there is none. Targets never rise from call to call.
func (w *words) seek(target uint64) (block uint64, ok bool, err error) {
	for len(w.heap) > 0 && w.heap[0].block > target {
		found, err := w.seekWord(w.heap[0], target)
		if err != nil {
			return 0, false, err
		}
		if !found {
			w.heap[0] = w.heap[len(w.heap)-1]
			w.heap = w.heap[:len(w.heap)-1]
		}
		w.down(0)
	}
	if len(w.heap) == 0 {
		return 0, false, nil
	}
	return w.heap[0].block, true, nil
}

// seekWord moves c to its newest block not above target.
func (w *words) seekWord(c *wordCursor, target uint64) (bool, error) {
	if c.skip(target) {
		return true, nil
	}
	w.key = appendBlock(append(w.key[:0], c.key...), target)
	if !w.iter.SeekGE(w.key) || !bytes.HasPrefix(w.iter.Key(), c.key) {
		return false, w.iter.Error()
	}
	if err := c.read(w.iter); err != nil {
		return false, err
	}
	return c.skip(target), nil
}

// load adds the offsets of all words in the block that seek returned.
func (w *words) load(block uint64, into *offsets) error { return w.loadFrom(0, block, into) }

func (w *words) loadFrom(i int, block uint64, into *offsets) error {
	if i >= len(w.heap) || w.heap[i].block != block {
		return nil
	}
	c := w.heap[i]
	for _, r := range c.here {
		if err := loadPosting(into, c.values[r.from:r.to]); err != nil {
			return fmt.Errorf("%w: word %x in block %d", err, c.key, block)
		}
	}
	if err := w.loadFrom(2*i+1, block, into); err != nil {
		return err
	}
	return w.loadFrom(2*i+2, block, into)
}

// close ends the use of the words, and keeps their memory for the next.
func (w *words) close() error {
	clear(w.memory)
	w.memory, w.sealed, w.heap, w.bound, w.last = w.memory[:0], w.sealed[:0], w.heap[:0], "", ""
	if w.iter == nil {
		return nil
	}
	err := w.iter.Close()
	w.iter = nil
	return err
}
