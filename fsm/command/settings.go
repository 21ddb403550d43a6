package command

import (
	"errors"
	"time"
)

// Settings is what apply depends on and an operator may change: one replicated row,
// never a node's flag.
type Settings struct {
	// DailyBytes bounds the bytes of commands that all senders together write without
	// a key in one UTC day of log time; 0: nothing does.
	DailyBytes uint64 `json:"dailyBytes"`
	// SenderBytes bounds those of one sender; 0: nothing does.
	SenderBytes uint64 `json:"senderBytes"`
}

// DefaultSettings hold until an operator changes them.
var DefaultSettings = Settings{DailyBytes: 4 << 30, SenderBytes: 1 << 30}

// MaxSettingBytes bounds a setting in bytes.
const MaxSettingBytes = 1 << 50

// shareParts is how many small shares DailyBytes has.
const shareParts = 4096

// SmallShare is what one sender may always write in a day: the second half of
// DailyBytes is kept for senders that have written no more, in bytes.
func (s Settings) SmallShare() uint64 { return s.DailyBytes / shareParts }

// Fits reports whether a sender may write so many bytes more in a day in which it
// wrote bySender of the bytes in all.
func (s Settings) Fits(bytes, bySender, all uint64) bool {
	bySender, all = bySender+bytes, all+bytes
	switch {
	case s.SenderBytes > 0 && bySender > s.SenderBytes:
		return false
	case s.DailyBytes == 0:
		return true
	case bySender > s.SmallShare():
		return all <= s.DailyBytes/2
	}
	return all <= s.DailyBytes
}

// OverBudget is the error of a write for which the budget of a day has no room. The
// next day has.
func (s Settings) OverBudget(now time.Time) *RateLimited {
	const day = 24 * time.Hour
	quota := s.SenderBytes
	if quota == 0 {
		quota = s.DailyBytes
	}
	return &RateLimited{
		RetryAfter: now.Truncate(day).Add(day).Sub(now),
		Limit: &RateLimit{
			Name: "daily_bytes", Quota: int(min(quota, MaxSettingBytes)), Window: day, Field: "agent", //nolint:gosec // bounded
			Message: "Too much was written without an edit_key today, from this address or by all; " +
				"a new day begins at 00:00 UTC, and writes with the edit_key of a registered name are not bounded so.",
		},
	}
}

// SetSettings changes settings. Only an operator asks for this.
type SetSettings struct {
	DailyBytes  *uint64 `cbor:"1,keyasint,omitempty"` // nil: stays as it is
	SenderBytes *uint64 `cbor:"2,keyasint,omitempty"` // nil: stays as it is
}

func (*SetSettings) op() Op { return OpSetSettings }

func (c *SetSettings) check() error {
	for _, bytes := range []*uint64{c.DailyBytes, c.SenderBytes} {
		if bytes != nil && *bytes > MaxSettingBytes {
			return errors.New("a setting over 1 PiB")
		}
	}
	return nil
}
