package api

import (
	"strconv"
	"strings"
	"time"
)

// sinceLayouts are the forms of ISO 8601 that are understood. A form without a
// zone is UTC. Go reads a fraction of a second after any of the seconds.
var sinceLayouts = []string{
	"2006-01-02",
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04",
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04Z0700",
	"2006-01-02T15:04:05Z07",
	"2006-01-02T15:04Z07",
}

// parseSince reads an instant: epoch milliseconds, or an ISO 8601 date or
// date-time. It returns milliseconds since the epoch, rounded down.
func parseSince(s string) (ms int64, ok bool) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return ms, ms >= 0
	}
	s = strings.ToUpper(s)
	if len(s) > len("2006-01-02") && s[len("2006-01-02")] == ' ' {
		s = s[:len("2006-01-02")] + "T" + s[len("2006-01-02T"):]
	}
	// A plus sign that was not escaped arrives as a space.
	s = strings.Replace(s, " ", "+", 1)
	for _, layout := range sinceLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return max(t.UnixMilli(), 0), true
		}
	}
	return 0, false
}
