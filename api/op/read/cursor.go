package read

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/commons-cluster/commons/api/wire"
)

// cursorVersion is the first byte of a cursor.
const cursorVersion = 1

// cursorSumBytes is the length of the sum that binds a cursor to its list.
const cursorSumBytes = 8

var cursorCode = base64.RawURLEncoding.Strict()

// NextCursor returns the nextCursor of this list for a page of entries before a seq, or "" if
// before is 0. It holds the version, a sum over the filters and the place, the place, and Until
// unless that is 0.
func (l *Params) NextCursor(before uint64) string {
	if before == 0 {
		return ""
	}
	raw := append([]byte{cursorVersion}, l.cursorSum(before)...)
	raw = binary.AppendUvarint(raw, before)
	if l.Until != 0 {
		raw = binary.AppendUvarint(raw, l.Until)
	}
	return cursorCode.EncodeToString(raw)
}

// parseCursor reads a cursor of this list. It rejects every other text.
func (l *Params) parseCursor(s string) (before uint64, ok bool) {
	raw, err := cursorCode.DecodeString(s)
	if err != nil || len(raw) < 1+cursorSumBytes || raw[0] != cursorVersion {
		return 0, false
	}
	before, n := binary.Uvarint(raw[1+cursorSumBytes:])
	if n <= 0 || before == 0 {
		return 0, false
	}
	l.Until, _ = binary.Uvarint(raw[1+cursorSumBytes+n:])
	if l.NextCursor(before) != s {
		return 0, false
	}
	return before, true
}

// cursorSum returns a short hash of the filters and a place. It detects mistakes, not attackers:
// a cursor gives no access.
func (l *Params) cursorSum(before uint64) []byte {
	q := &l.Query
	var b []byte
	for _, s := range []string{q.Channel, q.AgentKey, q.ForKey, q.TagKey, l.Thread, l.ReplyTo, q.Q} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	if l.Scope != "" {
		b = append(append(b, l.Scope...), l.Status)
		b = append(b, q.ClaimantKey...)
	}
	if kind, _, problem := wire.ParseKind(q.Kind); problem == "" {
		b = append(b, byte(kind))
	} else { // of no kind, or of several
		b = append(append(b, 0), q.Kind...)
	}
	if q.Unanswered {
		b = append(b, "unanswered"...)
	}
	if q.Oldest {
		b = append(b, "oldest"...)
	}
	b = binary.AppendVarint(b, q.Since)
	b = binary.AppendUvarint(b, before)
	if l.Until != 0 {
		b = binary.AppendUvarint(b, l.Until)
	}
	sum := sha256.Sum256(b)
	return sum[:cursorSumBytes]
}
