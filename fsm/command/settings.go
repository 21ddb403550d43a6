package command

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Settings are the replicated settings of apply that an operator may change.
type Settings struct {
	// DailyBytes bounds the bytes of all commands in a UTC day of log time; 0 means no
	// limit.
	DailyBytes uint64 `json:"dailyBytes"`
	// SenderBytes bounds those of one sender; 0 means no limit.
	SenderBytes uint64 `json:"senderBytes"`
	// ProvenOnly allows writes only under proven names. New names can still be registered.
	ProvenOnly bool `json:"provenOnly"`
	// RetentionDays is for how many days texts are kept; 0 means for good.
	RetentionDays uint64 `json:"retentionDays"`
	// SenderDays is for how many days senders are remembered.
	SenderDays uint64 `json:"senderDays"`
	// WriteRate and WriteBurst bound the writes of each sender and name in a minute and at
	// once. 0 means no limit; NotSet means the leader's flag.
	WriteRate  int64 `json:"writeRate"`
	WriteBurst int64 `json:"writeBurst"`
	// BackupURL is the store of scheduled backups: see CheckBackupURL. Empty means no schedule.
	BackupURL string `json:"backupUrl"`
	// BackupMillis is the time in milliseconds between two scheduled backups, and BackupKeep is how many of
	// them stay in the store.
	BackupMillis uint64 `json:"backupEveryMs"`
	BackupKeep   uint64 `json:"backupKeep"`
	// BackupVerify has a node restore each scheduled backup.
	BackupVerify bool `json:"backupVerify"`
	// Welcome is the id of the entry at the top of the front page, empty without one.
	Welcome string `json:"welcome"`
}

// NotSet is the value of a setting that leaves the choice to the flags of the nodes.
const NotSet = -1

// MaxWriteSetting bounds WriteRate and WriteBurst.
const MaxWriteSetting = 1 << 20

// WriteLimit returns the rate and burst at a node with the given flags. 0 means no limit.
func (s Settings) WriteLimit(rate, burst int) (perMinute, atOnce int) {
	if s.WriteRate != NotSet {
		rate = int(s.WriteRate)
	}
	if s.WriteBurst != NotSet {
		burst = int(s.WriteBurst)
	}
	return rate, burst
}

// limitText returns a limit of writes as the record shows it.
func limitText(n int64) string {
	if n == NotSet {
		return "unset"
	}
	return strconv.FormatInt(n, 10)
}

// String returns the settings as the record shows them.
func (s Settings) String() string {
	return fmt.Sprintf("daily-bytes=%d sender-bytes=%d proven-only=%t retention=%dd sender-memory=%dd write-rate=%s write-burst=%s backup.url=%s backup.every=%v backup.keep=%d backup.verify=%t welcome=%s",
		s.DailyBytes, s.SenderBytes, s.ProvenOnly, s.RetentionDays, s.SenderDays, limitText(s.WriteRate), limitText(s.WriteBurst),
		s.BackupURL, s.BackupEvery(), s.BackupKeep, s.BackupVerify, s.Welcome)
}

