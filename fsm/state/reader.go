package state

import "github.com/commons-cluster/commons/fsm/command"

// Facts are read by rules: the transaction that applies a command, or a view.
type Facts interface {
	Get(key []byte) ([]byte, bool)
	Entry(seq uint64) (EntryRow, bool)
	Instant() int64
	ReportQueue() *ReportQueue
	Must(err error)
}

// Read returns the decoded row of a key, and false if the row is missing.
func Read[T any](s Facts, key []byte, decode func(row []byte) (T, error)) (v T, ok bool) {
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
