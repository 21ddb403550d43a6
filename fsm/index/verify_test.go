package index

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math/bits"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// ErrMismatch is wrapped by the error of a Verify that found a difference.
var ErrMismatch = errors.New("index: mismatch")

// Verify compares the index with the terms of the entries from <= seq < to, as
// far as the cut has them; to 0 is no bound. want returns the terms of an entry.
//
// It reads through r, the snapshot of the cut. It goes once through all postings
// on disk, however few entries are asked for, and keeps some bytes per block.
// The error wraps ErrMismatch where index and terms differ, and names the first
// difference of the lowest block; any other error means that it could not look.
func (c Cut) Verify(r pebble.Reader, from, to uint64, want func(seq uint64) ([]string, error)) error {
	from = max(from, c.first)
	if to == 0 || to > c.next {
		to = c.next
	}
	if from >= to {
		return nil
	}
	// All pairs of a term and an entry are hashed, and the hashes of a block
	// added: the order in which they come does not matter.
	seed := maphash.MakeSeed()
	low := from >> blockShift
	wanted := make([]uint64, (to-1)>>blockShift-low+1)
	stored := make([]uint64, len(wanted))
	err := wantedTerms(from, to, want, func(term string, seq uint64) {
		wanted[seq>>blockShift-low] += pairHash(maphash.String(seed, term), seq)
	})
	if err != nil {
		return err
	}
	err = c.storedTerms(r, from, to, func(term []byte, start uint64, set *offsets) {
		hash := maphash.Bytes(seed, term)
		set.each(func(off int) { stored[start>>blockShift-low] += pairHash(hash, start+uint64(off)) })
	})
	if err != nil {
		return err
	}
	for i := range wanted {
		if wanted[i] != stored[i] {
			start := (low + uint64(i)) << blockShift
			return c.explain(r, max(from, start), min(to, start+BlockEntries), want)
		}
	}
	return nil
}

// pairHash mixes the hash of a term with a seq (the finaliser of SplitMix64).
func pairHash(term, seq uint64) uint64 {
	z := term + seq*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// explain finds a difference in one block.
func (c Cut) explain(r pebble.Reader, from, to uint64, want func(seq uint64) ([]string, error)) error {
	start := from >> blockShift << blockShift
	wanted, stored := map[string]*offsets{}, map[string]*offsets{}
	err := wantedTerms(from, to, want, func(term string, seq uint64) {
		if wanted[term] == nil {
			wanted[term] = new(offsets)
		}
		wanted[term].set(uint16(seq - start))
	})
	if err != nil {
		return err
	}
	err = c.storedTerms(r, from, to, func(term []byte, _ uint64, set *offsets) {
		if have := stored[string(term)]; have != nil {
			have.add(set)
			return
		}
		have := *set
		stored[string(term)] = &have
	})
	if err != nil {
		return err
	}
	if term, off, ok := firstMissing(wanted, stored); ok {
		return fmt.Errorf("%w: entry %d is not found by its term %q", ErrMismatch, start+uint64(off), term)
	}
	if term, off, ok := firstMissing(stored, wanted); ok {
		return fmt.Errorf("%w: entry %d is found by %q, which is not its term", ErrMismatch, start+uint64(off), term)
	}
	return fmt.Errorf("%w: entries %d to %d changed while they were compared", ErrMismatch, from, to-1)
}

// firstMissing returns the first term, and its first offset, that one side has and
// the other lacks.
func firstMissing(one, other map[string]*offsets) (term string, off int, ok bool) {
	for _, term := range slices.Sorted(maps.Keys(one)) {
		have := other[term]
		if have == nil {
			have = new(offsets)
		}
		if off, ok := one[term].without(have); ok {
			return term, off, true
		}
	}
	return "", 0, false
}

// wantedTerms visits the terms that the entries should have, each once.
func wantedTerms(from, to uint64, want func(uint64) ([]string, error), visit func(term string, seq uint64)) error {
	for seq := from; seq < to; seq++ {
		terms, err := want(seq)
		if err != nil {
			return fmt.Errorf("index: verify entry %d: %w", seq, err)
		}
		terms = slices.Clone(terms)
		for i := range terms {
			terms[i] = escapeTerm(terms[i])
		}
		slices.Sort(terms)
		for _, term := range slices.Compact(terms) {
			visit(term, seq)
		}
	}
	return nil
}

// storedTerms visits the terms in the index of the entries from <= seq < to, by
// block. The arguments of visit are valid only during the call.
func (c Cut) storedTerms(r pebble.Reader, from, to uint64, visit func(term []byte, start uint64, set *offsets)) error {
	var set offsets
	clip := func(start uint64) bool {
		if start+BlockEntries <= from || start >= to {
			return false
		}
		set.clip(int(max(from, start)-start), int(min(to, start+BlockEntries)-start))
		return true
	}
	for _, p := range c.parts {
		if p.end.Load() <= c.sealed {
			continue
		}
		p.mu.RLock()
		count := uint32(len(p.terms))
		p.mu.RUnlock()
		start := p.block() << blockShift
		var text []byte
		var short [inlineList]uint16
		for id := range count {
			p.mu.RLock()
			text = p.appendTerm(text[:0], id)
			list := p.list(id, &short)
			p.mu.RUnlock()
			set = offsets{}
			set.setList(list)
			if clip(start) {
				visit(text, start, &set)
			}
		}
	}
	if to = min(to, c.sealed); from >= to {
		return nil
	}
	lower := append(slices.Clip(c.prefix), postingKey)
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: keyAfter(lower)})
	if err != nil {
		return fmt.Errorf("index: verify: %w", err)
	}
	defer iter.Close()
	var records []record
	for valid := iter.First(); valid; valid = iter.Next() {
		key, block, off, err := splitKey(iter.Key())
		if err != nil {
			return err
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return fmt.Errorf("index: verify: %w", err)
		}
		if records = append(records[:0], record{block: block}); off == directoryOff {
			records, err = appendRecords(records[:0], value, block)
		}
		for i := 0; err == nil && i < len(records); i++ {
			r := records[i]
			set = offsets{}
			if off == directoryOff {
				_, err = loadRecords(&set, value[r.from:r.to])
			} else {
				err = loadPosting(&set, value)
			}
			if start := r.block << blockShift; err == nil && clip(start) {
				visit(key[len(lower):len(key)-1], start, &set)
			}
		}
		if err != nil {
			return fmt.Errorf("%w: %w: key %x", ErrMismatch, err, iter.Key())
		}
	}
	return iter.Error()
}

// add adds the offsets of other.
func (o *offsets) add(other *offsets) {
	for i := range o {
		o[i] |= other[i]
	}
}

// without returns the first offset of the set that other lacks.
func (o *offsets) without(other *offsets) (off int, ok bool) {
	for i := range o {
		if rest := o[i] &^ other[i]; rest != 0 {
			return i*64 + bits.TrailingZeros64(rest), true
		}
	}
	return 0, false
}
