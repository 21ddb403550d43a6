package state

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
)

// The errors that callers distinguish.
var (
	// ErrNotFound means that an entry does not exist.
	ErrNotFound = errors.New("no such entry")

	// ErrCorrupt means that stored or received bytes differ from the written ones.
	ErrCorrupt = errors.New("corrupt data")
)

// Row is a row of the state. Fields passes its fields to a codec, in the order of the row.
type Row interface{ Fields(c *Codec) }

// Codec writes the fields of a row, or reads them.
type Codec struct {
	RowReader
	out    []byte
	writes bool
}

// rowRoom is enough for most rows, and too little for texts.
const rowRoom = 48

// Encode returns the bytes of a row.
func Encode(row Row) []byte {
	c := Codec{writes: true, out: make([]byte, 0, rowRoom)}
	row.Fields(&c)
	return c.out
}

// Decode returns the row of some bytes. Its byte strings share memory with them.
func Decode[T any, P interface {
	*T
	Row
}](row []byte) (v T, err error) {
	err = DecodeInto(P(&v), row)
	return v, err
}

// DecodeInto reads a row.
func DecodeInto(v Row, row []byte) error {
	c := Codec{RowReader: RowReader{Rest: row}}
	v.Fields(&c)
	if c.Bad || len(c.Rest) > 0 {
		return fmt.Errorf("%w: %T", ErrCorrupt, v)
	}
	return nil
}

// Fields writes or reads fields, given as pointers: numbers as uvarints, bytes and booleans as a
// byte, texts and byte strings preceded by their length. A []byte without a pointer has a fixed
// length.
func (c *Codec) Fields(fields ...any) {
	for _, field := range fields {
		if c.writes {
			c.out = appendField(c.out, field)
		} else {
			c.read(field)
		}
	}
}

// Flags are booleans that share a byte, the lowest bit first.
type Flags []*bool

// unknownField is a constant, so that rows stay on the stack while they are encoded.
const unknownField = "state: a field of an unknown type"

func appendField(dst []byte, field any) []byte {
	switch v := field.(type) {
	case *uint64:
		return binary.AppendUvarint(dst, *v)
	case *int64:
		return binary.AppendUvarint(dst, uint64(*v))
	case *command.Day:
		return binary.AppendUvarint(dst, uint64(*v))
	case *string:
		return AppendBlob(dst, *v)
	case *[]byte:
		return AppendBlob(dst, *v)
	case []byte:
		return append(dst, v...)
	case *byte:
		return append(dst, *v)
	case *bool:
		return append(dst, Bit(*v, 1))
	case *SenderGroup:
		return binary.LittleEndian.AppendUint64(dst, uint64(*v))
	case Flags:
		flags := byte(0)
		for i, flag := range v {
			flags |= Bit(*flag, 1<<i)
		}
		return append(dst, flags)
	}
	panic(unknownField)
}

func (c *Codec) read(field any) {
	switch v := field.(type) {
	case *uint64:
		*v = c.Uint()
	case *int64:
		*v = int64(c.Uint())
	case *command.Day:
		*v = command.Day(c.Uint())
	case *string:
		*v = c.Text()
	case *[]byte:
		*v = c.bytes(c.Uint())
	case []byte:
		copy(v, c.bytes(uint64(len(v))))
	case *byte:
		*v = c.Byte()
	case *bool:
		*v = c.Byte() != 0
	case *SenderGroup:
		if b := c.bytes(8); b != nil {
			*v = SenderGroup(binary.LittleEndian.Uint64(b))
		}
	case Flags:
		flags := c.Byte()
		for i, flag := range v {
			*flag = flags&(1<<i) != 0
		}
	default:
		panic(unknownField)
	}
}

// Check makes the row that is read malformed, unless ok.
func (c *Codec) Check(ok bool) { c.Bad = c.Bad || !ok }

// List writes or reads the length of a list and then its items; fields passes on those of an item.
func List[T any](c *Codec, list *[]T, fields func(item *T)) {
	if c.writes {
		c.out = binary.AppendUvarint(c.out, uint64(len(*list)))
		for i := range *list {
			fields(&(*list)[i])
		}
		return
	}
	for n := c.Uint(); n > 0 && !c.Bad; n-- {
		readItem(list, fields)
	}
}

// Joined is List without the length, for a row that is nothing else: apply appends items to it.
func Joined[T any](c *Codec, list *[]T, fields func(item *T)) {
	if c.writes {
		for i := range *list {
			fields(&(*list)[i])
		}
		return
	}
	for len(c.Rest) > 0 && !c.Bad {
		readItem(list, fields)
	}
}

func readItem[T any](list *[]T, fields func(item *T)) {
	var item T
	fields(&item)
	*list = append(*list, item)
}

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
	if b == '"' || b == '\\' {
		return append(dst, '\\', b)
	}
	if i := strings.IndexByte("\b\f\n\r\t", b); i >= 0 {
		return append(dst, '\\', "bfnrt"[i])
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

// ContentSum is the hash by which a request_id's second body is compared with its first.
type ContentSum [16]byte

// hashContent returns a hash of texts, each preceded by its length.
func hashContent(fields ...[]string) (sum ContentSum) {
	h := sha256.New()
	var buf []byte
	for _, texts := range fields {
		for _, s := range texts {
			buf = AppendBlob(buf[:0], s)
			h.Write(buf)
		}
	}
	copy(sum[:], h.Sum(nil))
	return sum
}
