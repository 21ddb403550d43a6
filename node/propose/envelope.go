package propose

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
)

// envelope is a group on its way to the leader.
//
//	version byte
//	uvarint length, fsm.EncodeGroup's bytes
//	per command: flags byte, uvarint length, fingerprint, uvarint length, agent key
//	CRC32C of all that, 4 bytes, little endian
type envelope struct {
	group   command.Group
	members []member // one per command, in order
}

const (
	envelopeVersion = 1
	replyVersion    = 1
	crcBytes        = 4

	flagCharged = 1 << 0 // of a command, and of a reply
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errChecksum  = errors.New("checksum mismatch")
	errTruncated = errors.New("truncated")
)

func encodeEnvelope(e envelope) ([]byte, error) {
	group, err := command.EncodeGroup(e.group)
	if err != nil {
		return nil, fmt.Errorf("encode group: %w", err)
	}
	dst := make([]byte, 0, len(group)+64+len(e.members)*128)
	dst = append(dst, envelopeVersion)
	dst = appendString(dst, group)
	for _, m := range e.members {
		dst = appendCharged(dst, m.Charged)
		dst = appendString(dst, m.Fingerprint)
		dst = appendString(dst, m.AgentKey)
	}
	return appendChecksum(dst), nil
}

// decodeEnvelope reads what encodeEnvelope wrote and nothing else. It returns the
// encoded size of the group, too.
func decodeEnvelope(data []byte) (envelope, int, error) {
	r, err := newReader(data, envelopeVersion)
	if err != nil {
		return envelope{}, 0, fmt.Errorf("envelope: %w", err)
	}
	encoded := r.bytes(command.MaxBatchBytes)
	if r.err != nil {
		return envelope{}, 0, fmt.Errorf("envelope: group: %w", r.err)
	}
	group, err := command.DecodeGroup(encoded)
	if err != nil {
		return envelope{}, 0, fmt.Errorf("envelope: %w", err)
	}
	e := envelope{group: group, members: make([]member, len(group.Commands))}
	for i := range e.members {
		m := &e.members[i]
		m.Charged = r.charged()
		m.Fingerprint = r.text(maxSenderBytes)
		m.AgentKey = r.text(maxSenderBytes)
	}
	if err := r.end(); err != nil {
		return envelope{}, 0, fmt.Errorf("envelope: senders: %w", err)
	}
	return e, len(encoded), nil
}

// encodeReply encodes the leader's answer to a group.
//
//	version byte, status byte, flags byte, uvarint index
//	uvarint count, per refused command: uvarint position, uvarint milliseconds
//	uvarint length, reason
//	CRC32C of all that, 4 bytes, little endian
func encodeReply(v verdict) []byte {
	reason := v.reason
	if len(reason) > maxReasonBytes {
		reason = reason[:maxReasonBytes]
	}
	dst := appendCharged([]byte{replyVersion, byte(v.status)}, v.charged)
	dst = binary.AppendUvarint(dst, v.index)
	dst = binary.AppendUvarint(dst, uint64(len(v.refused)))
	for _, r := range v.refused {
		dst = binary.AppendUvarint(dst, uint64(r.pos))
		dst = binary.AppendUvarint(dst, uint64(max(0, r.retryAfter.Milliseconds())))
	}
	dst = appendString(dst, reason)
	return appendChecksum(dst)
}

// decodeReply reads what encodeReply wrote about a group of n commands.
func decodeReply(data []byte, n int) (verdict, error) {
	r, err := newReader(data, replyVersion)
	if err != nil {
		return verdict{}, fmt.Errorf("reply: %w", err)
	}
	v := verdict{status: status(r.byte()), charged: r.charged(), index: r.uvarint(math.MaxUint64)}
	if v.status < statusApplied || v.status > statusUnknown {
		r.fail(errors.New("unknown status"))
	}
	count := int(r.uvarint(uint64(n)))
	last := -1
	for range count {
		pos := int(r.uvarint(uint64(n - 1)))
		after := time.Duration(r.uvarint(maxRetryAfterMs)) * time.Millisecond
		if r.err != nil {
			break
		}
		if pos <= last {
			r.fail(errors.New("refusals out of order"))
			break
		}
		last = pos
		v.refused = append(v.refused, refusal{pos: pos, retryAfter: after})
	}
	v.reason = string(r.bytes(maxReasonBytes))
	if err := r.end(); err != nil {
		return verdict{}, fmt.Errorf("reply: %w", err)
	}
	return v, nil
}

// maxRetryAfterMs bounds a refusal's wait: a day.
const maxRetryAfterMs = 24 * 60 * 60 * 1000

func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// appendCharged encodes the flags of a command or of a reply: whether it was charged
// to the rate limits.
func appendCharged(dst []byte, charged bool) []byte {
	if charged {
		return append(dst, flagCharged)
	}
	return append(dst, 0)
}

func appendChecksum(dst []byte) []byte {
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst, castagnoli))
}

// reader takes a message apart. After the first problem it returns zeros.
type reader struct {
	rest []byte
	err  error
}

// newReader checks the message's checksum and version.
func newReader(data []byte, version byte) (*reader, error) {
	if len(data) < 1+crcBytes {
		return nil, errTruncated
	}
	content, sum := data[:len(data)-crcBytes], data[len(data)-crcBytes:]
	if crc32.Checksum(content, castagnoli) != binary.LittleEndian.Uint32(sum) {
		return nil, errChecksum
	}
	if content[0] != version {
		return nil, fmt.Errorf("version %d, want %d", content[0], version)
	}
	return &reader{rest: content[1:]}, nil
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) byte() byte {
	if r.err == nil && len(r.rest) == 0 {
		r.err = errTruncated
	}
	if r.err != nil {
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// charged reads what appendCharged wrote.
func (r *reader) charged() bool {
	flags := r.byte()
	if flags&^flagCharged != 0 {
		r.fail(errors.New("unknown flags"))
	}
	return flags&flagCharged != 0
}

// uvarint reads a number in its shortest form, at most limit.
func (r *reader) uvarint(limit uint64) uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.rest)
	switch {
	case n <= 0:
		r.fail(errors.New("bad number"))
		return 0
	case n > 1 && r.rest[n-1] == 0:
		r.fail(errors.New("number not in its shortest form"))
		return 0
	case v > limit:
		r.fail(fmt.Errorf("%d is over the limit of %d", v, limit))
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// bytes reads a length and that many bytes, which stay part of the message.
func (r *reader) bytes(limit int) []byte {
	n := r.uvarint(uint64(limit))
	if r.err == nil && n > uint64(len(r.rest)) {
		r.err = errTruncated
	}
	if r.err != nil {
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) text(limit int) string {
	s := string(r.bytes(limit))
	if !utf8.ValidString(s) {
		r.fail(errors.New("not UTF-8"))
	}
	return s
}

// end returns the first problem; anything left over is one.
func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.rest))
	}
	return r.err
}
