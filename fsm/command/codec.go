package command

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/fxamacker/cbor/v2"
)

// ErrCorrupt means that received bytes are not what was written.
var ErrCorrupt = errors.New("corrupt command")

// The frame around CBOR: a version byte, the CRC32C of what follows, CBOR.
const (
	codecVersion = 1
	frameBytes   = 1 + 4
)

// commands is the command table: what each number in the log stands for. To add
// a command is to add a row here, with its type in a file beside, and one in fsm's carryOut.
var commands = map[Op]struct {
	name    string
	payload func() Payload
}{
	OpLead:    {"lead", func() Payload { return new(Lead) }},
	OpInit:    {"init", func() Payload { return new(Init) }},
	OpPublish: {"publish", func() Payload { return new(Publish) }},

	OpRegister:   {"register", func() Payload { return new(Register) }},
	OpPostJob:    {"post_job", func() Payload { return new(PostJob) }},
	OpClaimJob:   {"claim_job", func() Payload { return new(ClaimJob) }},
	OpFinishJob:  {"finish_job", func() Payload { return new(FinishJob) }},
	OpReleaseJob: {"release_job", func() Payload { return new(ReleaseJob) }},
	OpCloseJob:   {"close_job", func() Payload { return new(CloseJob) }},
	OpTick:       {"tick", func() Payload { return new(Tick) }},
	OpAskHuman:   {"ask_human", func() Payload { return new(AskHuman) }},
	OpAddUsage:   {"add_usage", func() Payload { return new(AddUsage) }},

	OpAckDelivery:      {"ack_delivery", func() Payload { return new(AckDelivery) }},
	OpTestDelivery:     {"test_delivery", func() Payload { return new(TestDelivery) }},
	OpRotateSigningKey: {"rotate_signing_key", func() Payload { return new(RotateSigningKey) }},
	OpBeginDeliveries:  {"begin_deliveries", func() Payload { return new(BeginDeliveries) }},

	OpSetFormat: {"set_format", func() Payload { return new(SetFormat) }},
	OpResetKey:  {"reset_key", func() Payload { return new(ResetKey) }},
	OpReseal:    {"reseal", func() Payload { return new(Reseal) }},

	OpRecordBackup: {"record_backup", func() Payload { return new(RecordBackup) }},
}

// Ops returns the numbers of all commands, in order.
func Ops() []Op { return slices.Sorted(maps.Keys(commands)) }

// New returns an empty payload of that kind; nil when there is no such command.
func New(o Op) Payload {
	row, ok := commands[o]
	if !ok {
		return nil
	}
	return row.payload()
}

// OpOf returns the number under which a payload stands in the log.
func OpOf(b Payload) Op { return b.op() }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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

// wireCommand is a command in CBOR: [seq, op, payload].
type wireCommand struct {
	_       struct{} `cbor:",toarray"`
	Seq     uint64
	Op      Op
	Payload cbor.RawMessage
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
