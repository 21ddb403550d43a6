package command

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// ErrCorrupt means that received bytes differ from the written ones.
var ErrCorrupt = errors.New("corrupt command")

// encMode and decMode are the two directions of payloads, which are CBOR. The
// settings are constants, so a failure is a mistake in this file.
var (
	encMode = mustMode(cbor.EncOptions{
		Sort:        cbor.SortNone,
		IndefLength: cbor.IndefLengthForbidden,
		TagsMd:      cbor.TagsForbidden,
	}.EncMode())
	decMode = mustMode(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8RejectInvalid,
		MaxNestedLevels:   maxNesting,
		MaxArrayElements:  maxArrayElements,
		MaxMapPairs:       maxMapPairs,
	}.DecMode())
)

func mustMode[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A batch or a group begins with a frame: a byte with its kind and version, and the CRC32C of the
// rest.
const (
	batchFrame = 1
	groupFrame = 2
	frameBytes = 1 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// flagCharged is the one flag of a command on its way to the leader.
const flagCharged = 1 << 0

// Encode validates a payload and encodes it for Command.Data and the log. A leader
// validates payloads from other nodes again; there is no further validation.
func Encode(p Payload) ([]byte, error) {
	if p == nil {
		return nil, errors.New("no command")
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s is not fit for the log: %w", OpOf(p), err)
	}
	return marshal(p)
}

func marshal(p Payload) ([]byte, error) {
	data, err := encMode.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", OpOf(p), err)
	}
	return data, nil
}

// EncodeBatch returns the bytes of a log entry. It fails for a batch that DecodeBatch would reject.
// It does not check payloads, as Encode does.
func EncodeBatch(b Batch) ([]byte, error) {
	if err := b.checkShape(); err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	size := frameBytes + 2*binary.MaxVarintLen64
	for i := range b.Groups {
		size += b.Groups[i].Size()
	}
	dst := make([]byte, frameBytes, size)
	dst = binary.AppendUvarint(dst, uint64(b.Stamp))
	dst = binary.AppendUvarint(dst, uint64(len(b.Groups)))
	for i := range b.Groups {
		var err error
		if dst, err = b.Groups[i].append(dst, false); err != nil {
			return nil, fmt.Errorf("encode batch: %w", err)
		}
	}
	return seal(dst, batchFrame, MaxEncodedBytes)
}

// DecodeBatch reads only the output of EncodeBatch. It does not check payloads: a leader
// did so before it proposed them. The commands keep their bytes as Data, which are part of
// data.
func DecodeBatch(data []byte) (Batch, error) {
	r := openFrame(data, batchFrame, MaxEncodedBytes)
	b := Batch{Stamp: int64(r.uvarint(MaxStamp))} //nolint:gosec // bounded
	for n := r.uvarint(MaxBatchGroups); n > 0 && r.err == nil; n-- {
		b.Groups = append(b.Groups, r.group(false))
	}
	if err := r.end(); err != nil {
		return Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	return b, nil
}

// EncodeGroup returns the bytes of a group on its way to the leader.
func EncodeGroup(g Group) ([]byte, error) {
	dst, err := g.append(make([]byte, frameBytes, frameBytes+g.Size()+len(g.Commands)*senderHint), true)
	if err != nil {
		return nil, fmt.Errorf("encode group: %w", err)
	}
	return seal(dst, groupFrame, MaxForwardBytes)
}

// senderHint is the usual encoded size of a command's sender.
const senderHint = 48

// DecodeGroup reads only the output of EncodeGroup, and checks every payload.
// The commands keep their bytes as Data, which are part of data.
func DecodeGroup(data []byte) (Group, error) {
	r := openFrame(data, groupFrame, MaxForwardBytes)
	g := r.group(true)
	if err := r.end(); err != nil {
		return Group{}, fmt.Errorf("decode group: %w", err)
	}
	for i := range g.Commands {
		c := &g.Commands[i]
		if err := c.Payload.check(); err != nil {
			return Group{}, fmt.Errorf("decode group: command %d: %s: %w", c.Seq, OpOf(c.Payload), err)
		}
	}
	return g, nil
}

// append encodes a group: the boot, the floor, the open numbers and the commands.
// A command is its number, its op and its payload, and on its way to the leader its
// flags and its sender, too. Numbers are uvarints, bytes are preceded by their length.
func (g *Group) append(dst []byte, toLeader bool) ([]byte, error) {
	dst = append(dst, g.Boot[:]...)
	dst = binary.AppendUvarint(dst, g.Floor)
	dst = binary.AppendUvarint(dst, uint64(len(g.Open)))
	for _, seq := range g.Open {
		dst = binary.AppendUvarint(dst, seq)
	}
	dst = binary.AppendUvarint(dst, uint64(len(g.Commands)))
	for i := range g.Commands {
		c := &g.Commands[i]
		if c.Payload == nil {
			return nil, fmt.Errorf("command %d: no payload", c.Seq)
		}
		data := c.Data
		if data == nil {
			var err error
			if data, err = marshal(c.Payload); err != nil {
				return nil, err
			}
		}
		dst = append(binary.AppendUvarint(dst, c.Seq), byte(OpOf(c.Payload)))
		dst = appendBytes(dst, data)
		if toLeader {
			var flags byte
			if c.From.Charged {
				flags = flagCharged
			}
			dst = appendBytes(appendBytes(append(dst, flags), c.From.Fingerprint), c.From.AgentKey)
		}
	}
	return dst, nil
}

func appendBytes[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// seal fills in the frame of an encoded message.
func seal(dst []byte, frame byte, limit int) ([]byte, error) {
	if len(dst) > limit {
		return nil, fmt.Errorf("%d encoded bytes, at most %d", len(dst), limit)
	}
	dst[0] = frame
	binary.LittleEndian.PutUint32(dst[1:], crc32.Checksum(dst[frameBytes:], castagnoli))
	return dst, nil
}

// reader decodes a message. After the first error it returns zeros.
type reader struct {
	rest []byte
	err  error
}

func openFrame(data []byte, frame byte, limit int) *reader {
	switch {
	case len(data) <= frameBytes:
		return &reader{err: fmt.Errorf("%w: %d bytes", ErrCorrupt, len(data))}
	case len(data) > limit:
		return &reader{err: fmt.Errorf("%d bytes, at most %d", len(data), limit)}
	case data[0] != frame:
		return &reader{err: fmt.Errorf("unknown version %d", data[0])}
	case crc32.Checksum(data[frameBytes:], castagnoli) != binary.LittleEndian.Uint32(data[1:]):
		return &reader{err: fmt.Errorf("%w: checksum", ErrCorrupt)}
	}
	return &reader{rest: data[frameBytes:]}
}

// group reads what Group.append wrote.
func (r *reader) group(toLeader bool) Group {
	var g Group
	copy(g.Boot[:], r.take(uint64(len(g.Boot))))
	g.Floor = r.uvarint(1<<64 - 1)
	for n := r.uvarint(MaxOpen); n > 0 && r.err == nil; n-- {
		g.Open = append(g.Open, r.uvarint(1<<64-1))
	}
	n := r.uvarint(MaxGroupCommands)
	g.Commands = make([]Command, 0, min(n, uint64(len(r.rest)/minCommandBytes)))
	for ; n > 0 && r.err == nil; n-- {
		g.Commands = append(g.Commands, r.command(toLeader))
	}
	if r.err == nil {
		r.err = g.checkShape()
	}
	return g
}

// minCommandBytes is the size of the smallest command.
const minCommandBytes = 4

func (r *reader) command(toLeader bool) Command {
	c := Command{Seq: r.uvarint(1<<64 - 1)}
	op := r.take(1)
	data := r.bytes(MaxEncodedBytes)
	if r.err != nil {
		return c
	}
	row, known := commands[Op(op[0])]
	if !known {
		r.err = fmt.Errorf("command %d: unknown command %d", c.Seq, op[0])
		return c
	}
	c.Payload = row.empty()
	if err := decMode.Unmarshal(data, c.Payload); err != nil {
		r.err = fmt.Errorf("command %d: %s: %w", c.Seq, row.Name, err)
		return c
	}
	c.Data = data
	if toLeader {
		flags := r.take(1)
		if r.err == nil && flags[0]&^flagCharged != 0 {
			r.err = fmt.Errorf("command %d: unknown flags %b", c.Seq, flags[0])
		}
		charged := r.err == nil && flags[0] == flagCharged
		c.From = Sender{Fingerprint: r.text(MaxNameKeyBytes), AgentKey: r.text(MaxNameKeyBytes), Charged: charged}
	}
	return c
}

// uvarint reads a number in its shortest form, at most limit.
func (r *reader) uvarint(limit uint64) uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.rest)
	switch {
	case n <= 0:
		r.err = fmt.Errorf("%w: bad number", ErrCorrupt)
	case n > 1 && r.rest[n-1] == 0:
		r.err = fmt.Errorf("%w: number not in its shortest form", ErrCorrupt)
	case v > limit:
		r.err = fmt.Errorf("%d is over the limit of %d", v, limit)
	default:
		r.rest = r.rest[n:]
		return v
	}
	return 0
}

// take reads n bytes, which remain part of the message.
func (r *reader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.rest)) {
		r.err = fmt.Errorf("%w: truncated", ErrCorrupt)
	}
	if r.err != nil {
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// bytes reads a length and that many bytes.
func (r *reader) bytes(limit uint64) []byte { return r.take(r.uvarint(limit)) }

func (r *reader) text(limit uint64) string {
	s := string(r.bytes(limit))
	if r.err == nil && !utf8.ValidString(s) {
		r.err = fmt.Errorf("%w: not UTF-8", ErrCorrupt)
	}
	return s
}

// end returns the first error; remaining bytes are an error, too.
func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%w: %d bytes too many", ErrCorrupt, len(r.rest))
	}
	return r.err
}

// UnmarshalCBOR reads a byte string of exactly the right length.
func (b *BootID) UnmarshalCBOR(data []byte) error {
	var raw []byte
	if err := decMode.Unmarshal(data, &raw); err != nil {
		return err
	}
	if len(raw) != len(b) {
		return fmt.Errorf("boot id of %d bytes", len(raw))
	}
	copy(b[:], raw)
	return nil
}
