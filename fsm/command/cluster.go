package command

import (
	"errors"
	"fmt"
	"slices"
)

// Lead is the first command of a newly elected leader: once it is applied, everything
// that earlier leaders committed is applied, too.
type Lead struct {
	ServerID string `cbor:"1,keyasint"`
}

// Init gives the cluster its id and data key. Only the first one counts.
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
// secret. It has no effect when another one came first.
type Reseal struct {
	Former        []byte `cbor:"1,keyasint"` // the sealed data key that is replaced
	SealedDataKey []byte `cbor:"2,keyasint"`
}

func (c *Reseal) check() error {
	return errors.Join(
		checkRange("former sealed data key", len(c.Former), 1, MaxSealedKeyBytes, "bytes"),
		checkRange("sealed data key", len(c.SealedDataKey), 1, MaxSealedKeyBytes, "bytes"),
	)
}

// RecordBackup stores the start time of the newest saved backup, and the outcome of a run of the
// schedule, or of a restore that verifies its newest backup.
type RecordBackup struct {
	// At is when the backup was begun, in milliseconds since the epoch by the clock
	// of the node that made it: everything acknowledged before is in it. 0 means that a
	// run saved no backup.
	At int64 `cbor:"1,keyasint"`
	// Run is when the run of the schedule began, in milliseconds since the epoch; 0 for a
	// backup by hand.
	Run     int64  `cbor:"2,keyasint,omitempty"`
	Problem string `cbor:"3,keyasint,omitempty"` // why the run saved no backup, or could not delete old ones
	Oldest  int64  `cbor:"4,keyasint,omitempty"` // when the oldest backup in the store was begun
	// Verified is when the newest backup of the schedule was begun, which a node has restored, or
	// with a problem could not. Everything else is 0 then.
	Verified int64 `cbor:"5,keyasint,omitempty"`
}

// MaxBackupProblem bounds the problem of a run, in characters.
const MaxBackupProblem = 1000

func (c *RecordBackup) check() error {
	if c.Verified > 0 && c.At == 0 && c.Run == 0 && c.Oldest == 0 {
		return checkText("problem", c.Problem, 0, MaxBackupProblem)
	}
	return errors.Join(
		refuse(c.Verified != 0, "a backup is verified after the epoch, and apart from its run"),
		refuse(c.At < 0 || c.Run < 0 || c.Oldest < 0 || c.At == 0 && c.Run == 0, "a backup has a time after the epoch"),
		refuse(c.At == 0 && c.Problem == "", "a run without a backup has a problem"),
		checkText("problem", c.Problem, 0, MaxBackupProblem),
	)
}

// The changes of Raft's configuration, as NoteChange names them.
const (
	ChangeAdd     = "add_server"
	ChangePromote = "promote_server"
	ChangeDemote  = "demote_server"
	ChangeRemove  = "remove_server"
)

var changes = []string{ChangeAdd, ChangePromote, ChangeDemote, ChangeRemove}

// NoteChange records a change of Raft's configuration for operators, with the node and
// the reason, which Raft's own log entry does not have.
type NoteChange struct {
	Action string `cbor:"1,keyasint"` // one of the changes
	Server string `cbor:"2,keyasint"` // id of the server that changed
	By     string `cbor:"3,keyasint"` // id of the leader
	Reason string `cbor:"4,keyasint,omitempty"`
}

func (c *NoteChange) check() error {
	return errors.Join(
		checkBytes("action", c.Action, MaxServerIDBytes),
		refuse(!slices.Contains(changes, c.Action), "the configuration has no such change"),
		checkBytes("server", c.Server, MaxServerIDBytes),
		checkBytes("by", c.By, MaxServerIDBytes),
		checkText("reason", c.Reason, 0, MaxReason),
	)
}

const (
	// InitialFormat is the format number of a new cluster.
	InitialFormat = 1
	// MaxFormat is the newest format that this program knows. Raise it with the first
	// command, field or index version that older programs cannot read. Raise it also before
	// apply changes a result, and make apply depend on the format: the nodes of a rolling
	// upgrade must agree.
	MaxFormat = 1
	// maxFormatNumber bounds the number in the log.
	maxFormatNumber = 1 << 16
)

// ErrNewerFormat means that the cluster uses a format that this program does not know.
var ErrNewerFormat = errors.New("the cluster uses a newer format; run a newer version of this program")

// SetFormat raises the replicated format number, once every node knows it.
type SetFormat struct {
	Format int `cbor:"1,keyasint"`
}

func (c *SetFormat) check() error {
	return checkRange("format", c.Format, InitialFormat, maxFormatNumber, "")
}

// CheckFormat returns ErrNewerFormat if a program that knows formats up to newest is too
// old.
func CheckFormat(format, newest int) error {
	if format > newest {
		return fmt.Errorf("%w: format %d, and this one knows up to %d", ErrNewerFormat, format, newest)
	}
	return nil
}
