package index

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// cursor goes through the sealed blocks of one term, newest first. It keeps the
// directory of one run, so that cursors of several terms can share an iterator.
type cursor struct {
	iter    *pebble.Iterator
	key     []byte   // the prefix of the keys of the term, with room for the rest
	size    int      // of that beginning
	next    uint64   // the newest block that is not in a directory read so far
	held    []byte   // the newest directory
	records []record // of it, without those above the last target
	block   uint64   // the last result of seek
	loaded  int      // postings with keys of their own

	also    uint64 // a seq that counts as carrying the term
	hasAlso bool
}

// keyRoom is how many bytes a key of a posting has after its term.
const keyRoom = blockBytes + partBytes

// openCursor opens a cursor for the keys that begin with term; see appendTerm.
func openCursor(r pebble.Reader, term []byte) (cursor, error) {
	key := append(make([]byte, 0, len(term)+keyRoom), term...)
	upper := slices.Clone(term)
	upper[len(upper)-1]++
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: key, UpperBound: upper})
	if err != nil {
		return cursor{}, err
	}
	return cursor{iter: iter, key: key, size: len(term), next: maxBlock}, nil
}

// seek goes to the newest block with the term not above target. Targets never rise.
func (c *cursor) seek(target uint64) (block uint64, ok bool, err error) {
	for {
		last := len(c.records) - 1
		for last >= 0 && c.records[last].block > target {
			last--
		}
		if c.records = c.records[:last+1]; last >= 0 {
			block, ok = c.records[last].block, true
			break
		}
		if c.next == 0 {
			break
		}
		key := appendDirectory(c.key[:c.size], min(c.next-1, target))
		if !c.iter.SeekGE(key) || !bytes.HasPrefix(c.iter.Key(), c.key[:c.size]) {
			if c.next = 0; c.iter.Error() != nil {
				return 0, false, c.iter.Error()
			}
			break
		}
		if err := c.read(); err != nil {
			return 0, false, err
		}
	}
	if also := c.also >> blockShift; c.hasAlso && also <= target && (!ok || also > block) {
		block, ok = also, true
	}
	c.block = block
	return block, ok, nil
}

// read loads the directory at the iterator's position.
func (c *cursor) read() error {
	_, block, off, err := splitKey(c.iter.Key())
	if err != nil {
		return err
	}
	if off != directoryOff || block >= c.next {
		return fmt.Errorf("%w: key %x where a directory belongs", errPosting, c.iter.Key())
	}
	value, err := c.iter.ValueAndErr()
	if err != nil {
		return err
	}
	c.next = block &^ (1<<runShift - 1)
	c.held = append(c.held[:0], value...)
	if c.records, err = appendRecords(c.records[:0], c.held, block); err != nil {
		return fmt.Errorf("%w: directory %x", err, c.iter.Key())
	}
	return nil
}

// load adds the offsets of the term in all parts of the block that seek returned.
func (c *cursor) load(into *offsets) error {
	if c.hasAlso && c.also>>blockShift == c.block {
		into.set(uint16(c.also % BlockEntries))
	}
	last := len(c.records) - 1
	if last < 0 || c.records[last].block != c.block {
		return nil
	}
	long, err := loadRecords(into, c.held[c.records[last].from:c.records[last].to])
	if err != nil {
		return fmt.Errorf("%w: block %d of %x", err, c.block, c.key[:c.size])
	}
	if !long {
		return nil
	}
	key := appendPostings(c.key[:c.size], c.block)
	block := key[:c.size+blockBytes]
	valid := c.iter.SeekGE(key)
	for ; valid && bytes.HasPrefix(c.iter.Key(), block); valid = c.iter.Next() {
		c.loaded++
		value, err := c.iter.ValueAndErr()
		if err != nil {
			return err
		}
		if err := loadPosting(into, value); err != nil {
			return fmt.Errorf("%w: key %x", err, c.iter.Key())
		}
	}
	return c.iter.Error()
}

// union goes through the sealed blocks of several terms, newest first.
type union struct {
	cursors []cursor
	heap    []*cursor // those that have blocks left, the one with the newest block on top
}

// start prepares the union. Each cursor has read a directory, if its term has one.
func (u *union) start() {
	u.heap = u.heap[:0]
	for i := range u.cursors {
		c := &u.cursors[i]
		if n := len(c.records); n > 0 {
			c.block = c.records[n-1].block
			u.heap = append(u.heap, c)
		}
	}
	for i := len(u.heap)/2 - 1; i >= 0; i-- {
		u.down(i)
	}
}

// down restores the heap order below i after its block became lower.
func (u *union) down(i int) {
	for {
		newest := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(u.heap); child++ {
			if u.heap[child].block > u.heap[newest].block {
				newest = child
			}
		}
		if newest == i {
			return
		}
		u.heap[i], u.heap[newest] = u.heap[newest], u.heap[i]
		i = newest
	}
}

// seek returns the newest block with one of the terms not above target. Targets never rise.
func (u *union) seek(target uint64) (block uint64, ok bool, err error) {
	for len(u.heap) > 0 && u.heap[0].block > target {
		_, found, err := u.heap[0].seek(target)
		if err != nil {
			return 0, false, err
		}
		if !found {
			u.heap[0] = u.heap[len(u.heap)-1]
			u.heap = u.heap[:len(u.heap)-1]
		}
		u.down(0)
	}
	if len(u.heap) == 0 {
		return 0, false, nil
	}
	return u.heap[0].block, true, nil
}

// load adds the offsets of all terms in the block that seek returned.
func (u *union) load(block uint64, into *offsets) error { return u.loadFrom(0, block, into) }

func (u *union) loadFrom(i int, block uint64, into *offsets) error {
	if i >= len(u.heap) || u.heap[i].block != block {
		return nil
	}
	if err := u.heap[i].load(into); err != nil {
		return err
	}
	if err := u.loadFrom(2*i+1, block, into); err != nil {
		return err
	}
	return u.loadFrom(2*i+2, block, into)
}
