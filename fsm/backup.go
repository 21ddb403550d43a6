package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// RecordBackup keeps when the newest backup that was saved was begun, for whoever
// watches that there is a young one.
type RecordBackup struct {
	// At is when the backup was begun, in milliseconds since the epoch by the clock
	// of the node that made it: everything acknowledged before is in it.
	At int64 `cbor:"1,keyasint"`
}

func (*RecordBackup) op() Op { return OpRecordBackup }

func (c *RecordBackup) check() error {
	if c.At <= 0 {
		return errors.New("a backup has a time after the epoch")
	}
	return nil
}

func (c *RecordBackup) apply(tx *txn) Result {
	row, _ := tx.get(keyBackup)
	newest, err := decodeBackup(row)
	tx.must(err)
	at := min(c.At, tx.now) // a fast clock must not hide that no more are made
	if at <= newest {
		return Result{Outcome: OutcomeUnchanged}
	}
	tx.keep(keyBackup, binary.AppendUvarint(nil, uint64(at)))
	return Result{Outcome: OutcomeDone}
}

// decodeBackup reads the row; no backup was made where there is none.
func decodeBackup(row []byte) (at int64, err error) {
	if len(row) == 0 {
		return 0, nil
	}
	r := rowReader{rest: row}
	at = int64(r.uint()) //nolint:gosec // bounded when it was set
	return at, r.done("backup row")
}

// LastBackup returns when the newest backup was begun, in milliseconds since the
// epoch; 0: none was made.
func (v *View) LastBackup() (int64, error) {
	row, _, err := getRow(v.snap, keyBackup)
	if err != nil {
		return 0, err
	}
	return decodeBackup(row)
}

// FirstEntry returns when the first entry was published, in milliseconds since the
// epoch; 0: none was. Without a backup this is the oldest that can be lost.
func (v *View) FirstEntry() (at int64, err error) {
	lower, upper := spaceBounds(spaceInstant)
	iter, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return 0, fmt.Errorf("look up the first instant: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	if !iter.First() {
		return 0, iter.Error()
	}
	return int64(seqOfKey(iter.Key())), nil //nolint:gosec // an instant
}
