package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxRetentionRules bounds the rules of Settings.Retention.
	MaxRetentionRules = 16
	// MaxRetentionHours is the longest retention: a hundred years.
	MaxRetentionHours = 100 * 365 * dayHours
	// MaxSwept bounds the entries that one Sweep makes stubs of, and those that it names.
	MaxSwept = 100

	dayHours = 24
	// keepWord stands for no bound.
	keepWord = "keep"
)

// HourMillis is an hour of log time.
const HourMillis = 60 * 60 * 1000

// RetentionRule says for how long the texts of some channels are kept.
type RetentionRule struct {
	Channels string // the name of a channel, or how names begin with a * behind it
	Hours    uint64 // of log time; 0 means for good
}

// Retention are the rules of Settings.Retention. The first one that matches a channel
// counts.
type Retention []RetentionRule

// Of returns the retention of a channel in milliseconds of log time, or 0 for good.
func (r Retention) Of(channel string) (millis int64) {
	for _, rule := range r {
		prefix, open := strings.CutSuffix(rule.Channels, "*")
		if channel == rule.Channels || open && strings.HasPrefix(channel, prefix) {
			return rule.Millis()
		}
	}
	return 0
}

// Millis is Hours in milliseconds.
func (r RetentionRule) Millis() int64 { return int64(r.Hours) * HourMillis } //nolint:gosec // bounded

// ParseRetention reads Settings.Retention, such as "logs=12h,test-*=keep,*=365d".
func ParseRetention(s string) (rules Retention, err error) {
	if s == "" {
		return nil, nil
	}
	var problems []error
	for part := range strings.SplitSeq(s, ",") {
		rule, err := parseRetentionRule(part)
		problems = append(problems, err)
		rules = append(rules, rule)
	}
	problems = append(problems, checkRange("retention", len(rules), 1, MaxRetentionRules, "rules"))
	return rules, errors.Join(problems...)
}

func parseRetentionRule(s string) (rule RetentionRule, err error) {
	channels, period, _ := strings.Cut(s, "=")
	rule.Channels = channels
	name, _ := strings.CutSuffix(channels, "*")
	if !utf8.ValidString(name) || utf8.RuneCountInString(name) > MaxChannel || channels == "" || strings.ContainsAny(name, "* \t\n") {
		return rule, fmt.Errorf("retention %q: write CHANNEL=30d, or BEGINNING*=30d for all channels whose names begin so", s)
	}
	if period == keepWord {
		return rule, nil
	}
	number, unit := strings.TrimRight(period, "hd"), uint64(1)
	if strings.HasSuffix(period, "d") {
		unit = dayHours
	}
	hours, err := strconv.ParseUint(number, 10, 32)
	if hours *= unit; err != nil || len(period) != len(number)+1 || hours < 1 || hours > MaxRetentionHours {
		return rule, fmt.Errorf("retention %q: write a time like 12h or 30d, from 1h to %dd, or keep for good", s, MaxRetentionHours/dayHours)
	}
	rule.Hours = hours
	return rule, nil
}

// Sweep makes stubs of some of the oldest entries that are older than the retention of
// their channels, at the instant of the log entry. The leader proposes it while there are
// any.
type Sweep struct {
	// Over are older entries that were kept because of open activity, which may have ended.
	Over []uint64 `cbor:"1,keyasint,omitempty"`
}

func (c *Sweep) check() error {
	return checkRange("entries", len(c.Over), 0, MaxSwept, "items")
}
