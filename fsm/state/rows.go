package state

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// Rows are the rows of a store, with the caches of them that views and transactions share.
type Rows struct {
	DB     *pebble.DB
	Recent RecentRows
	Hot    HotRows
	Later  LaterBits
	Gaps   Gaps
}

// Open sets the database of the rows.
func (r *Rows) Open(db *pebble.DB) { r.DB, r.Later.db = db, db }

// KeyRange is a range of keys from lower to before upper.
type KeyRange struct{ Lower, Upper []byte }

// Holds reports whether a key is in the range.
func (r KeyRange) Holds(key []byte) bool {
	return bytes.Compare(key, r.Lower) >= 0 && bytes.Compare(key, r.Upper) < 0
}

// GetRow returns a copy of a row.
func GetRow(r pebble.Reader, key []byte) ([]byte, bool, error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read row: %w", err)
	}
	row := append([]byte{}, value...) // not nil: the row is there
	return row, true, closer.Close()
}

// Load returns the decoded row of a key, and false if the row is missing.
func Load[T any](r pebble.Reader, key []byte, decode func(row []byte) (T, error)) (v T, ok bool, err error) {
	row, ok, err := GetRow(r, key)
	if err == nil && ok {
		v, err = decode(row)
	}
	return v, ok && err == nil, err
}

// LoadOrZero returns the decoded row of a key, or the zero value if the row is missing.
func LoadOrZero[T any](r pebble.Reader, key []byte, decode func(row []byte) (T, error)) (T, error) {
	v, _, err := Load(r, key, decode)
	return v, err
}

// ErrEnough ends a scan early, without an error.
var ErrEnough = errors.New("enough")

// ScanSpace calls f for each row in key order, until f returns an error. Slices are valid
// in f only.
func ScanSpace(r pebble.Reader, lower, upper []byte, f func(key, value []byte) error) error {
	return scanRows(r, lower, upper, (*pebble.Iterator).First, (*pebble.Iterator).Next, f)
}

// ScanAll is ScanSpace for all rows of a keyspace.
func ScanAll(r pebble.Reader, space byte, f func(key, value []byte) error) error {
	lower, upper := SpaceBounds(space)
	return ScanSpace(r, lower, upper, f)
}

// ScanBack is ScanSpace from the last row to the first.
func ScanBack(r pebble.Reader, lower, upper []byte, f func(key, value []byte) error) error {
	return scanRows(r, lower, upper, (*pebble.Iterator).Last, (*pebble.Iterator).Prev, f)
}

