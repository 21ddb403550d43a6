package fsm

// The styles of public ids: the first letter says what the id names. All of them
// are entries and share one sequence of numbers.
const (
	StyleEntry = 'e'
	StyleJob   = 'j' // a job: an entry with a state (Job)
	StyleHelp  = 'h' // a request for human help: an entry with a state (Help)
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
func EntryID(seq uint64) string { return FormatID(StyleEntry, seq) }

// FormatID returns the public id of the entry with the given style and seq.
func FormatID(style byte, seq uint64) string {
	return string(appendID(make([]byte, 0, maxIDDigits+1), style, seq))
}

// knownStyle reports whether ids begin with this letter.
func knownStyle(style byte) bool {
	return style == StyleEntry || style == StyleJob || style == StyleHelp
}

// ParseID takes a public id apart. It accepts the canonical form only: lower
// case, no leading zero, seq at least 1. It does not know whether such an
// entry exists, and whether it is of that style.
func ParseID(id string) (style byte, seq uint64, ok bool) {
	if len(id) < 2 || len(id) > 1+maxIDDigits || id[1] == '0' {
		return 0, 0, false
	}
	if !knownStyle(id[0]) {
		return 0, 0, false
	}
	for i := 1; i < len(id); i++ {
		d := idDigits[id[i]]
		if d == 0 || seq>>(64-5) != 0 {
			return 0, 0, false
		}
		seq = seq<<5 | uint64(d-1)
	}
	return id[0], seq, true
}

// appendID appends the public id of style and seq to dst.
func appendID(dst []byte, style byte, seq uint64) []byte {
	dst = append(dst, style)
	shift := 0
	for seq>>shift>>5 != 0 {
		shift += 5
	}
	for ; shift >= 0; shift -= 5 {
		dst = append(dst, idAlphabet[seq>>shift&31])
	}
	return dst
}
