package admin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Health is how the leader sees the servers in Raft's configuration.
type Health struct {
	Healthy          bool           `json:"healthy"`          // every server is
	FailureTolerance int            `json:"failureTolerance"` // voters that may be lost while a quorum stays
	Servers          []ServerHealth `json:"servers"`          // ordered by id
}

// ServerHealth is how the leader sees one server.
type ServerHealth struct {
	ID            string  `json:"id"`
	Name          string  `json:"name"`
	Leader        bool    `json:"leader"`
	Voter         bool    `json:"voter"`
	Alive         bool    `json:"alive"` // gossip knows it
	Healthy       bool    `json:"healthy"`
	StableSince   Instant `json:"stableSince"`   // when Healthy last changed, or this leader began to look
	LastContactMs int64   `json:"lastContactMs"` // since it heard from the leader; -1 when it does not answer
	LastTerm      uint64  `json:"lastTerm"`      // of its newest log entry
	LastIndex     uint64  `json:"lastIndex"`     // up to which it has logged and applied
	Version       string  `json:"version,omitempty"`
}

// Instant is a time.Time that is milliseconds since the epoch in JSON. Within the
// process it keeps the monotonic clock, so that a step of the other one makes no
// server stable.
type Instant struct{ time.Time }

// MarshalJSON returns a number.
func (i Instant) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, i.UnixMilli(), 10), nil
}

// UnmarshalJSON reads what MarshalJSON returns.
func (i *Instant) UnmarshalJSON(data []byte) error {
	millis, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return fmt.Errorf("an instant is milliseconds since the epoch: %w", err)
	}
	i.Time = time.UnixMilli(millis)
	return nil
}

// Stable reports whether the server has been healthy for a time.
func (s ServerHealth) Stable(now time.Time, since time.Duration) bool {
	return s.Healthy && now.Sub(s.StableSince.Time) >= since
}

// Server returns the health of one server.
func (h Health) Server(id string) (ServerHealth, bool) {
	i, found := slices.BinarySearchFunc(h.Servers, id, func(s ServerHealth, id string) int { return strings.Compare(s.ID, id) })
	if !found {
		return ServerHealth{}, false
	}
	return h.Servers[i], true
}

// HealthReport is the servers' health as the leader sees it, and what they say of
// themselves.
type HealthReport struct {
	Health
	Reports []Server `json:"reports"` // by id
}