func scanRows(r pebble.Reader, lower, upper []byte, first, next func(*pebble.Iterator) bool, f func(key, value []byte) error) (err error) {
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("scan rows: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := first(iter); ok; ok = next(iter) {
		value, err := iter.ValueAndErr()
		if err != nil {
			return fmt.Errorf("scan rows: %w", err)
		}
		if err := f(iter.Key(), value); errors.Is(err, ErrEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if err := iter.Error(); err != nil {
		return fmt.Errorf("scan rows: %w", err)
	}
	return nil
}

// The bounds of the cached rows of entries, and of hot keyspaces: 16 MiB at worst each.
const (
	recentSlots    = 4096
	RecentRowBytes = 4 << 10 // of one row
	hotSlots       = 4096
	hotRowBytes    = 1 << 10 // of one row
)

// RecentRows keeps the rows of the newest entries: they are read far more often than
// all others. A row that changes is dropped permanently, so all views can share them.
// Only the apply goroutine writes; any goroutine may read.
type RecentRows struct {
	slots [recentSlots]atomic.Pointer[recentRow]
}

type recentRow struct {
	seq uint64
	row []byte
}

// Put caches a row; the caller must not use it afterwards.
func (r *RecentRows) Put(seq uint64, row []byte) {
	if len(row) <= RecentRowBytes {
		r.slots[seq%recentSlots].Store(&recentRow{seq: seq, row: row})
	}
}

// Get returns a cached row, which must not be changed, or nil.
func (r *RecentRows) Get(seq uint64) []byte {
	if slot := r.slots[seq%recentSlots].Load(); slot != nil && slot.seq == seq {
		return slot.row
	}
	return nil
}

// Drop removes the rows of these entries.
func (r *RecentRows) Drop(seqs []uint64) {
	for _, seq := range seqs {
		if slot := &r.slots[seq%recentSlots]; r.Get(seq) != nil {
			slot.Store(nil)
		}
	}
}

// HotRows caches rows of hot keyspaces of the newest state. A view may use a row that has not
// changed since the view's index: a row changes here before the view with the change is
// published. Only the apply goroutine writes; any goroutine may read.
type HotRows struct {
	Slots [hotSlots]atomic.Pointer[HotRow]
}

// HotRow is a cached row.
type HotRow struct {
	Key   string
	Row   []byte // nil if the row is missing
	since uint64 // the applied index from which on it is valid
}

var hotSeed = maphash.MakeSeed() // decides only what is kept

func (h *HotRows) slot(key []byte) *atomic.Pointer[HotRow] {
	return &h.Slots[maphash.Bytes(hotSeed, key)%hotSlots]
}

// Put caches a row, valid from an applied index on, which the caller must not use
// afterwards.
func (h *HotRows) Put(key, row []byte, since uint64) {
	if !KeyspaceOf[key[0]].Hot {
		return
	}
	var kept *HotRow
	if len(row) <= hotRowBytes {
		kept = &HotRow{Key: string(key), Row: row, since: since}
	}
	h.slot(key).Store(kept)
}

// Get returns a row of the state at an index, if it is cached. The row must not be changed;
// nil means that it is missing.
func (h *HotRows) Get(key []byte, index uint64) (row []byte, kept bool) {
	if !KeyspaceOf[key[0]].Hot {
		return nil, false
	}
	if r := h.slot(key).Load(); r != nil && r.since <= index && r.Key == string(key) {
		return r.Row, true
	}
	return nil, false
}

// Drop empties the cache.
func (h *HotRows) Drop() {
	for i := range h.Slots {
		h.Slots[i].Store(nil)
	}
}

// LaterBits holds for each entry whether a later one relates to it, so that the many others
// need no second lookup. It loads blocks of bits on demand. A bit may be set for a view that
// does not know the later entry yet; it is never missing.
type LaterBits struct {
	db     *pebble.DB
	mu     sync.Mutex // held while a block is loaded and while bits are set
	blocks atomic.Pointer[[]*laterBlock]
}

const laterBlockBits = 4096

type laterBlock [laterBlockBits / 64]atomic.Uint64

// loaded returns the block of seq, or nil if it was not read yet.
func (l *LaterBits) loaded(seq uint64) *laterBlock {
	blocks := l.blocks.Load()
	if blocks == nil || seq/laterBlockBits >= uint64(len(*blocks)) {
		return nil
	}
	return (*blocks)[seq/laterBlockBits]
}

// Set records that a later entry relates to seq, between the commit and the publishing of
// the view: a block that is being loaded either sees the row or gets the bit.
func (l *LaterBits) Set(seqs []uint64) {
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

// Has reports whether a later entry may relate to seq.
func (l *LaterBits) Has(seq uint64) (bool, error) {
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
func (l *LaterBits) load(seq uint64) (*laterBlock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.loaded(seq); b != nil {
		return b, nil
	}
	n := seq / laterBlockBits
	b := new(laterBlock)
	lower, upper := SeqKey(SpaceCounts, n*laterBlockBits), SeqKey(SpaceCounts, (n+1)*laterBlockBits)
	err := ScanSpace(l.db, lower, upper, func(key, _ []byte) error {
		b.set(SeqOfKey(key))
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

// gapSlots bounds the cached gaps.
const gapSlots = 32

// Gaps caches times in which no entry came. Homes look for the first entry after the same few
// instants: a day, a week and 90 days ago. New entries come after all others, so a gap stays
// one for every view.
type Gaps struct {
	slots [gapSlots]atomic.Pointer[Gap]
	puts  atomic.Uint32
}

// Gap is a time without entries: after one instant, and before another with an entry.
type Gap struct {
	After, End int64
	Seq        uint64 // the first entry at the end
}

// Around returns the cached gap around an instant, or nil.
func (g *Gaps) Around(at int64) *Gap {
	for i := range g.slots {
		if one := g.slots[i].Load(); one != nil && one.After <= at && at < one.End {
			return one
		}
	}
	return nil
}

// Put caches a gap.
func (g *Gaps) Put(one *Gap) {
	g.slots[g.puts.Add(1)%gapSlots].Store(one)
}
