package apply

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
)

// Txn gathers the writes of one ApplyBatch call, which later reads of the call see.
type Txn struct {
	stored    *state.Rows
	Batch     *pebble.Batch
	base      state.Head // before the call
	Loaded               // as the call has left it so far
	maxFormat int        // newest format that is known here
	fatal     func(error)
	now       int64           // instant of the log entry that is being applied
	judged    state.Admission // of the command that is being applied
	refused   bool            // the log entry has a text that was rejected because of its target
	// rows are the rows of this call, which enter the batch at the end. A nil row is
	// deleted.
	rows map[string][]byte
	// changed are the hot rows in the batch, dropped the deleted ranges of this call.
	changed []state.HotRow
	dropped []state.KeyRange
	// fresh are the rows of the entries made in this call, from firstFresh on.
	fresh      [][]byte
	firstFresh uint64
	superseded []uint64 // entries that got a successor
	recast     []uint64 // entries whose row was written anew
	timed      bool     // the log entry has its row in SpaceInstant
	answersAt  uint64   // the first command in the row of answers of the group that is being applied; 0 without one
	// activities and recents are the rows of home that this call has changed, owned the
	// entries that were added to their authors' lists, by list.
	activities map[string]*home.Activity
	recents    map[string]*home.RecentByAuthor
	owned      map[string][]uint64
	caches     *Caches
	// outboxes are those that this call has looked at.
	outboxes map[string]*outbox.Outbox
	Changes
	// happened are the events of the log entry that is being applied.
	happened []state.Happening
	stepped  int // number of those that putJob has looked at
}

// Changes are the results of a transaction for its caller.
type Changes struct {
	Answers  []Answered
	Added    []Indexed
	Revised  []Revised // profiles
	Notified []string  // agents to wake that no new entry is addressed to
	Ended    []outbox.DeliveryEnd
	Opened   []uint64 // jobs that became open
	Queued   bool     // outboxes may have changed
	Eventful bool     // there are new events
}

// Indexed is an entry on its way into the index.
type Indexed struct {
	Entry state.EntryRow
	Texts state.EntryTexts
}

// Error is the value of apply's panics: skipping the log entry would make this copy of the
// state differ from the others.
type Error struct {
	Index uint64
	err   error
}

func (e *Error) Error() string { return fmt.Sprintf("apply log entry %d: %v", e.Index, e.err) }

func (e *Error) Unwrap() error { return e.err }

// Must stops the state machine on an error of the storage below it.
func (tx *Txn) Must(err error) {
	if err != nil {
		panic(&Error{Index: tx.Head.Applied, err: err})
	}
}

// touch notes that a row changes.
func (tx *Txn) touch(key []byte) {
	if !state.KeyspaceOf[key[0]].Unseen {
		tx.Version = tx.Head.Applied
	}
}

// set writes a row, which the caller must not change afterwards, or deletes it if it is
// nil.
func (tx *Txn) set(key, row []byte) { tx.rows[string(key)] = row }

// extend adds items to the end of a row that this log entry has begun.
func (tx *Txn) extend(key, items []byte) { tx.set(key, append(tx.rows[string(key)], items...)) }

func (tx *Txn) del(key []byte) { tx.rows[string(key)] = nil }

// Get returns a row as the call has left it so far. It must not be changed.
func (tx *Txn) Get(key []byte) ([]byte, bool) {
	if row, ok := tx.rows[string(key)]; ok {
		return row, row != nil
	}
	if tx.isDropped(key) {
		return nil, false
	}
	if row, kept := tx.stored.Hot.Get(key, tx.base.Applied); kept {
		return row, row != nil
	}
	row, ok, err := state.GetRow(tx.stored.DB, key)
	tx.Must(err)
	tx.stored.Hot.Put(key, row, tx.base.Applied)
	return row, ok
}

// Instant is the instant of the log entry that is being applied.
func (tx *Txn) Instant() int64 { return tx.now }

// ReportQueue returns the reports at this place of the log.
func (tx *Txn) ReportQueue() *state.ReportQueue { return tx.Reports }

// Entry returns an entry by its seq.
func (tx *Txn) Entry(seq uint64) (state.EntryRow, bool) {
	if seq == 0 || seq > tx.Head.LastSeq {
		return state.EntryRow{}, false
	}
	e, err := state.DecodeEntryRow(seq, tx.entryRow(seq))
	tx.Must(err)
	return e, true
}

// entryRow returns the row of an existing entry, as the call has left it so far.
func (tx *Txn) entryRow(seq uint64) []byte {
	if seq >= tx.firstFresh {
		return tx.fresh[seq-tx.firstFresh]
	}
	if row := tx.stored.Recent.Get(seq); row != nil && len(tx.recast) == 0 {
		return row
	}
	row, ok := tx.Get(state.SeqKey(state.SpaceEntry, seq))
	if !ok {
		tx.Must(fmt.Errorf("%w: entry %d is missing", state.ErrCorrupt, seq))
	}
	return row
}

