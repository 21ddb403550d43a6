package state

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The errors that callers distinguish.
var (
	// ErrNotFound means that an entry does not exist.
	ErrNotFound = errors.New("no such entry")

	// ErrCorrupt means that stored or received bytes differ from the written ones.
	ErrCorrupt = errors.New("corrupt data")
)

// RowReader decodes the fields of a row in order. After the first error it returns zero values.
type RowReader struct {
	Rest []byte
	Bad  bool
}

// Uint reads a uvarint.
func (r *RowReader) Uint() uint64 {
	n, size := binary.Uvarint(r.Rest)
	if size <= 0 {
		r.Rest, r.Bad = nil, true
		return 0
	}
	r.Rest = r.Rest[size:]
	return n
}

// Byte reads one byte.
func (r *RowReader) Byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Version reads the version of the row, which must be the known one.
func (r *RowReader) Version(known byte) { r.Bad = r.Byte() != known || r.Bad }

func (r *RowReader) bytes(n uint64) []byte {
	if n > uint64(len(r.Rest)) {
		r.Rest, r.Bad = nil, true
		return nil
	}
	out := r.Rest[:n]
	r.Rest = r.Rest[n:]
	return out
}

// Text reads a text preceded by its length.
func (r *RowReader) Text() string { return string(r.bytes(r.Uint())) }

// Done returns ErrCorrupt if the row was malformed or too long.
func (r *RowReader) Done(what string) error {
	if r.Bad || len(r.Rest) > 0 {
		return fmt.Errorf("%w: %s", ErrCorrupt, what)
	}
	return nil
}

// Sender reads a SenderGroup of 8 bytes.
func (r *RowReader) Sender() SenderGroup {
	b := r.bytes(8)
	if b == nil {
		return 0
	}
	return SenderGroup(binary.LittleEndian.Uint64(b))
}

// DecodeNumber reads a row of one number.
func DecodeNumber(row []byte) (uint64, error) {
	r := RowReader{Rest: row}
	n := r.Uint()
	return n, r.Done("row of a number")
}

// AppendUints appends numbers as uvarints.
func AppendUints(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// AppendBlob writes a text preceded by its length.
func AppendBlob[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Bit returns the flag if set is true, else 0.
func Bit(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

// SenderGroup identifies a sender among those that share a limit: a hash of the proven
// name, else of the fingerprint of the address. The lowest bit marks a proven name. A
// sender cannot choose a name or address to land in another's group.
type SenderGroup uint64

const provenBit SenderGroup = 1

// ProvenSender returns the group of a name that is proven.
func ProvenSender(agentKey string) SenderGroup { return hashSender(agentKey) | provenBit }

// UnprovenSender returns the group of a sender by its fingerprint.
func UnprovenSender(fingerprint string) SenderGroup { return hashSender(fingerprint) &^ provenBit }

func hashSender(s string) SenderGroup {
	sum := sha256.Sum256([]byte(s))
	return SenderGroup(binary.LittleEndian.Uint64(sum[:]))
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string, as encoding/json does without HTML escaping.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf {
			if b >= ' ' && b != '"' && b != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = appendEscaped(dst, b)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&0xf])
			start = i + size
		}
		i += size
	}
	return append(append(dst, s[start:]...), '"')
}

// appendEscaped appends an ASCII character that must be escaped in a JSON string.
func appendEscaped(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&0xf])
}

// AppendInt appends n as a JSON number.
func AppendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// appendStrings appends a JSON array of strings.
func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, s)
	}
	return append(dst, ']')
}

// AppendOptional appends s as a JSON string, or null if it is empty.
func AppendOptional(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return AppendString(dst, s)
}

// CutText returns the first n code points of s, without blanks at the end.
func CutText(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return strings.TrimRight(s[:i], " \t\n")
		}
		n--
	}
	return s
}
