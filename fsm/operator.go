package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// ResetKey gives a registered agent another edit_key, because it has lost the
// one that it had or somebody else has got hold of it. Only an operator asks for
// this. The sender that registered the agent proves nothing any more.
type ResetKey struct {
	AgentKey string `cbor:"1,keyasint"` // text.Fold of the name
	NewKey   []byte `cbor:"2,keyasint"` // SHA-256 of the key
}

func (*ResetKey) op() Op { return OpResetKey }

func (c *ResetKey) check() error {
	return errors.Join(
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		checkRange("new key", len(c.NewKey), KeyHashBytes, KeyHashBytes, "bytes"),
	)
}

func (c *ResetKey) apply(tx *txn) Result {
	p, known := tx.profile(c.AgentKey)
	if !known {
		return Result{Outcome: OutcomeRejected, Problems: []Problem{ProblemUnknownAgent}}
	}
	copy(p.key[:], c.NewKey)
	p.sender = ""
	p.used = true // nobody but an operator renews it
	tx.putProfile(c.AgentKey, &p)
	return Result{Outcome: OutcomeDone, KeyIssued: true}
}

// Reseal replaces the sealed data key by the same key, sealed under another
// secret. It changes nothing when another one came first.
type Reseal struct {
	Former        []byte `cbor:"1,keyasint"` // the sealed data key that is replaced
	SealedDataKey []byte `cbor:"2,keyasint"`
}

func (*Reseal) op() Op { return OpReseal }

// SealedDataKey returns the sealed data key that a state with this one has when the
// batch was applied.
func (b *Batch) SealedDataKey(sealed []byte) []byte {
	for _, g := range b.Groups {
		for _, c := range g.Commands {
			switch body := c.Body.(type) {
			case *Init:
				if len(sealed) == 0 {
					sealed = body.SealedDataKey
				}
			case *Reseal:
				if bytes.Equal(body.Former, sealed) {
					sealed = body.SealedDataKey
				}
			}
		}
	}
	return sealed
}

func (c *Reseal) check() error {
	return errors.Join(
		checkRange("former sealed data key", len(c.Former), 1, MaxSealedKeyBytes, "bytes"),
		checkRange("sealed data key", len(c.SealedDataKey), 1, MaxSealedKeyBytes, "bytes"),
	)
}

func (c *Reseal) apply(tx *txn) Result {
	if tx.cluster.id == "" || !bytes.Equal(tx.cluster.sealedKey, c.Former) {
		return Result{Outcome: OutcomeUnchanged}
	}
	tx.cluster.sealedKey = c.SealedDataKey
	tx.set(keyCluster, tx.cluster.append(nil))
	return Result{Outcome: OutcomeDone}
}

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

const (
	// InitialFormat is the format number of a new cluster.
	InitialFormat = 1
	// MaxFormat is the newest format that this program knows. Raise it with the
	// first command, field or index version that older programs cannot read; what
	// is new names the number in a method Needs. Raise it, too, before apply makes
	// something else of a command than a released program does, and let apply look
	// at the format: the nodes of a rolling upgrade must agree.
	MaxFormat = 1
	// maxFormatNumber bounds what may stand in the log.
	maxFormatNumber = 1 << 16
)

// ErrNewerFormat says that the cluster has gone on to a format that this program
// does not know.
var ErrNewerFormat = errors.New("the cluster uses a newer format; run a newer version of this program")

// SetFormat raises the replicated format number, once every node knows it. It
// never lowers it.
type SetFormat struct {
	Format int `cbor:"1,keyasint"`
}

func (*SetFormat) op() Op { return OpSetFormat }

func (c *SetFormat) check() error {
	return checkRange("format", c.Format, InitialFormat, maxFormatNumber, "")
}

func (c *SetFormat) apply(tx *txn) Result {
	if c.Format > tx.format {
		tx.must(CheckFormat(c.Format, tx.maxFormat))
		tx.format = c.Format
		tx.keep(keyFormat, binary.AppendUvarint(nil, uint64(c.Format))) // checked
	}
	return Result{Outcome: OutcomeDone}
}

// CheckFormat returns ErrNewerFormat when a program that knows formats up to
// newest cannot read the format.
func CheckFormat(format, newest int) error {
	if format > newest {
		return fmt.Errorf("%w: format %d, and this one knows up to %d", ErrNewerFormat, format, newest)
	}
	return nil
}

// newer is a body that programs before some format cannot read: a command, or a
// field that is set, came with it.
type newer interface {
	// Needs is that format.
	Needs() int
}

// FormatOf returns the format that the cluster must have before the body may
// enter the log.
func FormatOf(b Body) int {
	if n, ok := b.(newer); ok {
		return n.Needs()
	}
	return InitialFormat
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
		return InitialFormat, err
	}
	rr := rowReader{rest: row}
	n := int(rr.uint()) //nolint:gosec // bounded when it was set
	return n, rr.done("format row")
}
