package fsm

import (
	"bytes"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
)

func (tx *txn) applyResetKey(c *command.ResetKey) command.Result {
	p, known := tx.profile(c.AgentKey)
	if !known {
		return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemUnknownAgent}}
	}
	copy(p.key[:], c.NewKey)
	p.former, p.sender, p.issuer = [command.KeyHashBytes]byte{}, "", ""
	p.used = true // nobody but an operator renews it
	tx.putProfile(c.AgentKey, &p)
	return command.Result{Outcome: command.OutcomeDone, KeyIssued: true}
}

func (tx *txn) applyProtectName(c *command.ProtectName) command.Result {
	p, known := tx.profile(c.AgentKey)
	switch {
	case !known:
		return command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemUnknownAgent}}
	case p.protected == c.Protected:
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	p.protected = c.Protected
	tx.putProfile(c.AgentKey, &p)
	return command.Result{Outcome: command.OutcomeDone}
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
	at := min(c.At, tx.now) // a fast clock must not hide that no more are made
	if at <= int64(tx.number(keyBackup)) {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	tx.keep(keyBackup, binary.AppendUvarint(nil, uint64(at)))
	return command.Result{Outcome: command.OutcomeDone}
}

// LastBackup returns when the newest backup was begun, in milliseconds since the
// epoch; 0: none was made.
func (v *View) LastBackup() (int64, error) {
	at, _, err := load(v.snap, keyBackup, decodeNumber)
	return int64(at), err //nolint:gosec // bounded when it was set
}

// FirstEntry returns when the first entry was published, in milliseconds since the
// epoch; 0: none was. Without a backup this is the oldest that can be lost.
func (v *View) FirstEntry() (at int64, err error) {
	lower, upper := spaceBounds(spaceInstant)
	err = scanSpace(v.snap, lower, upper, func(key, _ []byte) error {
		at = int64(seqOfKey(key)) //nolint:gosec // an instant
		return errEnough
	})
	return at, err
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
	n, ok, err := load(r, keyFormat, decodeNumber)
	if err != nil || !ok {
		return command.InitialFormat, err
	}
	return int(n), nil //nolint:gosec // bounded when it was set
}
