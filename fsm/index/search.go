package index

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Query says which entries a search finds: those that carry all terms of All
// and, if Prefix is set, at least one word that begins with Prefix.
type Query struct {
	// All are terms. None: every entry.
	All []string
	// Prefix is the beginning of a word, without its class; "" is none. It
	// stands for the first MaxPrefixWords words of the whole cut that begin with
	// it, in the order of their bytes, which the word Prefix itself leads.
	Prefix string
	// Also is the seq of an entry that counts as carrying the last term of All,
	// whether it was added with it or not; 0 is none. It is for the root of a
	// thread, which cannot know when it is filed that there will be a thread:
	// All = [..., "thread:<root>"], Also = root.
	Also uint64
	// Min and Before bound the seqs: Min <= seq < Before. Before 0 is no bound.
	Min, Before uint64
	// Limit is the number of seqs to return at most. Without one nothing is found.
	Limit int
	// Work, where it is not nil, grows by the steps that the search takes: words that
	// it looks at for Prefix, and postings of a term or a word in a block.
	Work *int
}

// Cut is the index at one instant. Any number of goroutines may search it, while
// the index goes on. It keeps in memory what it needs.
type Cut struct {
	prefix []byte
	parts  []*part // in memory, oldest first
	first  uint64  // the lowest seq
	sealed uint64  // below it the postings are in the snapshot
	next   uint64  // the seq after the newest
}

// Next returns the seq after the newest entry of the cut.
func (c Cut) Next() uint64 { return c.next }

// Search returns the newest seqs that q asks for, newest first, and whether
// there are more. It reads through r, the Pebble snapshot that the cut was taken
// with. An error means that the index on disk could not be read.
func (c Cut) Search(r pebble.Reader, q Query) (seqs []uint64, more bool, err error) {
	from, to := max(q.Min, c.first), c.next
	if q.Before != 0 {
		to = min(to, q.Before)
	}
	if q.Limit <= 0 || from >= to {
		return nil, false, nil
	}
	limit := q.Limit + 1
	if len(q.All) == 0 && q.Prefix == "" {
		seqs = newest(from, to, limit)
	} else {
		s := searches.Get().(*search)
		s.cut, s.reader, s.query = c, r, q
		s.from, s.to, s.limit = from, to, limit
		seqs, err = s.run()
		if q.Work != nil {
			*q.Work += s.work
		}
		if err = errors.Join(err, s.release()); err != nil {
			return nil, false, fmt.Errorf("index: search: %w", err)
		}
	}
	if len(seqs) == limit {
		return seqs[:q.Limit], true, nil
	}
	return seqs, false, nil
}

// newest returns the seqs in [from, to), newest first, at most limit.
func newest(from, to uint64, limit int) []uint64 {
	count := min(to-from, uint64(limit))
	seqs := make([]uint64, count)
	for i := range seqs {
		seqs[i] = to - 1 - uint64(i)
	}
	return seqs
}

// search is the state of one search.
type search struct {
	cut      Cut
	reader   pebble.Reader
	query    Query
	from, to uint64 // seqs, to is exclusive
	limit    int

	found   []uint64
	hits    offsets // of the present block
	other   offsets
	terms   []termCursor
	words   words
	scratch []byte
	short   [inlineList]uint16
	work    int // see Query.Work
}

var searches = sync.Pool{New: func() any { return new(search) }}

// maxFoundHint bounds what is made room for before it is found.
const maxFoundHint = 128

func (s *search) run() ([]uint64, error) {
	s.found = make([]uint64, 0, min(s.limit, maxFoundHint))
	if s.query.Prefix != "" {
		if err := s.expand(); err != nil {
			return nil, err
		}
		if s.words.none() {
			return nil, nil
		}
	}
	look := maxPrefixLook
	for _, p := range slices.Backward(s.cut.parts) {
		if p.end.Load() <= max(s.cut.sealed, s.from) {
			break
		}
		if p.start >= s.to {
			continue
		}
		s.work += len(s.query.All)
		if s.memoryHits(p, &look) && s.take(p.start, p.end.Load()) {
			s.work += maxPrefixLook - look
			return s.found, nil
		}
	}
	s.work += maxPrefixLook - look
	if s.from >= s.cut.sealed {
		return s.found, nil
	}
	s.to = min(s.to, s.cut.sealed)
	if err := s.runSealed(); err != nil {
		return nil, err
	}
	return s.found, nil
}

