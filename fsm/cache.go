package fsm

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// recentSlots is how many of the newest entries are kept in memory, and
	// recentRowBytes how long a row may be to be kept: 16 MiB at worst.
	recentSlots    = 4096
	recentRowBytes = 4 << 10
	// hotSlots is how many rows of hotSpaces are kept in memory, and hotRowBytes how
	// long one may be: 16 MiB at worst.
	hotSlots    = 4096
	hotRowBytes = 1 << 10
)

// recentRows keeps the rows of the newest entries: they are read far more often than
// all others. A row that changes is dropped permanently, so all views can share them.
// Only the apply goroutine writes; any goroutine may read.
type recentRows struct {
	slots [recentSlots]atomic.Pointer[recentRow]
}

type recentRow struct {
	seq uint64
	row []byte
}

// put caches a row; the caller must not use it afterwards.
func (r *recentRows) put(seq uint64, row []byte) {
	if len(row) <= recentRowBytes {
		r.slots[seq%recentSlots].Store(&recentRow{seq: seq, row: row})
	}
}

// get returns an entry's row, which must not be changed; nil when it is not kept.
func (r *recentRows) get(seq uint64) []byte {
	if slot := r.slots[seq%recentSlots].Load(); slot != nil && slot.seq == seq {
		return slot.row
	}
	return nil
}

// hotSpaces hold rows that nearly every write reads: the owner of a name, who wrote under
// it and when, the keys of pseudonyms, the day's budget, and what is counted.
var hotSpaces = [256]bool{
	spaceProfile: true, spaceLook: true, spaceWriters: true, spacePosted: true, spaceSettings: true, spaceBudget: true,
	spaceEpoch: true, spaceChannel: true, spaceNewest: true, spaceHour: true,
}

// hotRows caches rows of hotSpaces of the newest state. A view may use a row that has
// not changed since the view's index: a row changes here before the view with the
// change is published. Only the apply goroutine writes; any goroutine may read.
type hotRows struct {
	slots [hotSlots]atomic.Pointer[hotRow]
}

type hotRow struct {
	key   string
	row   []byte // nil: there is none
	since uint64 // the applied index from which on it is so
}

var hotSeed = maphash.MakeSeed() // decides only what is kept

func (h *hotRows) slot(key []byte) *atomic.Pointer[hotRow] {
	return &h.slots[maphash.Bytes(hotSeed, key)%hotSlots]
}

// put caches a row that is valid from an applied index on; the caller must not use it
// afterwards.
func (h *hotRows) put(key, row []byte, since uint64) {
	if !hotSpaces[key[0]] {
		return
	}
	if len(row) > hotRowBytes {
		h.slot(key).Store(nil)
		return
	}
	h.slot(key).Store(&hotRow{key: string(key), row: row, since: since})
}

// get returns a row of the state at an index, nil for none, if it is cached. It must
// not be changed.
func (h *hotRows) get(key []byte, index uint64) (row []byte, kept bool) {
	if !hotSpaces[key[0]] {
		return nil, false
	}
	if r := h.slot(key).Load(); r != nil && r.since <= index && r.key == string(key) {
		return r.row, true
	}
	return nil, false
}

// drop empties the cache.
func (h *hotRows) drop() {
	for i := range h.slots {
		h.slots[i].Store(nil)
	}
}

// drop removes the rows of these entries.
func (r *recentRows) drop(seqs []uint64) {
	for _, seq := range seqs {
		if slot := &r.slots[seq%recentSlots]; r.get(seq) != nil {
			slot.Store(nil)
		}
	}
}

// laterBits says for each entry whether a later one relates to it, so that the many
// without need no second lookup: one bit for each entry, in blocks that are
// read when first asked for. A bit may be set for a view that does not know the
// later entry yet; it is never missing.
type laterBits struct {
	db     *pebble.DB
	mu     sync.Mutex // held while a block is loaded and while bits are set
	blocks atomic.Pointer[[]*laterBlock]
}

const laterBlockBits = 4096

type laterBlock [laterBlockBits / 64]atomic.Uint64

// loaded returns the block of seq, nil when nobody has asked for it yet.
func (l *laterBits) loaded(seq uint64) *laterBlock {
	blocks := l.blocks.Load()
	if blocks == nil || seq/laterBlockBits >= uint64(len(*blocks)) {
		return nil
	}
	return (*blocks)[seq/laterBlockBits]
}

// set records that a later entry relates to seq. The apply goroutine calls it after the
// commit and before it publishes the view: a block that is being loaded meanwhile
// either sees the row or gets the bit.
func (l *laterBits) set(seqs []uint64) {
	if len(seqs) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, seq := range seqs {
		if b := l.loaded(seq); b != nil {
			b.set(seq)
		}
	}
}

// has reports whether a later entry may relate to seq.
func (l *laterBits) has(seq uint64) (bool, error) {
	b := l.loaded(seq)
	if b == nil {
		var err error
		if b, err = l.load(seq); err != nil {
			return false, err
		}
	}
	return b[seq%laterBlockBits/64].Load()&(1<<(seq%64)) != 0, nil
}

func (b *laterBlock) set(seq uint64) { b[seq%laterBlockBits/64].Or(1 << (seq % 64)) }

// load reads the block of seq from the newest rows.
func (l *laterBits) load(seq uint64) (*laterBlock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.loaded(seq); b != nil {
		return b, nil
	}
	n := seq / laterBlockBits
	b := new(laterBlock)
	lower, upper := seqKey(spaceCounts, n*laterBlockBits), seqKey(spaceCounts, (n+1)*laterBlockBits)
	err := scanSpace(l.db, lower, upper, func(key, _ []byte) error {
		b.set(seqOfKey(key))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load successors of block %d: %w", n, err)
	}
	var grown []*laterBlock
	if old := l.blocks.Load(); old != nil {
		grown = append(grown, *old...)
	}
	for uint64(len(grown)) <= n {
		grown = append(grown, nil)
	}
	grown[n] = b
	l.blocks.Store(&grown)
	return b, nil
}

// cache keeps the most recently used values, between one and two generations of them.
// It is for the apply goroutine.
type cache[T any] struct {
	young, old map[string]*T
	generation int // how many values make one
}

func newCache[T any](keep int) cache[T] {
	return cache[T]{young: make(map[string]*T), generation: keep / 2}
}

func (m *cache[T]) get(key string) *T {
	v := m.young[key]
	if v == nil {
		if v = m.old[key]; v != nil {
			m.put(key, v)
		}
	}
	return v
}

func (m *cache[T]) put(key string, v *T) {
	if len(m.young) >= m.generation {
		m.old, m.young = m.young, make(map[string]*T, m.generation)
	}
	m.young[key] = v
}

// use returns a value to be changed, from the cache or as load returns it. It is
// among used for the rest of the call.
func use[T any](tx *txn, c *cache[T], used map[string]*T, key string, load func() (*T, error)) *T {
	if v := used[key]; v != nil {
		return v
	}
	v := c.get(key)
	if v == nil {
		var err error
		v, err = load()
		tx.must(err)
		c.put(key, v)
	}
	used[key] = v
	return v
}

// caches are the apply goroutine's caches of rows that change often.
type caches struct {
	activities cache[activity]
	recents    cache[recentByAuthor]
	outboxes   cache[outbox]
	hooks      hookSet
}

func newCaches() *caches {
	return &caches{
		activities: newCache[activity](activitiesKept), recents: newCache[recentByAuthor](notesKept),
		outboxes: newCache[outbox](outboxesKept),
	}
}
