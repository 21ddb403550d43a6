package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

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
