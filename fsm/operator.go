package fsm

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strconv"

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
	tx.note(command.Operator, ActionResetKey, c.AgentKey, "")
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
	action := ActionUnprotectName
	if c.Protected {
		action = ActionProtectName
	}
	tx.note(command.Operator, action, c.AgentKey, "")
	return command.Result{Outcome: command.OutcomeDone}
}

func (tx *txn) applyReseal(c *command.Reseal) command.Result {
	if tx.cluster.id == "" || !bytes.Equal(tx.cluster.sealedKey, c.Former) {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	tx.cluster.sealedKey = c.SealedDataKey
	tx.set(keyCluster, tx.cluster.encode())
	tx.note(ByLeader, ActionChangeSecret, "", "")
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
		if err := command.CheckFormat(c.Format, tx.maxFormat); err != nil {
			// Nothing is wrong here but the program, so the node ends in good order, with
			// the state as it was before this log entry.
			tx.fatal(&applyError{index: tx.head.applied, err: err})
			runtime.Goexit()
		}
		tx.format = c.Format
		tx.keep(keyFormat, binary.AppendUvarint(nil, uint64(c.Format))) // checked
		tx.note(ByLeader, ActionSetFormat, strconv.Itoa(c.Format), "")
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

const (

	// SigningKeyOverlap is for how long a key that was replaced still signs beside
	// its successor and is published, in milliseconds of log time.
	SigningKeyOverlap = 7 * command.DayMillis
	// MaxSigningKeys is how many keys there are at most. Beyond it the oldest goes,
	// overlap or not.
	MaxSigningKeys = 4
)

func (tx *txn) applyRotateSigningKey(c *command.RotateSigningKey) command.Result {
	keys, _ := read(tx, keySigning, decodeSigningKeys)
	newest := uint64(0)
	if len(keys) > 0 {
		newest = keys[0].Number
	}
	if c.After != newest {
		return command.Result{Outcome: command.OutcomeUnchanged}
	}
	if newest > 0 {
		keys[0].ReplacedAt = tx.now
	}
	next := []SigningKey{{Number: newest + 1, Public: c.Public, Sealed: c.Sealed, CreatedAt: tx.now}}
	for _, k := range keys {
		if k.signs(tx.now) && len(next) < MaxSigningKeys {
			next = append(next, k)
		}
	}
	tx.keep(keySigning, appendSigningKeys(nil, next))
	tx.note(ByLeader, ActionNewSigningKey, strconv.FormatUint(newest+1, 10), "")
	return command.Result{Outcome: command.OutcomeDone, Entry: newest + 1}
}

// SigningKey is a key that deliveries are signed with.
type SigningKey struct {
	Number     uint64 // counts from 1
	Public     []byte // ed25519
	Sealed     []byte // the private half, sealed under the cluster's data key
	CreatedAt  int64  // milliseconds since the epoch
	ReplacedAt int64  // the same; 0: it is the newest
}

// signs reports whether the key is in use at an instant.
func (k *SigningKey) signs(now int64) bool {
	return k.ReplacedAt == 0 || now < k.ReplacedAt+SigningKeyOverlap
}

// signingKeysVersion begins the row of spaceSigning:
//
//	version1 (number createdAt replacedAt public sealed)...
//
// Numbers are uvarints, the halves of the key are preceded by their length. The
// newest key comes first.
const signingKeysVersion = 1

func appendSigningKeys(dst []byte, keys []SigningKey) []byte {
	dst = append(dst, signingKeysVersion)
	for i := range keys {
		k := &keys[i]
		dst = appendUints(dst, k.Number, uint64(k.CreatedAt), uint64(k.ReplacedAt))
		dst = appendBlob(appendBlob(dst, k.Public), k.Sealed)
	}
	return dst
}

func decodeSigningKeys(row []byte) (keys []SigningKey, err error) {
	r := rowReader{rest: row}
	r.version(signingKeysVersion)
	for len(r.rest) > 0 && !r.bad {
		keys = append(keys, SigningKey{
			Number: r.uint(), CreatedAt: int64(r.uint()), ReplacedAt: int64(r.uint()),
			Public: []byte(r.text()), Sealed: []byte(r.text()),
		})
	}
	return keys, r.done("row of signing keys")
}

// SigningKeys returns the keys that deliveries are signed with and receivers check
// against, the newest first; none in a cluster that has made none yet.
func (v *View) SigningKeys() ([]SigningKey, error) {
	keys, _, err := load(v.snap, keySigning, decodeSigningKeys)
	if err != nil {
		return nil, err
	}
	for i := range keys {
		if !keys[i].signs(v.head.now) {
			return keys[:i], nil // those behind it were replaced earlier
		}
	}
	return keys, nil
}
