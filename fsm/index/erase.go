package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// eraseBatch is how many postings Erase processes before it lets a seal run. It goes on to the end of
// a directory's postings: readers need the directory for as long as there are any.
const eraseBatch = 4096

// erasedIn returns the erased entries of a block.
func (x *Index) erasedIn(block uint64) (Bitmap, error) {
	if x.opts.Erased == nil {
		return nil, nil
	}
	return x.opts.Erased(block)
}

// lasts reports whether erased entries keep a term, given the prefix of its keys.
func (x *Index) lasts(term []byte) bool {
	return x.opts.Lasting != nil && x.opts.Lasting(term[len(x.opts.Prefix)+1:len(term)-1])
}

// Erase removes the entries that Options.Erased names from all postings in Pebble, and with
// them terms that only they had.
func (x *Index) Erase(ctx context.Context) error {
	lower := append(append([]byte{}, x.opts.Prefix...), postingKey)
	e := eraser{x: x, known: map[uint64]Bitmap{}}
	step := func() {}
	if x.opts.Pace != nil {
		step = x.opts.Pace()
	}
	for from := lower; from != nil; {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if from, err = e.some(from, keyAfter(lower)); err != nil {
			return fmt.Errorf("index: erase: %w", err)
		}
		step()
	}
	return nil
}

// eraser rewrites postings.
type eraser struct {
	x       *Index
	known   map[uint64]Bitmap // the entries to be erased, by block
	records []record
}

// some processes the next postings, and returns the key to continue at, or nil.
func (e *eraser) some(from, upper []byte) (next []byte, err error) {
	e.x.sealing.Lock() // a seal adds to directories
	defer e.x.sealing.Unlock()
	clear(e.known)
	iter, err := e.x.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: upper})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	batch := e.x.db.NewBatch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	looked := 0
	for valid := iter.First(); valid; valid = iter.Next() {
		if looked++; looked > e.x.eraseBatch {
			if _, _, off, err := splitKey(iter.Key()); err != nil || off == directoryOff {
				next = append([]byte{}, iter.Key()...)
				break
			}
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return nil, err
		}
		if err := e.posting(batch, iter.Key(), value); err != nil {
			return nil, fmt.Errorf("%w: key %x", err, iter.Key())
		}
	}
	if err := iter.Error(); err != nil {
		return nil, err
	}
	return next, batch.Commit(pebble.NoSync)
}

// posting rewrites one posting or directory if it holds erased entries.
func (e *eraser) posting(batch *pebble.Batch, key, value []byte) error {
	term, block, off, err := splitKey(key)
	if err != nil || e.x.lasts(term) {
		return err
	}
	var left []byte
	var changed bool
	if off == directoryOff {
		left, changed, err = e.directory(term, block, value)
	} else {
		left, changed, err = e.left(block, value)
	}
	switch {
	case err != nil || !changed:
		return err
	case len(left) == 0:
		return batch.Delete(key, nil)
	}
	return batch.Set(key, left, nil)
}

// left returns the rest of a posting, or nil, and whether something was removed.
func (e *eraser) left(block uint64, posting []byte) (left []byte, changed bool, err error) {
	erased, known := e.known[block]
	if !known {
		if erased, err = e.x.erasedIn(block); err != nil {
			return nil, false, err
		}
		e.known[block] = erased
	}
	if len(erased) == 0 {
		return posting, false, nil
	}
	var set offsets
	if err := loadPosting(&set, posting); err != nil {
		return nil, false, err
	}
	before := set
	set.andNot(erased)
	if set == before {
		return posting, false, nil
	}
	var list []uint16
	set.each(func(off int) { list = append(list, uint16(off)) }) //nolint:gosec // below BlockEntries
	if len(list) == 0 {
		return nil, true, nil
	}
	return appendPosting(nil, list), true, nil
}

// directory returns the rest of a directory.
func (e *eraser) directory(term []byte, block uint64, value []byte) (left []byte, changed bool, err error) {
	if e.records, err = appendRecords(e.records[:0], value, block); err != nil {
		return nil, false, err
	}
	for _, r := range e.records {
		long := false
		for posting := range postingsOf(value[r.from:r.to]) {
			if len(posting) == 0 {
				long = true
				continue
			}
			kept, less, err := e.left(r.block, posting)
			if err != nil {
				return nil, false, err
			}
			changed = changed || less
			if len(kept) > 0 {
				left = appendRecord(left, r.block, kept)
			}
		}
		if !long {
			continue
		}
		keep, err := e.longLeft(term, r.block)
		if err != nil {
			return nil, false, err
		}
		changed = changed || !keep
		if keep {
			left = appendRecord(left, r.block, nil)
		}
	}
	return left, changed, nil
}

// longLeft reports whether any of a term's long postings in a block will remain.
func (e *eraser) longLeft(term []byte, block uint64) (some bool, err error) {
	lower := appendPostings(append([]byte{}, term...), block)
	iter, err := e.x.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: keyAfter(lower[:len(term)+blockBytes])})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for valid := iter.First(); valid && !some; valid = iter.Next() {
		value, err := iter.ValueAndErr()
		if err != nil {
			return false, err
		}
		left, _, err := e.left(block, value)
		if err != nil {
			return false, err
		}
		some = len(left) > 0
	}
	return some, iter.Error()
}
