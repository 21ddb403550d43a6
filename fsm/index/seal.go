package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// sealBatch is the size in bytes from which a piece of a part is committed.
	// Pebble publishes commits in order: the one that applies commands waits for
	// at most one piece, well below a millisecond.
	sealBatch = 32 << 10
	// sealRetry is the time before a failed seal is tried again.
	sealRetry = time.Second
	// meanTerm is the room for a term's text when a part is sealed, in bytes.
	meanTerm = 12
)

var errClosing = errors.New("index: closing")

// sealParts seals each full part in turn until the index is closed.
func (x *Index) sealParts() {
	defer close(x.done)
	for {
		p := x.nextFull()
		if p == nil {
			return
		}
		err := x.seal(p, x.commit)
		if errors.Is(err, errClosing) {
			return
		}
		if err != nil {
			x.opts.Logger.Error("sealing a part of the index failed; it is tried again",
				"first", p.start, "retry", sealRetry, "error", err)
			select {
			case <-time.After(sealRetry):
			case <-x.stop:
				return
			}
			continue
		}
		x.mu.Lock()
		x.sealed = p.end.Load()
		x.changed.Broadcast()
		x.mu.Unlock()
		if x.opts.OnSealed != nil {
			x.opts.OnSealed(p.end.Load())
		}
	}
}

// nextFull waits for a full part. It returns nil when the index is closing.
func (x *Index) nextFull() *part {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.sealed >= x.full && !x.closing {
		x.changed.Wait()
	}
	if x.closing {
		return nil
	}
	for _, p := range x.parts {
		if p.end.Load() > x.sealed {
			return p
		}
	}
	panic("index: a full part is not in memory")
}

func (x *Index) commit(batch *pebble.Batch) error {
	select {
	case <-x.stop:
		return errClosing
	default:
		return batch.Commit(pebble.NoSync)
	}
}

// seal writes a full part in pieces, and the mark with the last one. What an
// interrupted seal left behind is overwritten by the same keys and values.
func (x *Index) seal(p *part, commit func(*pebble.Batch) error) error {
	// The part is full: nobody changes it any more.
	sorted, texts := p.sorted()

	batch := x.db.NewBatchWithSize(2 * sealBatch)
	defer batch.Close()
	var key, value []byte
	var short [inlineList]uint16
	var err error
	for _, o := range sorted {
		if batch.Len() >= sealBatch {
			if err = commit(batch); err != nil {
				break
			}
			batch.Reset()
		}
		key = appendPart(appendTerm(key[:0], x.opts.Prefix, o.text(texts)), p.start)
		value = appendPosting(value[:0], p.list(o.id, &short))
		if err = batch.Set(key, value, nil); err != nil {
			break
		}
	}
	if err == nil {
		m := mark{version: x.opts.Version, sealed: p.end.Load()}
		err = batch.Set(append(x.opts.Prefix, markKey), m.encode(), nil)
	}
	if err == nil {
		err = commit(batch)
	}
	if err != nil {
		return fmt.Errorf("index: seal from %d on: %w", p.start, err)
	}
	return nil
}

// sortedTerm is a term's place in the order of keys.
type sortedTerm struct {
	head     uint64 // the first bytes of the term, so that most comparisons are of numbers
	id       uint32
	from, to uint32 // the term, with its class, in the texts of all
}

func (o sortedTerm) text(texts []byte) []byte { return texts[o.from:o.to] }

// sorted returns the part's terms in the order of their keys, and their texts.
func (p *part) sorted() (order []sortedTerm, texts []byte) {
	order = make([]sortedTerm, len(p.terms))
	texts = make([]byte, 0, len(p.terms)*meanTerm)
	for id := range p.terms {
		from := len(texts)
		texts = p.appendTerm(texts, uint32(id))
		var head [8]byte
		copy(head[:], texts[from:])
		order[id] = sortedTerm{
			head: binary.BigEndian.Uint64(head[:]), id: uint32(id), from: uint32(from), to: uint32(len(texts)),
		}
	}
	slices.SortFunc(order, func(x, y sortedTerm) int {
		if x.head != y.head {
			return cmp.Compare(x.head, y.head)
		}
		return bytes.Compare(x.text(texts), y.text(texts))
	})
	return order, texts
}