// take moves the hits of one block that lie in [from, to) and within the search's
// bounds to found, and reports whether the limit is reached.
func (s *search) take(from, to uint64) bool {
	start := from >> blockShift << blockShift
	from, to = max(s.from, from), min(s.to, to)
	if from > start || to < start+BlockEntries {
		s.hits.clip(int(from-start), int(to-start))
	}
	s.found = s.hits.appendNewest(s.found, start, s.limit)
	return len(s.found) == s.limit
}

// memoryHits puts the entries of a part that carry everything into hits, and
// reports whether there are any. Hits may include entries that were added after
// the cut: they lie outside the search's bounds. It looks at most at look words
// with the beginning of the prefix, and takes those off.
func (s *search) memoryHits(p *part, look *int) bool {
	for i, term := range s.query.All {
		into := &s.other
		if i == 0 {
			into = &s.hits
		}
		list := p.offsetsOf(escapeTerm(term), &s.short)
		also := s.isAlso(i) && s.query.Also>>blockShift == p.block()
		if len(list) == 0 && !also {
			return false
		}
		*into = offsets{}
		into.setList(list)
		if also {
			into.set(uint16(s.query.Also % BlockEntries))
		}
		if i > 0 && !s.hits.and(&s.other) {
			return false
		}
	}
	if s.query.Prefix == "" {
		return true
	}
	into := &s.other
	if len(s.query.All) == 0 {
		into = &s.hits
	}
	*into = offsets{}
	*look = p.visitWords(s.query.Prefix, *look, func(word []byte, list []uint16) {
		if s.words.has(word) {
			into.setList(list)
		}
	})
	return into == &s.hits || s.hits.and(&s.other)
}

// isAlso reports whether All[i] is the term that the entry Also carries too.
func (s *search) isAlso(i int) bool { return s.query.Also != 0 && i == len(s.query.All)-1 }

// runSealed searches the sealed blocks, newest first. The cursors leapfrog: each
// goes to the newest block not above the target in which its term occurs, and
// where that is lower it becomes the target of all. A cursor that lowered the
// target leads from then on, so that the rarest term soon does.
func (s *search) runSealed() error {
	top := (s.to - 1) >> blockShift
	bottom := s.from >> blockShift
	if s.query.Prefix != "" && !s.words.startSealed() {
		return nil
	}
	if err := s.openTerms(); err != nil {
		return err
	}
	for target := top; ; target-- {
		at, ok, err := s.align(target, bottom)
		if err != nil || !ok {
			return err
		}
		target = at
		hit, err := s.sealedHits(target)
		if err != nil {
			return err
		}
		if hit && s.take(target<<blockShift, (target+1)<<blockShift) || target == bottom {
			return nil
		}
	}
}

// openTerms opens a cursor for each term.
func (s *search) openTerms() error {
	for i, term := range s.query.All {
		s.scratch = appendTerm(s.scratch[:0], s.cut.prefix, escapeTerm(term))
		c, err := openTerm(s.reader, s.scratch)
		if err != nil {
			return err
		}
		if s.isAlso(i) {
			c.also, c.hasAlso = s.query.Also, true
		}
		s.terms = append(s.terms, c)
	}
	return nil
}

// align returns the newest block not above target and not below bottom in which
// all terms occur, with every cursor on it.
func (s *search) align(target, bottom uint64) (at uint64, ok bool, err error) {
	for {
		for i := 0; i < len(s.terms); {
			at, ok, err := s.terms[i].seek(target)
			if err != nil || !ok || at < bottom {
				return 0, false, err
			}
			if at == target {
				i++
				continue
			}
			target = at
			s.terms[0], s.terms[i] = s.terms[i], s.terms[0]
			i = 1
		}
		if s.query.Prefix == "" {
			return target, true, nil
		}
		at, ok, err := s.words.seek(target)
		if err != nil || !ok || at < bottom {
			return 0, false, err
		}
		if at == target {
			return target, true, nil
		}
		target = at
	}
}

