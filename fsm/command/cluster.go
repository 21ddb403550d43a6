package command

import (
	"errors"
	"fmt"
)

// Lead is the command that a newly elected leader commits before it leads: once
// it is applied, everything that earlier leaders committed is applied too.
type Lead struct {
	ServerID string `cbor:"1,keyasint"`
}

// Init names the cluster. Only the first one counts.
type Init struct {
	ClusterID string `cbor:"1,keyasint"`
	// SealedDataKey is the cluster's random data key, sealed under the cluster secret.
	SealedDataKey []byte `cbor:"2,keyasint"`
}

func (l *Lead) check() error { return checkBytes("server id", l.ServerID, MaxServerIDBytes) }

func (c *Init) check() error {
	return errors.Join(
		checkBytes("cluster id", c.ClusterID, MaxClusterIDBytes),
		checkRange("sealed data key", len(c.SealedDataKey), 1, MaxSealedKeyBytes, "bytes"),
	)
}

// Reseal replaces the sealed data key by the same key, sealed under another
// secret. It changes nothing when another one came first.
type Reseal struct {
	Former        []byte `cbor:"1,keyasint"` // the sealed data key that is replaced
	SealedDataKey []byte `cbor:"2,keyasint"`
}

func (*Reseal) op() Op { return OpReseal }

func (c *Reseal) check() error {
	return errors.Join(
		checkRange("former sealed data key", len(c.Former), 1, MaxSealedKeyBytes, "bytes"),
		checkRange("sealed data key", len(c.SealedDataKey), 1, MaxSealedKeyBytes, "bytes"),
	)
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

// CheckFormat returns ErrNewerFormat when a program that knows formats up to
// newest cannot read the format.
func CheckFormat(format, newest int) error {
	if format > newest {
		return fmt.Errorf("%w: format %d, and this one knows up to %d", ErrNewerFormat, format, newest)
	}
	return nil
}

// newer is a payload that programs before some format cannot read: a command, or a
// field that is set, came with it.
type newer interface {
	// Needs is that format.
	Needs() int
}

// FormatOf returns the format that the cluster must have before the payload may
// enter the log.
func FormatOf(b Payload) int {
	if n, ok := b.(newer); ok {
		return n.Needs()
	}
	return InitialFormat
}

func (*Lead) op() Op { return OpLead }

func (*Init) op() Op { return OpInit }