// BackupEvery returns the time between two scheduled backups.
func (s Settings) BackupEvery() time.Duration {
	return time.Duration(s.BackupMillis) * time.Millisecond //nolint:gosec // bounded by its check
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
var DefaultSettings = Settings{DailyBytes: 4 << 30, SenderBytes: 1 << 30, SenderDays: 30, WriteRate: NotSet, WriteBurst: NotSet, BackupMillis: DayMillis, BackupKeep: 14, BackupVerify: true}

// MaxRetentionDays is the longest retention: a hundred years.
const MaxRetentionDays = 100 * 365

// MaxSenderDays bounds for how many days a sender is remembered.
const MaxSenderDays = 366

// MaxSettingBytes bounds a setting in bytes.
const MaxSettingBytes = 1 << 50

// shareParts is how many small shares DailyBytes has.
const shareParts = 4096

// EstablishedShare is the limit of an established name, and of an address for such names,
// as a multiple of a sender's.
const EstablishedShare = 4

// SmallShare bounds a sender's bytes of a day in the second half of DailyBytes. The last
// quarter is reserved for established names.
func (s Settings) SmallShare() uint64 { return s.DailyBytes / shareParts }

// Use is the number of bytes that a sender, network or name has written in a day, and its limit as
// a multiple of a sender's.
type Use struct{ Bytes, Times uint64 }

// Fits reports whether more bytes fit into a day, given the total and their uses.
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

// OverBudget is the error of a write over the day's budget.
func (s Settings) OverBudget(now time.Time) *RateLimited {
	quota := cmp.Or(s.SenderBytes, s.DailyBytes)
	return overToday(now, RateLimit{
		Name: "daily_bytes", Quota: int(min(quota, MaxSettingBytes)), Field: "agent", //nolint:gosec // bounded
		Message: "Too much was written today, from this address, under this name or by all; a new day begins at 00:00 UTC. " +
			"Writes with the edit_key of a name that was registered a week ago have a share of their own.",
	})
}

// overToday returns the error of a write over a limit of the day, in UTC.
func overToday(now time.Time, limit RateLimit) *RateLimited {
	limit.Window = 24 * time.Hour
	return &RateLimited{RetryAfter: now.Truncate(limit.Window).Add(limit.Window).Sub(now), Limit: &limit}
}

// TooManyChannels is the error of a write to a channel that its sender may not open today.
func TooManyChannels(now time.Time) *RateLimited {
	return overToday(now, RateLimit{
		Name: "channels", Quota: MaxNewChannels, Field: "channel",
		Message: "Your address opened as many new channels today as it may; a new day begins at 00:00 UTC. Write to a channel that is there: GET /api/channels lists them. " +
			"Writes with the edit_key of a name that was registered a week ago are not counted.",
	})
}

// TooManyErasures is the error of a retraction that may erase no text today.
func TooManyErasures(now time.Time) *RateLimited {
	return overToday(now, RateLimit{
		Name: "erasures", Quota: MaxErasures, Field: "erase",
		Message: fmt.Sprintf("%d texts a day are erased for a name, and %d for all; a new day begins at 00:00 UTC. A retraction without erase is not counted.", MaxErasures, MaxAllErasures),
	})
}

// SetSettings changes settings; nil means no change. Only operators can use it.
type SetSettings struct {
	DailyBytes    *uint64 `cbor:"1,keyasint,omitempty"`
	SenderBytes   *uint64 `cbor:"2,keyasint,omitempty"`
	ProvenOnly    *bool   `cbor:"3,keyasint,omitempty"`
	SenderDays    *uint64 `cbor:"4,keyasint,omitempty"`
	WriteRate     *int64  `cbor:"5,keyasint,omitempty"`
	WriteBurst    *int64  `cbor:"6,keyasint,omitempty"`
	RetentionDays *uint64 `cbor:"7,keyasint,omitempty"`
	BackupURL     *string `cbor:"8,keyasint,omitempty"` // empty ends the schedule
	BackupMillis  *uint64 `cbor:"9,keyasint,omitempty"`
	BackupKeep    *uint64 `cbor:"10,keyasint,omitempty"`
	BackupVerify  *bool   `cbor:"11,keyasint,omitempty"`
	Welcome       *string `cbor:"12,keyasint,omitempty"` // empty ends it
}

func (c *SetSettings) check() error {
	for _, bytes := range []*uint64{c.DailyBytes, c.SenderBytes} {
		if bytes != nil && *bytes > MaxSettingBytes {
			return errors.New("a setting over 1 PiB; give less, or 0 for no bound")
		}
	}
	for _, limit := range []*int64{c.WriteRate, c.WriteBurst} {
		if limit != nil && (*limit < NotSet || *limit > MaxWriteSetting) {
			return fmt.Errorf("a limit of %d writes; 0 to %d are allowed", *limit, MaxWriteSetting)
		}
	}
	if c.SenderDays != nil && (*c.SenderDays < 1 || *c.SenderDays > MaxSenderDays) {
		return fmt.Errorf("a sender memory of %d days; 1 to %d are allowed", *c.SenderDays, MaxSenderDays)
	}
	if c.BackupMillis != nil && (*c.BackupMillis < MinBackupMillis || *c.BackupMillis > MaxBackupMillis) {
		return fmt.Errorf("a backup every %d ms; %d to %d are allowed", *c.BackupMillis, MinBackupMillis, MaxBackupMillis)
	}
	if c.BackupKeep != nil && (*c.BackupKeep < 1 || *c.BackupKeep > MaxBackupKeep) {
		return fmt.Errorf("%d backups to keep; 1 to %d are allowed", *c.BackupKeep, MaxBackupKeep)
	}
	if c.BackupURL != nil && *c.BackupURL != "" {
		if err := CheckBackupURL(*c.BackupURL); err != nil {
			return err
		}
	}
	if c.Welcome != nil && !welcomeID.MatchString(*c.Welcome) {
		return fmt.Errorf("%.40q is not the id of an entry; write it as welcome=e12, or welcome= for none", *c.Welcome)
	}
	if c.RetentionDays != nil && *c.RetentionDays > MaxRetentionDays {
		return fmt.Errorf("a retention of %d days; at most %d are allowed, and 0 keeps texts for good", *c.RetentionDays, MaxRetentionDays)
	}
	return nil
}

// Bounds of the settings of scheduled backups.
const (
	MaxBackupURLBytes = 512
	MinBackupMillis   = 60_000
	MaxBackupMillis   = 366 * DayMillis
	MaxBackupKeep     = 1000
)

// backupURL has no room for user names, ports, queries and escapes, which could hold credentials.
var backupURL = regexp.MustCompile(`^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._-]+)*|file://(/[A-Za-z0-9._-]+)+)/?$`)

// welcomeID matches the id of an entry, a job or a request for help, or an empty text.
var welcomeID = regexp.MustCompile(`^([ejh][0-9a-z]{1,13})?$`)

// CheckBackupURL checks the address of a store of backups. The error does not repeat the address,
// which may hold credentials.
func CheckBackupURL(url string) error {
	switch {
	case len(url) > MaxBackupURLBytes:
		return fmt.Errorf("the address of a store has %d bytes, at most %d are allowed", len(url), MaxBackupURLBytes)
	case !backupURL.MatchString(url) || slices.ContainsFunc(strings.Split(url, "/"), func(part string) bool { return part == "." || part == ".." }):
		return errors.New("not the address of a store: write s3://BUCKET/PREFIX or file:///DIRECTORY, of letters, digits, dots, dashes and underlines, " +
			"without user, port, query and credentials; the service and the credentials of s3:// are settings of each node")
	}
	return nil
}
