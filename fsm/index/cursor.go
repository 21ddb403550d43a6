package index

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

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

func (c *termCursor) close() error { return c.iter.Close() }
