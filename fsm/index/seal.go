package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// sealBatch is the size in bytes from which a piece of a block is committed.
	// Pebble publishes commits in order: the one that applies commands waits for
	// at most one piece, well below a millisecond.
	sealBatch = 32 << 10
	// sealRetry is the time before a failed seal is tried again.
	sealRetry = time.Second
)

var errClosing = errors.New("index: closing")

// sealBlocks seals each full block in turn until the index is closed.
func (x *Index) sealBlocks() {
	defer close(x.done)
	for {
		b := x.nextFull()
		if b == nil {
			return
		}
		err := x.seal(b, x.commit)
		if errors.Is(err, errClosing) {
			return
		}
		if err != nil {
			x.logger.Error("sealing a block of the index failed; it is tried again",
				"block", b.number, "retry", sealRetry, "error", err)
			select {
			case <-time.After(sealRetry):
			case <-x.stop:
				return
			}
			continue
		}
		x.mu.Lock()
		x.sealed = b.end()
		x.changed.Broadcast()
		x.mu.Unlock()
		if x.opts.OnSealed != nil {
			x.opts.OnSealed(b.end())
		}
	}
}

// nextFull waits for a full block. It returns nil when the index is closing.
func (x *Index) nextFull() *block {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.sealed >= x.full && !x.closing {
		x.changed.Wait()
	}
	if x.closing {
		return nil
	}
	for _, b := range x.blocks {
		if b.end() > x.sealed {
			return b
		}
	}
	panic("index: a full block is not in memory")
}

func (x *Index) commit(batch *pebble.Batch) error {
	select {
	case <-x.stop:
		return errClosing
	default:
		return batch.Commit(pebble.NoSync)
	}
}

// seal writes a full block in pieces, and the mark with the last one. What an
// interrupted seal left behind is overwritten by the same keys and values.
func (x *Index) seal(b *block, commit func(*pebble.Batch) error) error {
	// The block is full: nobody changes it any more.
	sorted := b.sorted()

	batch := x.db.NewBatchWithSize(2 * sealBatch)
	defer func() { batch.Close() }()
	var key, value []byte
	for _, o := range sorted {
		p := &b.terms[o.id]
		if batch.Len() >= sealBatch {
			if err := commit(batch); err != nil {
				return fmt.Errorf("index: seal block %d: %w", b.number, err)
			}
			batch.Reset()
		}
		key = appendBlock(appendTerm(key[:0], x.opts.Prefix, p.term), b.number)
		value = appendPosting(value[:0], p.list)
		if err := batch.Set(key, value, nil); err != nil {
			return fmt.Errorf("index: seal block %d: %w", b.number, err)
		}
	}
	m := mark{version: x.opts.Version, sealed: b.end()}
	if err := batch.Set(append(x.opts.Prefix, markKey), m.encode(), nil); err != nil {
		return fmt.Errorf("index: seal block %d: %w", b.number, err)
	}
	if err := commit(batch); err != nil {
		return fmt.Errorf("index: seal block %d: %w", b.number, err)
	}
	return nil
}

// sortedTerm is a term's place in the order of keys.
type sortedTerm struct {
	head uint64 // the first bytes of the term, so that most comparisons are of numbers
	id   uint32
}

// sorted returns the block's terms in the order of their keys.
func (b *block) sorted() []sortedTerm {
	order := make([]sortedTerm, len(b.terms))
	for id := range b.terms {
		var head [8]byte
		copy(head[:], b.terms[id].term)
		order[id] = sortedTerm{head: binary.BigEndian.Uint64(head[:]), id: uint32(id)}
	}
	slices.SortFunc(order, func(x, y sortedTerm) int {
		if x.head != y.head {
			return cmp.Compare(x.head, y.head)
		}
		return strings.Compare(b.terms[x.id].term, b.terms[y.id].term)
	})
	return order
}