// sealedHits puts the entries of a sealed block, on which all cursors are, that
// carry everything into hits, and reports whether there are any.
func (s *search) sealedHits(target uint64) (bool, error) {
	s.work += len(s.terms)
	if s.query.Prefix != "" {
		s.work += len(s.words.sealed)
	}
	for i := range s.terms {
		into := &s.other
		if i == 0 {
			into = &s.hits
		}
		*into = offsets{}
		if err := s.terms[i].load(into); err != nil {
			return false, err
		}
		if i > 0 && !s.hits.and(&s.other) {
			return false, nil
		}
	}
	if s.query.Prefix == "" {
		return true, nil
	}
	if len(s.terms) == 0 {
		s.hits = offsets{}
		return true, s.words.load(target, &s.hits)
	}
	s.other = offsets{}
	if err := s.words.load(target, &s.other); err != nil {
		return false, err
	}
	return s.hits.and(&s.other), nil
}

// release closes what the search opened and gives its memory back.
func (s *search) release() error {
	err := s.words.close()
	for i := range s.terms {
		err = errors.Join(err, s.terms[i].iter.Close())
		s.terms[i] = termCursor{}
	}
	s.terms = s.terms[:0]
	s.cut, s.reader, s.query, s.found, s.work = Cut{}, nil, Query{}, nil, 0
	searches.Put(s)
	return err
}

// maxSteps is the distance in blocks up to which a cursor steps instead of seeking.
const maxSteps = 4

// termCursor goes down the sealed blocks of one term.
type termCursor struct {
	iter  *pebble.Iterator
	key   []byte // what the keys of the term begin with; then the block
	size  int    // of that beginning
	block uint64 // the block of the posting that iter is on
	start uint64 // the first seq of its part
	state cursorState

	also    uint64 // a seq that counts as carrying the term
	hasAlso bool
	at      uint64 // what seek returned last
}

type cursorState uint8

const (
	cursorNew  cursorState = iota // iter was not used yet
	cursorOn                      // iter is on a posting
	cursorDone                    // iter is past the term's oldest posting
)

// openTerm opens a cursor for the keys that begin with term; see appendTerm.
func openTerm(r pebble.Reader, term []byte) (termCursor, error) {
	key := make([]byte, 0, 2*len(term)+blockBytes)
	key = append(key, term...)
	key = append(key, make([]byte, blockBytes)...)
	upper := append(key, term...)[len(key):]
	upper[len(upper)-1]++
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: key[:len(term)], UpperBound: upper})
	if err != nil {
		return termCursor{}, err
	}
	return termCursor{iter: iter, key: key, size: len(term)}, nil
}

// seek goes to the newest block not above target in which the term occurs, and
// returns false if there is none. Targets never rise from call to call.
func (c *termCursor) seek(target uint64) (block uint64, ok bool, err error) {
	if err := c.seekSealed(target); err != nil {
		return 0, false, err
	}
	block, ok = c.block, c.state == cursorOn
	if also := c.also >> blockShift; c.hasAlso && also <= target && (!ok || also > block) {
		block, ok = also, true
	}
	c.at = block
	return block, ok, nil
}

func (c *termCursor) seekSealed(target uint64) error {
	if c.state == cursorDone || c.state == cursorOn && c.block <= target {
		return nil
	}
	var valid bool
	if c.state == cursorOn && c.block-target <= maxSteps {
		valid = c.iter.Next()
	} else {
		valid = c.iter.SeekGE(appendBlock(c.key[:c.size], target))
	}
	for {
		if err := c.place(valid); err != nil || c.state == cursorDone || c.block <= target {
			return err
		}
		valid = c.iter.Next()
	}
}

// place notes where iter is.
func (c *termCursor) place(valid bool) (err error) {
	if !valid {
		c.state = cursorDone
		return c.iter.Error()
	}
	c.state = cursorOn
	_, c.block, c.start, err = splitKey(c.iter.Key())
	return err
}

// load adds the offsets of the term in the block that seek returned, of all its
// parts. It is called once for each block.
func (c *termCursor) load(into *offsets) error {
	if c.hasAlso && c.also>>blockShift == c.at {
		into.set(uint16(c.also % BlockEntries))
	}
	for c.state == cursorOn && c.block == c.at {
		value, err := c.iter.ValueAndErr()
		if err != nil {
			return err
		}
		if err := loadPosting(into, value); err != nil {
			return fmt.Errorf("%w: key %x", err, c.iter.Key())
		}
		if isFirstPart(c.block, c.start) {
			return nil
		}
		if err := c.place(c.iter.Next()); err != nil {
			return err
		}
	}
	return nil
}
