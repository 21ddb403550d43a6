package state

import (
	"math"

	"github.com/commons-cluster/commons/fsm/command"
)

// Never is an instant after all others, in milliseconds since the epoch.
const Never = math.MaxInt64

// Reader reads the state for a rule: it is the transaction that applies a command, or a view.
type Reader interface {
	Get(key []byte) ([]byte, bool)     // a row, which must not be changed
	Entry(seq uint64) (EntryRow, bool) // a stub if the entry is hidden
	Instant() int64                    // milliseconds since the epoch
	ReportQueue() *ReportQueue
	Must(err error) // handles an error of the storage
}

// Read returns the decoded row of a key, and false if the row is missing.
func Read[T any](s Reader, key []byte, decode func(row []byte) (T, error)) (v T, ok bool) {
	row, ok := s.Get(key)
	if ok {
		var err error
		v, err = decode(row)
		s.Must(err)
	}
	return v, ok
}

// PageLimit returns the size of a page, given the limit in the request; 0 means the
// default.
func PageLimit(limit int) int {
	if limit <= 0 {
		return command.DefaultList
	}
	return min(limit, command.MaxList)
}
