package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

func (tx *txn) applyResetKey(c *command.ResetKey) command.Result {
	p, known := tx.profile(c.AgentKey)
	if !known {
		return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemUnknownAgent}}
	}
	copy(p.key[:], c.NewKey)
	p.sender = ""
	p.used = true // nobody but an operator renews it
	tx.putProfile(c.AgentKey, &p)
	return command.Result{Outcome: command.OutcomeDone, KeyIssued: true}
}

func (tx *txn) applyReseal(c *command.Reseal) command.Result {
	if tx.cluster.id == "" || !bytes.Equal(tx.cluster.sealedKey, c.Former) {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	tx.cluster.sealedKey = c.SealedDataKey
	tx.set(keyCluster, tx.cluster.append(nil))
	return command.Result{Outcome: command.OutcomeDone}
}

func (tx *txn) applyRecordBackup(c *command.RecordBackup) command.Result {
	row, _ := tx.get(keyBackup)
	newest, err := decodeBackup(row)
	tx.must(err)
	at := min(c.At, tx.now) // a fast clock must not hide that no more are made
	if at <= newest {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	tx.keep(keyBackup, binary.AppendUvarint(nil, uint64(at)))
	return command.Result{Outcome: command.OutcomeDone}
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

func (tx *txn) applySetFormat(c *command.SetFormat) command.Result {
	if c.Format > tx.format {
		tx.must(command.CheckFormat(c.Format, tx.maxFormat))
		tx.format = c.Format
		tx.keep(keyFormat, binary.AppendUvarint(nil, uint64(c.Format))) // checked
	}
	return command.Result{Outcome: command.OutcomeDone}
}

// Format returns the replicated format number.
func (m *Machine) Format() int {
	v := m.View()
	defer v.Release()
	return v.Format()
}

func loadFormat(r pebble.Reader) (int, error) {
	row, ok, err := getRow(r, keyFormat)
	if err != nil || !ok {
		return command.InitialFormat, err
	}
	rr := rowReader{rest: row}
	n := int(rr.uint()) //nolint:gosec // bounded when it was set
	return n, rr.done("format row")
}
