package state

import (
	"encoding/binary"
	"fmt"

	"github.com/commons-cluster/commons/fsm/command"
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
		*v = c.Sender()
	case Flags:
		flags := c.Byte()
		for i, flag := range v {
			*flag = flags&(1<<i) != 0
		}
	default:
		panic(unknownField)
	}
}

// Version writes the version of a row, or checks it.
func (c *Codec) Version(version byte) {
	if c.writes {
		c.out = append(c.out, version)
		return
	}
	c.RowReader.Version(version)
}

// Check makes the row that is read malformed, unless ok.
func (c *Codec) Check(ok bool) { c.Bad = c.Bad || !ok }

// Rest writes or reads the last field of a row, which needs no length.
func Rest[T string | []byte](c *Codec, rest *T) {
	if c.writes {
		c.out = append(c.out, *rest...)
		return
	}
	*rest = T(c.bytes(uint64(len(c.Rest))))
}

// List writes or reads the length of a list and then its items; fields passes on those of an item.
func List[T any](c *Codec, list *[]T, fields func(item *T)) {
	if c.writes {
		c.out = binary.AppendUvarint(c.out, uint64(len(*list)))
		ListRest(c, list, fields)
		return
	}
	for n := c.Uint(); n > 0 && !c.Bad; n-- {
		readItem(list, fields)
	}
}

// ListRest is List for a list at the end of a row, without its length.
func ListRest[T any](c *Codec, list *[]T, fields func(item *T)) {
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
