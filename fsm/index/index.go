// Package index is an inverted index: it finds entries by their terms.
//
// Entries are numbered by seq. Each block of BlockEntries entries is indexed
// separately: for each term, the offsets of the entries that have it. The newest
// entries are in memory, in parts: a part ends with its block, or earlier when its
// terms take maxPartBytes of memory. A full part is sealed, that is written to Pebble,
// in the background; the seal mark is the end of what is sealed. A search goes through
// the blocks from newest to oldest and stops at its limit, so that its cost hardly
// depends on the number of entries.
//
// The index is derived from the entries. Each node has its own and rebuilds it when it
// is lost. Digests do not include it.
package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Limits of what may wait to be sealed: full parts, and their memory. Add blocks at
// either limit, so that memory stays bounded when entries come faster than Pebble can
// write them.
const (
	maxWaiting      = 8
	maxWaitingBytes = 64 << 20
)

// Options are the settings of an Index.
type Options struct {
	// Prefix begins every key of the index. Only the index may use keys with this prefix.
	Prefix []byte
	// Version is the version of the terms, in 24 bits. An index of another version is
	// dropped.
	Version uint32
	// First is the lowest seq of any entry.
	First uint64
	// Logger receives failed seals; nil discards.
	Logger *slog.Logger
	// Pace begins the work of Erase, which calls step between parts of it. Nil is allowed.
	Pace func() (step func())
	// Erased, if set, returns the erased entries of a block. They are not sealed, and Erase removes
	// them from sealed postings, except from terms that Lasting names.
	Erased func(block uint64) (Bitmap, error)
	// Lasting, if set, reports whether erased entries keep a term, such as their channel.
	Lasting func(term []byte) bool
	// OnSealed, if set, is called in the background after each seal with the new mark. A
	// sealed part is removed from memory when the second Cut after that is taken and no
	// older Cut is in use.
	OnSealed func(sealed uint64)
}

// Index is the index of all entries. Only apply may call Add and Cut; other methods are
// safe for concurrent use.
type Index struct {
	db   *pebble.DB
	opts Options

	eraseBatch int // as the constant; tests take fewer
	// Of Add alone:
	open      *part // takes the next entry; nil at the start of a part
	terms     int   // terms of the part before
	partBytes int   // memory from which on a part is full

	sealing sync.Mutex // held while a part is sealed, and while postings are written anew

	mu      sync.Mutex
	changed sync.Cond // full, sealed or closing changed
	next    uint64    // the seq of the next entry
	parts   []*part   // in memory, oldest first; replaced, never changed
	full    uint64    // the seq after the newest full part
	sealed  uint64    // every seq below is in Pebble
	cutMark uint64    // sealed as it was before any snapshot that the next Cut may meet
	closing bool

	stop chan struct{}
	done chan struct{}
}

// Open opens the index in db's keyspace opts.Prefix and starts sealing in the
// background. The owner then adds every entry from Sealed on again.
//
// If the index there has another version, it is deleted first, and Sealed is
// opts.First.
func Open(db *pebble.DB, opts Options) (*Index, error) {
	if len(opts.Prefix) == 0 || keyAfter(opts.Prefix) == nil {
		return nil, errors.New("index: the keyspace needs a prefix")
	}
	opts.Prefix = slices.Clip(slices.Clone(opts.Prefix))
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Version |= layout << layoutShift
	m, ok, err := readMark(db, opts.Prefix)
	if err != nil {
		return nil, err
	}
	if !ok || m.version != opts.Version {
		// Also without a mark: pieces of a first block may be there.
		m = mark{version: opts.Version, sealed: opts.First}
		if err := reset(db, opts.Prefix, m); err != nil {
			return nil, err
		}
	}
	x := &Index{
		db: db, opts: opts, partBytes: maxPartBytes, eraseBatch: eraseBatch,
		next: m.sealed, full: m.sealed, sealed: m.sealed, cutMark: m.sealed,
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	x.changed.L = &x.mu
	go x.sealParts()
	return x, nil
}

// reset empties the keyspace and writes the mark of an empty index.
func reset(db *pebble.DB, prefix []byte, m mark) error {
	batch := db.NewBatch()
	err := errors.Join(
		batch.DeleteRange(prefix, keyAfter(prefix), nil),
		batch.Set(append(prefix, markKey), m.encode(), nil),
		db.Apply(batch, pebble.NoSync),
		batch.Close(),
	)
	if err != nil {
		return fmt.Errorf("index: reset: %w", err)
	}
	return nil
}

// Sealed returns the seal mark: every entry below it is in Pebble.
func (x *Index) Sealed() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sealed
}

// Add indexes the entry seq under its terms, and under its words, which are given
// without WordClass. Both may contain duplicates. It keeps no reference to them.
//
// Seqs are consecutive, beginning with Sealed of the index just opened; any other
// seq is a bug of the caller, and Add panics. Add blocks while too much waits to
// be sealed.
func (x *Index) Add(seq uint64, terms []string, words ...string) {
	if seq != x.next {
		panic(fmt.Sprintf("index: entry %d added where %d is next", seq, x.next))
	}
	if x.open == nil {
		x.open = x.startPart(seq)
	}
	x.open.add(uint16(seq%BlockEntries), terms, words)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.next = seq + 1
	if x.open.bytes >= x.partBytes {
		x.open.end.Store(x.next)
	}
	if x.next == x.open.end.Load() {
		x.terms, x.open = len(x.open.terms), nil
		x.full = x.next
		x.changed.Broadcast()
	}
}

