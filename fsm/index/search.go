package index

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Query selects the entries of a search: those that carry all terms of All, a term of each
// group of Any, not all terms of any group of Not, and, if Prefix is set, at least one
// word that begins with Prefix. A query without terms and prefix selects every entry.
type Query struct {
	All      []string
	Any, Not [][]string
	// Prefix is the beginning of a word, without its class, or "". On disk, and in
	// memory, it stands for the first MaxPrefixWords words there that begin with
	// it, in the order of their bytes, which the word Prefix itself leads.
	Prefix string
	// Also is the seq of an entry that counts as carrying the last term of All,
	// whether it was added with it or not, or 0. It is for the root of a
	// thread, which cannot know when it is filed that there will be a thread:
	// All = [..., "thread:<root>"], Also = root.
	Also uint64
	// Min and Before bound the seqs: Min <= seq < Before. Before 0 is no bound.
	Min, Before uint64
	// Limit bounds the number of seqs. A search with Limit 0 finds no entries.
	Limit int
	// Without, where it is not nil, returns the seqs of a block that are left out.
	Without func(block uint64) (Bitmap, error)
	// Work, where it is not nil, grows by the steps that the search takes: words that
	// it looks at for Prefix, and postings of a term or a word in a block, or blocks of a
	// query that selects every entry.
	Work *int
}

// Cut is the index at one instant. It is safe for concurrent use, while the index goes on.
type Cut struct {
	prefix []byte
	parts  []*part // in memory, oldest first
	first  uint64  // the lowest seq
	sealed uint64  // below it the postings are in the snapshot
	next   uint64  // the seq after the newest
}

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
	if len(q.All)+len(q.Any)+len(q.Not) == 0 && q.Prefix == "" {
		var looked int
		seqs, looked, err = newest(from, to, limit, q.Without)
		if q.Work != nil {
			*q.Work += looked
		}
		if err != nil {
			return nil, false, err
		}
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

// newest returns at most limit seqs in [from, to) that are not left out, newest first, and the
// number of blocks that it looked at.
func newest(from, to uint64, limit int, without func(block uint64) (Bitmap, error)) (seqs []uint64, looked int, err error) {
	seqs = make([]uint64, 0, min(limit, maxFoundHint))
	for to > from && len(seqs) < limit {
		looked++
		start := (to - 1) >> blockShift << blockShift
		var left offsets
		left.fill()
		left.clip(int(max(from, start)-start), int(to-start))
		if without != nil {
			out, err := without(start >> blockShift)
			if err != nil {
				return nil, looked, err
			}
			left.andNot(out)
		}
		seqs, to = left.appendNewest(seqs, start, limit), start
	}
	return seqs, looked, nil
}

// search is the state of one search.
type search struct {
	cut      Cut
	reader   pebble.Reader
	query    Query
	from, to uint64 // seqs, to is exclusive
	limit    int

	found    []uint64
	hits     offsets // of the present block
	other    offsets
	extra    offsets
	terms    []cursor
	unions   []*union   // of the groups of Any, and of the prefix
	excluded [][]cursor // of the groups of Not
	words    words
	grouped  int // the number of terms in Any and Not
	scratch  []byte
	short    [inlineList]uint16
	work     int // see Query.Work
}

var searches = sync.Pool{New: func() any { return new(search) }}

// maxFoundHint bounds what is made room for before it is found.
const maxFoundHint = 128

func (s *search) run() ([]uint64, error) {
	s.found = make([]uint64, 0, min(s.limit, maxFoundHint))
	for _, groups := range [...][][]string{s.query.Any, s.query.Not} {
		for _, group := range groups {
			s.grouped += len(group)
		}
	}
	if s.query.Prefix != "" {
		s.findWords()
	}
	for _, p := range slices.Backward(s.cut.parts) {
		if p.end.Load() <= max(s.cut.sealed, s.from) {
			break
		}
		if p.start >= s.to {
			continue
		}
		s.work += len(s.query.All) + s.grouped
		if !s.memoryHits(p) {
			continue
		}
		if full, err := s.take(p.start, p.end.Load()); full || err != nil {
			return s.found, err
		}
	}
	if s.from >= s.cut.sealed {
		return s.found, nil
	}
	s.to = min(s.to, s.cut.sealed)
	err := s.runSealed()
	s.eachCursor(func(c *cursor) { s.work += c.loaded })
	if err != nil {
		return nil, err
	}
	return s.found, nil
}

// take moves the hits of one block in [from, to) to found, and reports whether that is
// full.
func (s *search) take(from, to uint64) (full bool, err error) {
	start := from >> blockShift << blockShift
	from, to = max(s.from, from), min(s.to, to)
	if from > start || to < start+BlockEntries {
		s.hits.clip(int(from-start), int(to-start))
	}
	if s.query.Without != nil {
		without, err := s.query.Without(start >> blockShift)
		if err != nil {
			return false, err
		}
		s.hits.andNot(without)
	}
	s.found = s.hits.appendNewest(s.found, start, s.limit)
	return len(s.found) == s.limit, nil
}

// condition returns the empty set for the entries that meet condition n of a query.
func (s *search) condition(n int) *offsets {
	into := &s.other
	if n == 0 {
		into = &s.hits
	}
	*into = offsets{}
	return into
}

// narrow reduces hits to the entries that meet condition n, and reports whether there are any.
func (s *search) narrow(n int) bool { return n == 0 || s.hits.and(&s.other) }

// memoryHits puts the hits of a part into hits, and reports whether there may be any. Hits
// after the cut lie outside the search's bounds.
func (s *search) memoryHits(p *part) bool {
	for i, term := range s.query.All {
		list := p.offsetsOf(escapeTerm(term), &s.short)
		also := s.isAlso(i) && s.query.Also>>blockShift == p.block()
		if len(list) == 0 && !also {
			return false
		}
		into := s.condition(i)
		into.setList(list)
		if also {
			into.set(uint16(s.query.Also % BlockEntries))
		}
		if !s.narrow(i) {
			return false
		}
	}
	n := len(s.query.All)
	for _, group := range s.query.Any {
		into := s.condition(n)
		for _, term := range group {
			into.setList(p.offsetsOf(escapeTerm(term), &s.short))
		}
		if !s.narrow(n) {
			return false
		}
		n++
	}
	if s.query.Prefix != "" {
		s.work += len(s.words.memory)
		s.words.loadMemory(p, s.condition(n))
		if !s.narrow(n) {
			return false
		}
		n++
	}
	if n == 0 {
		s.hits.fill()
	}
	for _, group := range s.query.Not {
		s.other.fill()
		for _, term := range group {
			s.extra = offsets{}
			s.extra.setList(p.offsetsOf(escapeTerm(term), &s.short))
			s.other.and(&s.extra)
		}
		s.hits.remove(&s.other)
	}
	return true
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
	if err := s.openTerms(top); err != nil {
		return err
	}
	target, ok, err := s.align(top, bottom)
	if ok && s.query.Prefix != "" { // only now: the words cost more than the rest
		s.unions = append(s.unions, &s.words.union)
		err = s.openWords()
	}
	if err != nil || !ok {
		return err
	}
	for ; ; target-- {
		at, ok, err := s.align(target, bottom)
		if err != nil || !ok {
			return err
		}
		target = at
		hit, err := s.sealedHits(target)
		if err != nil {
			return err
		}
		full := false
		if hit {
			full, err = s.take(target<<blockShift, (target+1)<<blockShift)
		}
		if full || err != nil || target == bottom {
			return err
		}
	}
}

// openTerms opens a cursor for each term, and the unions at the block top.
func (s *search) openTerms(top uint64) (err error) {
	for i, term := range s.query.All {
		if s.terms, err = s.open(s.terms, term); err != nil {
			return err
		}
		if s.isAlso(i) {
			c := &s.terms[i]
			c.also, c.hasAlso = s.query.Also, true
		}
	}
	for _, group := range s.query.Any {
		u := &union{}
		s.unions = append(s.unions, u)
		for _, term := range group {
			if u.cursors, err = s.open(u.cursors, term); err != nil {
				return err
			}
		}
		for i := range u.cursors {
			if _, _, err := u.cursors[i].seek(top); err != nil {
				return err
			}
		}
		u.start()
	}
	for _, group := range s.query.Not {
		s.excluded = append(s.excluded, nil)
		for _, term := range group {
			if s.excluded[len(s.excluded)-1], err = s.open(s.excluded[len(s.excluded)-1], term); err != nil {
				return err
			}
		}
	}
	return nil
}

// open appends a cursor for a term.
func (s *search) open(cursors []cursor, term string) ([]cursor, error) {
	s.scratch = appendTerm(s.scratch[:0], s.cut.prefix, escapeTerm(term))
	c, err := openCursor(s.reader, s.scratch)
	if err != nil {
		return cursors, err
	}
	return append(cursors, c), nil
}

// align moves every cursor to the newest block in [bottom, target] in which all conditions
// can be met.
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
		lowest := target
		for _, u := range s.unions {
			if lowest, ok, err = u.seek(lowest); err != nil || !ok || lowest < bottom {
				return 0, false, err
			}
		}
		if lowest == target {
			return target, true, nil
		}
		target = lowest
	}
}