// recastEntry replaces the row of an entry.
func (tx *Txn) recastEntry(seq uint64, row []byte) {
	if seq >= tx.firstFresh {
		tx.fresh[seq-tx.firstFresh] = row
	}
	tx.set(state.SeqKey(state.SpaceEntry, seq), row)
	tx.recast = append(tx.recast, seq)
}

// dropRange deletes the rows from lower to before upper.
func (tx *Txn) dropRange(lower, upper []byte) {
	tx.touch(lower)
	tx.Must(tx.Batch.DeleteRange(lower, upper, nil))
	dropped := state.KeyRange{Lower: lower, Upper: upper}
	tx.dropped = append(tx.dropped, dropped)
	for key := range tx.rows {
		if dropped.Holds([]byte(key)) {
			delete(tx.rows, key)
		}
	}
}

// isDropped reports whether a stored row was in a range that this call has deleted.
func (tx *Txn) isDropped(key []byte) bool {
	return slices.ContainsFunc(tx.dropped, func(r state.KeyRange) bool { return r.Holds(key) })
}

// scan returns the first keys from lower to before upper, at most limit, as the call has left them so
// far.
func (tx *Txn) scan(lower, upper []byte, limit int) (keys [][]byte) {
	for key, row := range tx.rows {
		if row != nil && key >= string(lower) && key < string(upper) {
			keys = append(keys, []byte(key))
		}
	}
	stored := 0
	tx.Must(state.ScanSpace(tx.stored.DB, lower, upper, func(key, _ []byte) error {
		if _, changed := tx.rows[string(key)]; changed || tx.isDropped(key) {
			return nil
		}
		keys = append(keys, bytes.Clone(key))
		if stored++; stored == limit {
			return state.ErrEnough
		}
		return nil
	}))
	slices.SortFunc(keys, bytes.Compare)
	return keys[:min(len(keys), limit)]
}

// keysOf returns all keys of a space.
func (tx *Txn) keysOf(space byte) [][]byte {
	lower, upper := state.SpaceBounds(space)
	return tx.scan(lower, upper, math.MaxInt)
}

// Answered is a command's result, to be passed to the observer.
type Answered struct {
	Boot  command.BootID
	Seq   uint64
	Index uint64
	Res   command.Result
}

// Revised is a revision of a profile on its way into the index.
type Revised struct {
	Revision uint64
	Texts    []string
}

// The results of commands without an entry.
var (
	done      = command.Result{Outcome: command.OutcomeDone}
	unchanged = command.Result{Outcome: command.OutcomeUnchanged}
)

func rejected(problems ...command.Problem) command.Result {
	return command.Result{Outcome: command.OutcomeRejected, Problems: problems}
}

// number returns the number in a row, or 0 if there is no row.
func (tx *Txn) number(key []byte) uint64 {
	n, _ := state.Read(tx, key, state.DecodeNumber)
	return n
}

func (tx *Txn) setNumber(key []byte, n uint64) { tx.set(key, binary.AppendUvarint(nil, n)) }

// count adds one to the number in a row, and returns it.
func (tx *Txn) count(key []byte) uint64 {
	n := tx.number(key) + 1
	tx.setNumber(key, n)
	return n
}

// need returns a row that must exist.
func need[T any](tx *Txn, key []byte, decode func(row []byte) (T, error), name string) T {
	v, ok := state.Read(tx, key, decode)
	if !ok {
		tx.Must(fmt.Errorf("%w: %s %q is missing", state.ErrCorrupt, name, key[1:]))
	}
	return v
}

// mark sets or clears the bit of an entry in a keyspace of bits.
func (tx *Txn) mark(space byte, seq uint64, set bool) {
	key := state.SeqKey(space, seq/state.HiddenEntries)
	row, _ := tx.Get(key)
	change := index.Bitmap.Without
	if set {
		change = index.Bitmap.With
	}
	tx.set(key, change(row, seq))
}

func (tx *Txn) marked(space byte, seq uint64) bool {
	bits, _ := tx.Get(state.SeqKey(space, seq/state.HiddenEntries))
	return index.Bitmap(bits).Has(seq)
}

func (tx *Txn) texts(e *state.EntryRow) state.EntryTexts {
	texts, err := e.Outline.Texts()
	tx.Must(err)
	return texts
}

// release removes a row, and reports whether there was one.
func (tx *Txn) release(key []byte) bool {
	_, listed := tx.Get(key)
	if listed {
		tx.del(key)
	}
	return listed
}
