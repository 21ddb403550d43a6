package fsm

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// txn gathers the writes of one ApplyBatch call. Reads see what was written
// before in the same call. Everything in it is for the apply goroutine.
type txn struct {
	db        *pebble.DB
	batch     *pebble.Batch
	recent    *recentRows
	hot       *hotRows
	base      uint64 // the applied index before the call
	loaded           // as the call has left it so far
	maxFormat int    // newest format that is known here
	fatal     func(error)
	now       int64 // instant of the log entry that is being applied
	// rows are the rows written in this call that may be read or written again
	// in it; they enter the batch once, at the end. A nil row is a deleted one.
	rows map[string][]byte
	// changed are the rows of hotSpaces that are in the batch, and dropped the ranges of
	// keys that were deleted in this call.
	changed []hotRow
	dropped []keyRange
	// fresh are the rows of the entries made in this call; fresh[0] belongs to
	// firstFresh.
	fresh      [][]byte
	firstFresh uint64
	added      []indexed
	superseded []uint64   // entries that got a successor
	recast     []uint64   // entries whose row was written anew
	timed      bool       // the log entry has its row in spaceInstant
	claimed    []dueClaim // in this call
	notified   []string   // agents to wake that no new entry is addressed to
	// activities and recents are the rows of home that this call has changed, and
	// owned are the entries that were added to their authors' lists, by list.
	activities map[string]*activity
	recents    map[string]*recentByAuthor
	owned      map[string][]uint64
	caches     *caches
	// outboxes are those that this call has looked at.
	outboxes map[string]*outbox
	ended    []DeliveryEnd
	revised  []revised // profiles in this call
	rolled   []rolled  // the running digest after each log entry
	// happened are the events of the log entry that is being applied.
	happened []happening
}

// indexed is an entry on its way into the index.
type indexed struct {
	entry entryRow
	texts entryTexts
}

// applyError is what apply panics with: skipping the log entry would make this copy of
// the state differ from the others.
type applyError struct {
	index uint64
	err   error
}

func (e *applyError) Error() string { return fmt.Sprintf("apply log entry %d: %v", e.index, e.err) }

func (e *applyError) Unwrap() error { return e.err }

// must stops the state machine on an error of the storage below it.
func (tx *txn) must(err error) {
	if err != nil {
		panic(&applyError{index: tx.head.applied, err: err})
	}
}

// touch notes that a row changes.
func (tx *txn) touch(key []byte) {
	if !unseenSpaces[key[0]] {
		tx.version = tx.head.applied
	}
}

// set writes a row that nothing reads back within the call.
func (tx *txn) set(key, value []byte) {
	tx.touch(key)
	tx.must(tx.batch.Set(key, value, nil))
	if hotSpaces[key[0]] {
		tx.changed = append(tx.changed, hotRow{key: string(key), row: append([]byte{}, value...)})
	}
}

// del deletes a row that nothing reads back within the call.
func (tx *txn) del(key []byte) {
	tx.touch(key)
	tx.must(tx.batch.Delete(key, nil))
	if hotSpaces[key[0]] {
		tx.changed = append(tx.changed, hotRow{key: string(key)})
	}
}

// finishHot updates the hot rows to those of the call, which is committed.
func (tx *txn) finishHot() {
	if len(tx.dropped) > 0 {
		tx.hot.drop()
	}
	for _, c := range tx.changed {
		tx.hot.put([]byte(c.key), c.row, tx.head.applied)
	}
}

// keep writes a row that may be read again within the call.
func (tx *txn) keep(key, value []byte) { tx.rows[string(key)] = value }

// get returns a row as the call has left it so far. It must not be changed.
func (tx *txn) get(key []byte) ([]byte, bool) {
	if row, ok := tx.rows[string(key)]; ok {
		return row, row != nil
	}
	for _, r := range tx.dropped {
		if r.holds(key) {
			return nil, false
		}
	}
	if row, kept := tx.hot.get(key, tx.base); kept {
		return row, row != nil
	}
	row, ok, err := getRow(tx.db, key)
	tx.must(err)
	tx.hot.put(key, row, tx.base)
	return row, ok
}

// read returns what decode makes of a row as s knows it; false when there is none.
func read[T any](s facts, key []byte, decode func(row []byte) (T, error)) (v T, ok bool) {
	row, ok := s.get(key)
	if ok {
		var err error
		v, err = decode(row)
		s.must(err)
	}
	return v, ok
}

// instant is the instant of the log entry that is being applied.
func (tx *txn) instant() int64 { return tx.now }

// entry returns an entry by its seq.
func (tx *txn) entry(seq uint64) (entryRow, bool) {
	if seq == 0 || seq > tx.head.lastSeq {
		return entryRow{}, false
	}
	e, err := decodeEntryRow(seq, tx.entryRow(seq))
	tx.must(err)
	return e, true
}

// entryRow returns the row of an entry that there is, as the call has left it so far.
func (tx *txn) entryRow(seq uint64) []byte {
	if seq >= tx.firstFresh {
		return tx.fresh[seq-tx.firstFresh]
	}
	if row := tx.recent.get(seq); row != nil && len(tx.recast) == 0 {
		return row
	}
	row, ok := tx.get(seqKey(spaceEntry, seq))
	if !ok {
		tx.must(fmt.Errorf("%w: entry %d is missing", ErrCorrupt, seq))
	}
	return row
}

// recastEntry replaces the row of an entry.
func (tx *txn) recastEntry(seq uint64, row []byte) {
	if seq >= tx.firstFresh {
		tx.fresh[seq-tx.firstFresh] = row
	}
	tx.keep(seqKey(spaceEntry, seq), row)
	tx.recast = append(tx.recast, seq)
}

// finish moves the kept rows into the batch.
func (tx *txn) finish() {
	tx.finishHome()
	tx.finishOutboxes()
	for key, row := range tx.rows {
		if row == nil {
			tx.del([]byte(key))
			continue
		}
		tx.set([]byte(key), row)
	}
}

func (r keyRange) holds(key []byte) bool {
	return bytes.Compare(key, r.lower) >= 0 && bytes.Compare(key, r.upper) < 0
}

// dropRange deletes the rows from lower to before upper. Only get knows in the same call
// that they are gone: no scan may read them.
func (tx *txn) dropRange(lower, upper []byte) {
	tx.touch(lower)
	tx.must(tx.batch.DeleteRange(lower, upper, nil))
	dropped := keyRange{lower, upper}
	tx.dropped = append(tx.dropped, dropped)
	for key := range tx.rows {
		if dropped.holds([]byte(key)) {
			delete(tx.rows, key)
		}
	}
}

// keysOf returns the keys of a space, those written in the call and those that it
// has deleted included, in no order.
func (tx *txn) keysOf(space byte) [][]byte {
	var keys [][]byte
	lower, upper := spaceBounds(space)
	tx.must(scanSpace(tx.db, lower, upper, func(key, _ []byte) error {
		keys = append(keys, append([]byte(nil), key...))
		return nil
	}))
	for key := range tx.rows {
		if key[0] == space {
			keys = append(keys, []byte(key))
		}
	}
	return keys
}