// startPart makes the part that takes the next entry.
func (x *Index) startPart(seq uint64) *part {
	p := newPart(seq, x.terms)
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.tooMuchWaits() && !x.closing {
		x.changed.Wait()
	}
	x.cutMark = x.sealed
	x.parts = append(x.unsealed(), p)
	return p
}

// tooMuchWaits reports whether the unsealed parts, which are full, reach a limit.
func (x *Index) tooMuchWaits() bool {
	waiting, bytes := 0, 0
	for _, p := range x.parts {
		if p.end.Load() > x.sealed {
			waiting++
			bytes += p.bytes
		}
	}
	return waiting >= maxWaiting || bytes >= maxWaitingBytes
}

// unsealed returns a copy of the parts that cuts still need.
func (x *Index) unsealed() []*part {
	return slices.DeleteFunc(slices.Clone(x.parts), func(p *part) bool { return p.end.Load() <= x.cutMark })
}

// Cut captures the current contents of the index. It is cheap. It is taken together
// with a Pebble snapshot, in either order, with no Add between them; searches of the
// cut read from that snapshot.
func (x *Index) Cut() Cut {
	x.mu.Lock()
	defer x.mu.Unlock()
	// The snapshot may be older than this call, and a part may have been sealed since. So
	// the mark that the previous call saw counts.
	if len(x.parts) > 0 && x.parts[0].end.Load() <= x.cutMark {
		x.parts = x.unsealed()
	}
	c := Cut{prefix: x.opts.Prefix, parts: x.parts, first: x.opts.First, sealed: x.cutMark, next: x.next}
	x.cutMark = x.sealed
	return c
}

// Close ends sealing. It is called before Pebble is closed, and after the last
// Add. Parts that were not sealed are lost, and added again after the next Open.
// Cuts go on working as long as their snapshots do.
func (x *Index) Close() {
	x.mu.Lock()
	if !x.closing {
		x.closing = true
		close(x.stop)
		x.changed.Broadcast()
	}
	x.mu.Unlock()
	<-x.done
}

const (
	// sealBatch is the size in bytes at which a piece of a part is committed. Pebble
	// publishes commits in order: the apply goroutine waits for at most one piece, well
	// below a millisecond.
	sealBatch = 32 << 10
	// sealRetry is the time before a failed seal is tried again.
	sealRetry = time.Second
	// meanTerm is the assumed mean length of a term in bytes.
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

// seal writes a full part in pieces, and the mark with the last one. An interrupted
// seal is repeated: it overwrites its postings with the same values, and its records
// are in the directories twice.
func (x *Index) seal(p *part, commit func(*pebble.Batch) error) error {
	x.sealing.Lock()
	defer x.sealing.Unlock()
	// The part is full: it does not change any more.
	sorted, texts := p.sorted()

	batch := x.db.NewBatchWithSize(2 * sealBatch)
	defer batch.Close()
	var key, value, record []byte
	block := p.block()
	most := maxRecord
	if p.end.Load()-p.start < fewEntries {
		most = maxFewRecord
	}
	var short [inlineList]uint16
	erased, err := x.erasedIn(block)
	for _, o := range sorted {
		if err != nil {
			break
		}
		key = appendTerm(key[:0], x.opts.Prefix, o.text(texts))
		list := p.list(o.id, &short)
		if len(erased) > 0 && !x.lasts(key) {
			list = slices.DeleteFunc(slices.Clone(list), func(off uint16) bool { return erased.Has(uint64(off)) })
		}
		if len(list) == 0 {
			continue
		}
		if batch.Len() >= sealBatch {
			if err = commit(batch); err != nil {
				break
			}
			batch.Reset()
		}
		size := len(key)
		value = appendPosting(value[:0], list)
		if len(value) > most {
			if err = batch.Set(appendPart(key, p.start), value, nil); err != nil {
				break
			}
			value = value[:0]
		}
		record = appendRecord(record[:0], block, value)
		if err = batch.Merge(appendDirectory(key[:size], block), record, nil); err != nil {
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

// newSortedTerm returns the term at the end of the texts, which begins at from. The first
// bytes after those that all terms share make its head.
func newSortedTerm(id uint32, texts []byte, from, shared int) sortedTerm {
	var head [8]byte
	copy(head[:], texts[from+shared:])
	return sortedTerm{head: binary.BigEndian.Uint64(head[:]), id: id, from: uint32(from), to: uint32(len(texts))}
}

func (o sortedTerm) text(texts []byte) []byte { return texts[o.from:o.to] }

func (o sortedTerm) compare(other sortedTerm, texts []byte) int {
	if o.head != other.head {
		return cmp.Compare(o.head, other.head)
	}
	return bytes.Compare(o.text(texts), other.text(texts))
}

// sorted returns the part's terms in the order of their keys, and their texts.
func (p *part) sorted() (order []sortedTerm, texts []byte) {
	order = make([]sortedTerm, len(p.terms))
	texts = make([]byte, 0, len(p.terms)*meanTerm)
	for id := range p.terms {
		from := len(texts)
		texts = p.appendTerm(texts, uint32(id))
		order[id] = newSortedTerm(uint32(id), texts, from, 0)
	}
	slices.SortFunc(order, func(x, y sortedTerm) int { return x.compare(y, texts) })
	return order, texts
}
