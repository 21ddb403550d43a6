package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/fxamacker/cbor/v2"
)

// The frame around CBOR: a version byte, the CRC32C of what follows, CBOR.
const (
	codecVersion = 1
	frameBytes   = 1 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// commands is the command table: what each number in the log stands for. To add
// a command is to add a row here, with its body in a file of its own.
var commands = map[Op]struct {
	name string
	body func() Body
}{
	OpLead:    {"lead", func() Body { return new(Lead) }},
	OpInit:    {"init", func() Body { return new(Init) }},
	OpPublish: {"publish", func() Body { return new(Publish) }},

	OpRegister:   {"register", func() Body { return new(Register) }},
	OpPostJob:    {"post_job", func() Body { return new(PostJob) }},
	OpClaimJob:   {"claim_job", func() Body { return new(ClaimJob) }},
	OpFinishJob:  {"finish_job", func() Body { return new(FinishJob) }},
	OpReleaseJob: {"release_job", func() Body { return new(ReleaseJob) }},
	OpCloseJob:   {"close_job", func() Body { return new(CloseJob) }},
	OpTick:       {"tick", func() Body { return new(Tick) }},
	OpAskHuman:   {"ask_human", func() Body { return new(AskHuman) }},
	OpAddUsage:   {"add_usage", func() Body { return new(AddUsage) }},

	OpAckDelivery:      {"ack_delivery", func() Body { return new(AckDelivery) }},
	OpTestDelivery:     {"test_delivery", func() Body { return new(TestDelivery) }},
	OpRotateSigningKey: {"rotate_signing_key", func() Body { return new(RotateSigningKey) }},
	OpBeginDeliveries:  {"begin_deliveries", func() Body { return new(BeginDeliveries) }},

	OpSetFormat: {"set_format", func() Body { return new(SetFormat) }},
	OpResetKey:  {"reset_key", func() Body { return new(ResetKey) }},
	OpReseal:    {"reseal", func() Body { return new(Reseal) }},

	OpRecordBackup: {"record_backup", func() Body { return new(RecordBackup) }},
}

// String returns the command's name, for logs and metrics.
func (o Op) String() string {
	if row, ok := commands[o]; ok {
		return row.name
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Ops returns the numbers of all commands, in order.
func Ops() []Op { return slices.Sorted(maps.Keys(commands)) }

// OpOf returns the number under which a body stands in the log.
func OpOf(b Body) Op { return b.op() }

// encMode and decMode are the two directions of the log's CBOR. The settings are
// constants, so a failure is a mistake in this file.
var (
	encMode = must(cbor.EncOptions{
		Sort:        cbor.SortNone,
		IndefLength: cbor.IndefLengthForbidden,
		TagsMd:      cbor.TagsForbidden,
	}.EncMode())
	decMode = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8RejectInvalid,
		MaxNestedLevels:   maxNesting,
		MaxArrayElements:  MaxGroupCommands,
		MaxMapPairs:       maxMapPairs,
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// EncodeBatch returns the bytes of a log entry. It refuses a batch that DecodeBatch
// would refuse for anything but a command in it: see Check for those.
func EncodeBatch(b Batch) ([]byte, error) {
	if err := b.checkShape(); err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	return encodeFrame(&b)
}

// DecodeBatch reads what EncodeBatch wrote. It refuses anything malformed and
// any command that its own check refuses.
func DecodeBatch(data []byte) (Batch, error) {
	var b Batch
	if err := decodeFrame(data, &b); err != nil {
		return Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	if err := b.check(); err != nil {
		return Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	return b, nil
}

// EncodeGroup returns the bytes of a group on its way to the leader.
func EncodeGroup(g Group) ([]byte, error) { return encodeFrame(&g) }

// DecodeGroup reads what EncodeGroup wrote, as strictly as DecodeBatch.
func DecodeGroup(data []byte) (Group, error) {
	var g Group
	if err := decodeFrame(data, &g); err != nil {
		return Group{}, fmt.Errorf("decode group: %w", err)
	}
	if err := g.check(); err != nil {
		return Group{}, fmt.Errorf("decode group: %w", err)
	}
	return g, nil
}

func encodeFrame(v any) ([]byte, error) {
	body, err := encMode.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode command: %w", err)
	}
	if len(body)+frameBytes > MaxEncodedBytes {
		return nil, fmt.Errorf("encode command: %d bytes, at most %d", len(body)+frameBytes, MaxEncodedBytes)
	}
	out := make([]byte, frameBytes, frameBytes+len(body))
	out[0] = codecVersion
	binary.LittleEndian.PutUint32(out[1:], crc32.Checksum(body, castagnoli))
	return append(out, body...), nil
}

func decodeFrame(data []byte, v any) error {
	switch {
	case len(data) <= frameBytes:
		return fmt.Errorf("%w: %d bytes", ErrCorrupt, len(data))
	case len(data) > MaxEncodedBytes:
		return fmt.Errorf("%d bytes, at most %d", len(data), MaxEncodedBytes)
	case data[0] != codecVersion:
		return fmt.Errorf("unknown version %d", data[0])
	}
	body := data[frameBytes:]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(data[1:]) {
		return fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	return decMode.Unmarshal(body, v)
}

// wireCommand is a command in CBOR: [seq, op, body].
type wireCommand struct {
	_    struct{} `cbor:",toarray"`
	Seq  uint64
	Op   Op
	Body cbor.RawMessage
}

// MarshalCBOR writes [seq, op, body].
func (c Command) MarshalCBOR() ([]byte, error) {
	if c.Body == nil {
		return nil, errors.New("command without a body")
	}
	body, err := encMode.Marshal(c.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Body.op(), err)
	}
	return encMode.Marshal(wireCommand{Seq: c.Seq, Op: c.Body.op(), Body: body})
}

// UnmarshalCBOR reads [seq, op, body]; the op says what the body is.
func (c *Command) UnmarshalCBOR(data []byte) error {
	var w wireCommand
	if err := decMode.Unmarshal(data, &w); err != nil {
		return err
	}
	row, ok := commands[w.Op]
	if !ok {
		return fmt.Errorf("unknown command %d", w.Op)
	}
	body := row.body()
	if err := decMode.Unmarshal(w.Body, body); err != nil {
		return fmt.Errorf("%s: %w", row.name, err)
	}
	c.Seq, c.Body = w.Seq, body
	return nil
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
