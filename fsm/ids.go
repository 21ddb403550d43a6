package fsm

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

// EntryID returns the public id of the plain entry with the given seq.
func EntryID(seq uint64) string { return FormatID(TypeEntry, seq) }

// FormatID returns the public id of the entry with the given type and seq.
func FormatID(t EntryType, seq uint64) string {
	return string(appendID(make([]byte, 0, maxIDDigits+1), t, seq))
}

// ParseID takes a public id apart. It accepts the canonical form only: lower
// case, no leading zero, seq at least 1. It does not know whether such an
// entry exists, and whether it is of that type.
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

// appendID appends the public id of type and seq to dst.
func appendID(dst []byte, t EntryType, seq uint64) []byte {
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