// sealedHits puts the hits of a sealed block, on which all cursors are, into hits.
func (s *search) sealedHits(target uint64) (bool, error) {
	s.work += len(s.terms) + s.grouped
	if s.query.Prefix != "" {
		s.work += len(s.words.cursors)
	}
	n := 0
	for i := range s.terms {
		if err := s.terms[i].load(s.condition(n)); err != nil || !s.narrow(n) {
			return false, err
		}
		n++
	}
	for _, u := range s.unions {
		if err := u.load(target, s.condition(n)); err != nil || !s.narrow(n) {
			return false, err
		}
		n++
	}
	if n == 0 {
		s.hits.fill()
	}
	for _, group := range s.excluded {
		s.other.fill()
		for i := range group {
			at, some, err := group[i].seek(target)
			s.extra = offsets{}
			if err == nil && some && at == target {
				err = group[i].load(&s.extra)
			}
			if err != nil {
				return false, err
			}
			if !s.other.and(&s.extra) {
				break
			}
		}
		s.hits.remove(&s.other)
	}
	return true, nil
}

func (s *search) eachCursor(visit func(c *cursor)) {
	each := func(cursors []cursor) {
		for i := range cursors {
			visit(&cursors[i])
		}
	}
	each(s.terms)
	for _, u := range s.unions {
		each(u.cursors)
	}
	for _, group := range s.excluded {
		each(group)
	}
}

// release closes what the search opened and gives its memory back.
func (s *search) release() (err error) {
	s.eachCursor(func(c *cursor) {
		if c.iter != s.words.iter {
			err = errors.Join(err, c.iter.Close())
		}
	})
	err = errors.Join(err, s.words.close())
	clear(s.terms)
	clear(s.unions)
	s.terms, s.unions, s.excluded, s.grouped = s.terms[:0], s.unions[:0], nil, 0
	s.cut, s.reader, s.query, s.found, s.work = Cut{}, nil, Query{}, nil, 0
	searches.Put(s)
	return err
}
