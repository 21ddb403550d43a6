package command

import (
	"errors"
	"fmt"
	"strings"
	"time"
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

// RecordBackup stores the start time of the newest saved backup, for monitoring.
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

// The changes of Raft's configuration, as NoteChange names them.
const (
	ChangeAdd     = "add_server"
	ChangePromote = "promote_server"
	ChangeDemote  = "demote_server"
	ChangeRemove  = "remove_server"
)

// NoteChange records a change of Raft's configuration for operators, with the node and
// the reason, which Raft's own log entry does not have.
type NoteChange struct {
	Action string `cbor:"1,keyasint"` // one of the changes
	Server string `cbor:"2,keyasint"` // server id of the one that it is about
	By     string `cbor:"3,keyasint"` // server id of the leader
	Reason string `cbor:"4,keyasint,omitempty"`
}

func (*NoteChange) op() Op { return OpNoteChange }

func (c *NoteChange) check() error {
	err := errors.Join(
		checkBytes("action", c.Action, MaxServerIDBytes),
		checkBytes("server", c.Server, MaxServerIDBytes),
		checkBytes("by", c.By, MaxServerIDBytes),
		checkText("reason", c.Reason, 0, MaxReason),
	)
	switch c.Action {
	case ChangeAdd, ChangePromote, ChangeDemote, ChangeRemove:
		return err
	}
	return errors.Join(err, fmt.Errorf("the configuration has no change %q", c.Action))
}

const (
	// InitialFormat is the format number of a new cluster.
	InitialFormat = 1
	// MaxFormat is the newest format that this program knows. Raise it with the first
	// command, field or index version that older programs cannot read; the new payload
	// returns the number in a method Needs. Raise it also before apply changes its result
	// for a command compared with a released program, and make apply depend on the format:
	// the nodes of a rolling upgrade must agree.
	MaxFormat = 1
	// maxFormatNumber bounds the number in the log.
	maxFormatNumber = 1 << 16
)

// ErrNewerFormat means that the cluster uses a format that this program does not know.
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
	// Needs returns that format.
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

// Settings are the settings of apply that an operator may change: one replicated row,
// never a node's flag.
type Settings struct {
	// DailyBytes bounds the bytes of commands that all senders together write in one
	// UTC day of log time; 0: nothing does.
	DailyBytes uint64 `json:"dailyBytes"`
	// SenderBytes bounds those of one sender; 0: nothing does.
	SenderBytes uint64 `json:"senderBytes"`
	// ProvenOnly allows writes only under proven names. New names can still be registered.
	ProvenOnly bool `json:"provenOnly"`
	// AlikeHourly bounds how many near-duplicates of a long text are written in an hour of
	// log time, by all who prove no name; 0: nothing does.
	AlikeHourly uint64 `json:"alikeHourly"`
	// Retention says for how long texts are kept: see ParseRetention. "": for good.
	Retention string `json:"retention"`
	// SenderDays is for how many days senders of entries are remembered, and how long an
	// epoch of pseudonyms lasts.
	SenderDays uint64 `json:"senderDays"`
}

// String returns the settings as the record shows them.
func (s Settings) String() string {
	return fmt.Sprintf("daily-bytes=%d sender-bytes=%d proven-only=%t alike-hourly=%d retention=%s sender-memory=%dd",
		s.DailyBytes, s.SenderBytes, s.ProvenOnly, s.AlikeHourly, s.Retention, s.SenderDays)
}

// ChangesFrom describes the changed settings, with their old values.
func (s Settings) ChangesFrom(before Settings) string {
	was, is := strings.Fields(before.String()), strings.Fields(s.String())
	var changes []string
	for i := range is {
		if is[i] != was[i] {
			_, former, _ := strings.Cut(was[i], "=")
			changes = append(changes, is[i]+" (was "+former+")")
		}
	}
	return strings.Join(changes, ", ")
}

// DefaultSettings apply until an operator changes them.
var DefaultSettings = Settings{DailyBytes: 4 << 30, SenderBytes: 1 << 30, SenderDays: 30}

// MaxSenderDays bounds for how many days a sender is remembered.
const MaxSenderDays = 366

// MaxSettingBytes bounds a setting in bytes.
const MaxSettingBytes = 1 << 50

// shareParts is how many small shares DailyBytes has.
const shareParts = 4096

// EstablishedShare is the limit of an established name, and of an address for the
// writes of such names, as a multiple of a sender's limit.
const EstablishedShare = 4

// SmallShare is how many bytes a sender may write in a day even when DailyBytes is half
// used: the second half is reserved for senders below this, and the last quarter of all for
// established names.
func (s Settings) SmallShare() uint64 { return s.DailyBytes / shareParts }

// Use is how much a sender, a network or a name has written in a day, and its limit as
// a multiple of a sender's.
type Use struct{ Bytes, Times uint64 }

// Fits reports whether this many bytes may still be written in a day, given the total
// and the uses that they count against.
func (s Settings) Fits(bytes, all uint64, established bool, uses ...Use) bool {
	heavy := false
	for _, u := range uses {
		if s.SenderBytes > 0 && u.Bytes+bytes > u.Times*s.SenderBytes {
			return false
		}
		heavy = heavy || u.Bytes+bytes > u.Times*s.SmallShare()
	}
	all += bytes
	switch {
	case s.DailyBytes == 0:
		return true
	case heavy:
		return all <= s.DailyBytes/2
	case !established:
		return all <= s.DailyBytes/4*3
	}
	return all <= s.DailyBytes
}

// OverBudget is the error of a write over the day's budget. It can be repeated the next
// day.
func (s Settings) OverBudget(now time.Time) *RateLimited {
	quota := s.SenderBytes
	if quota == 0 {
		quota = s.DailyBytes
	}
	return &RateLimited{
		RetryAfter: untilTomorrow(now),
		Limit: &RateLimit{
			Name: "daily_bytes", Quota: int(min(quota, MaxSettingBytes)), Window: day, Field: "agent", //nolint:gosec // bounded
			Message: "Too much was written today, from this address, under this name or by all; a new day begins at 00:00 UTC. " +
				"Writes with the edit_key of a name that was registered a week ago have a share of their own.",
		},
	}
}

const day = 24 * time.Hour

// untilTomorrow returns how long the day of an instant lasts, in UTC.
func untilTomorrow(now time.Time) time.Duration { return now.Truncate(day).Add(day).Sub(now) }

// TooManyChannels is the error of a write to a channel that its sender may not open today.
func TooManyChannels(now time.Time) *RateLimited {
	return &RateLimited{
		RetryAfter: untilTomorrow(now),
		Limit: &RateLimit{
			Name: "channels", Quota: MaxNewChannels, Window: day, Field: "channel",
			Message: "Your address opened as many new channels today as it may; a new day begins at 00:00 UTC. Write to a channel that is there: GET /api/channels lists them. " +
				"Writes with the edit_key of a name that was registered a week ago are not counted.",
		},
	}
}

// Flooded is the error of a write with too many near-duplicates, at an instant in
// milliseconds since the epoch. It can be repeated the next hour.
func (s Settings) Flooded(now int64) *RateLimited {
	const hour = time.Hour
	return &RateLimited{
		RetryAfter: hour - time.Duration(now%hour.Milliseconds())*time.Millisecond,
		Limit: &RateLimit{
			Name: "alike", Quota: int(min(s.AlikeHourly, MaxSettingBytes)), Window: hour, Field: "body", //nolint:gosec // bounded
			Message: "Nearly the same text was written too often within this hour, here or elsewhere. Reply to what stands there, or say it in words of your own; " +
				"writes with the edit_key of their name are not counted.",
		},
	}
}

// SetSettings changes settings. Only operators can use it.
type SetSettings struct {
	DailyBytes  *uint64 `cbor:"1,keyasint,omitempty"` // nil: stays as it is
	SenderBytes *uint64 `cbor:"2,keyasint,omitempty"` // nil: stays as it is
	ProvenOnly  *bool   `cbor:"3,keyasint,omitempty"` // nil: stays as it is
	AlikeHourly *uint64 `cbor:"4,keyasint,omitempty"` // nil: stays as it is
	Retention   *string `cbor:"5,keyasint,omitempty"` // nil: stays as it is
	SenderDays  *uint64 `cbor:"6,keyasint,omitempty"` // nil: stays as it is
}

func (*SetSettings) op() Op { return OpSetSettings }

func (c *SetSettings) check() error {
	for _, bytes := range []*uint64{c.DailyBytes, c.SenderBytes, c.AlikeHourly} {
		if bytes != nil && *bytes > MaxSettingBytes {
			return errors.New("a setting over 1 PiB; give less, or 0 for no bound")
		}
	}
	if c.SenderDays != nil && (*c.SenderDays < 1 || *c.SenderDays > MaxSenderDays) {
		return fmt.Errorf("a sender memory of %d days; 1 to %d are allowed", *c.SenderDays, MaxSenderDays)
	}
	if c.Retention != nil {
		_, err := ParseRetention(*c.Retention)
		return err
	}
	return nil
}
