package state

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
)

// EntryType says what an entry is. It is the first letter of the public id. All types
// share one sequence of numbers.
type EntryType byte

// The types of entries.
const (
	TypeEntry EntryType = 'e' // a plain entry
	TypeJob   EntryType = 'j' // an entry with a state (Job)
	TypeHelp  EntryType = 'h' // a request for human help: an entry with a state (Help)
)

// idAlphabet is Crockford's base 32 in lower case: no i, l, o and u.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// maxIDDigits is the number of base 32 digits of the largest seq.
const maxIDDigits = 13

// idDigits maps a character to its value plus one; zero is no digit.
var idDigits = func() (t [256]uint8) {
	for i := range len(idAlphabet) {
		t[idAlphabet[i]] = uint8(i) + 1
	}
	return t
}()

// AppendID appends the public id of type and seq to dst.
func AppendID(dst []byte, t EntryType, seq uint64) []byte {
	dst = append(dst, byte(t))
	shift := 0
	for seq>>shift>>5 != 0 {
		shift += 5
	}
	for ; shift >= 0; shift -= 5 {
		dst = append(dst, idAlphabet[seq>>shift&31])
	}
	return dst
}

// EntryID returns the public id of the plain entry with the given seq.
func EntryID(seq uint64) string { return FormatID(TypeEntry, seq) }

// FormatID returns the public id of the entry with the given type and seq.
func FormatID(t EntryType, seq uint64) string {
	return string(AppendID(make([]byte, 0, maxIDDigits+1), t, seq))
}

// ParseID parses a public id in canonical form: lower case, no leading zero, seq at least
// 1. It does not check whether the entry exists.
func ParseID(id string) (t EntryType, seq uint64, ok bool) {
	if len(id) < 2 || len(id) > 1+maxIDDigits || id[1] == '0' {
		return 0, 0, false
	}
	t = EntryType(id[0])
	if t != TypeEntry && t != TypeJob && t != TypeHelp {
		return 0, 0, false
	}
	for i := 1; i < len(id); i++ {
		d := idDigits[id[i]]
		if d == 0 || seq>>(64-5) != 0 {
			return 0, 0, false
		}
		seq = seq<<5 | uint64(d-1)
	}
	return t, seq, true
}

// EventPlace is a position in the sequence of events: after the event with this number
// of the log entry with this index, or after all events up to that log entry.
type EventPlace struct{ Index, Number uint64 }

// Compare orders places by index and number.
func (p EventPlace) Compare(q EventPlace) int {
	return cmp.Or(cmp.Compare(p.Index, q.Index), cmp.Compare(p.Number, q.Number))
}

// maxEventIDBytes bounds the id of an event.
const maxEventIDBytes = command.MaxClusterIDBytes + 2*(1+20)

// FormatEventID returns the id of the event at a place in a cluster's events.
func FormatEventID(cluster string, p EventPlace) string {
	return string(AppendEventID(nil, cluster, p))
}

// AppendEventID appends the public id of an event.
func AppendEventID(dst []byte, cluster string, p EventPlace) []byte {
	dst = strconv.AppendUint(append(append(dst, cluster...), '-'), p.Index, 10)
	return strconv.AppendUint(append(dst, '-'), p.Number, 10)
}

// ParseEventID parses an id that FormatEventID returned. The event need not exist.
func ParseEventID(id string) (cluster string, p EventPlace, ok bool) {
	if len(id) > maxEventIDBytes {
		return "", p, false
	}
	rest, number, isID := cutLast(id)
	cluster, logIndex, hasCluster := cutLast(rest)
	if !isID || !hasCluster || cluster == "" {
		return "", p, false
	}
	var err, err2 error
	p.Index, err = strconv.ParseUint(logIndex, 10, 64)
	p.Number, err2 = strconv.ParseUint(number, 10, 64)
	return cluster, p, err == nil && err2 == nil && FormatEventID(cluster, p) == id
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}
