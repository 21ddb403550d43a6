package propose

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
)

func TestEnvelopeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := envelope{group: command.Group{Boot: command.BootID{7}, Floor: rapid.Uint64().Draw(t, "floor")}}
		for range rapid.IntRange(1, 5).Draw(t, "commands") {
			body := entryOf(rapid.StringMatching(`[a-z]{4,40}`).Draw(t, "body"))
			e.group.Commands = append(e.group.Commands, command.Command{Seq: rapid.Uint64().Draw(t, "seq"), Payload: body})
			e.members = append(e.members, member{
				Sender: command.Sender{
					Fingerprint: rapid.StringN(0, 20, maxSenderBytes).Draw(t, "fingerprint"),
					AgentKey:    rapid.StringN(0, 20, maxSenderBytes).Draw(t, "agent"),
				},
				Charged: rapid.Bool().Draw(t, "charged"),
			})
		}
		data, err := encodeEnvelope(e)
		if err != nil {
			t.Fatal(err)
		}
		got, size, err := decodeEnvelope(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e.group, got.group) + cmp.Diff(e.members, got.members); diff != "" {
			t.Error(diff)
		}
		if group, _ := command.EncodeGroup(e.group); size != len(group) {
			t.Errorf("size %d, want %d", size, len(group))
		}
		flip := rapid.IntRange(0, len(data)*8-1).Draw(t, "flip")
		data[flip/8] ^= 1 << (flip % 8)
		if _, _, err := decodeEnvelope(data); err == nil {
			t.Errorf("a flipped bit %d was not noticed", flip)
		}
	})
}

func TestReplyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "commands")
		v := verdict{
			status: status(rapid.IntRange(1, 5).Draw(t, "status")),
			index:  rapid.Uint64().Draw(t, "index"),
			reason: rapid.StringN(0, 50, maxReasonBytes).Draw(t, "reason"),

			charged: rapid.Bool().Draw(t, "charged"),
		}
		for i := range n {
			if rapid.Bool().Draw(t, "refused") {
				after := time.Duration(rapid.IntRange(0, maxRetryAfterMs).Draw(t, "after")) * time.Millisecond
				v.refused = append(v.refused, refusal{pos: i, retryAfter: after})
			}
		}
		got, err := decodeReply(encodeReply(v), n)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v, got, cmp.AllowUnexported(verdict{}, refusal{})); diff != "" {
			t.Error(diff)
		}
	})
}

// Whatever passes measure can be read by every state machine, and is no larger
// than measure says.
func TestMeasuredCommandsAreReadable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		g := command.Group{Boot: command.BootID{1}, Floor: rapid.Uint64Min(1<<40).Draw(t, "floor")}
		for range rapid.IntRange(0, command.MaxOpen).Draw(t, "open") {
			g.Open = append(g.Open, g.Floor-command.MaxOpen+uint64(len(g.Open)))
		}
		total := len(g.Open) * openBytes
		for range 4 {
			body := entryOf(text.Draw(t, "body"))
			if rapid.Bool().Draw(t, "more") {
				body.Title, body.Tags, body.Mentions = text.Draw(t, "title"), []string{text.Draw(t, "tag")}, []string{text.Draw(t, "mention")}
				body.Request = command.RequestKey{Scope: text.Draw(t, "scope"), ID: text.Draw(t, "id")}
			}
			size, err := measure(g.Boot, sender, body)
			if err != nil {
				continue
			}
			total += size
			g.Commands = append(g.Commands, command.Command{Seq: rapid.Uint64().Draw(t, "seq"), Payload: body})
		}
		data, err := command.EncodeBatch(command.Batch{Stamp: 1, Groups: []command.Group{g}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := command.DecodeBatch(data); err != nil {
			t.Error(err)
		}
		if len(data) > total+batchReserve {
			t.Errorf("%d bytes, measured %d", len(data), total)
		}
	})
}

// sealed is a message with a valid checksum.
func sealed(content ...byte) []byte {
	return binary.LittleEndian.AppendUint32(content, crc32.Checksum(content, castagnoli))
}

func TestRepliesAreReadStrictly(t *testing.T) {
	good := encodeReply(verdict{status: statusApplied, index: 300, refused: []refusal{{pos: 1}}})
	if _, err := decodeReply(good, 2); err != nil {
		t.Fatal(err)
	}
	tests := map[string][]byte{
		"empty":                  {},
		"cut":                    good[:len(good)-1],
		"wrong version":          sealed(2, 1, 0, 5, 0, 0),
		"no status":              sealed(1),
		"status 0":               sealed(1, 0, 0, 5, 0, 0),
		"status 6":               sealed(1, 6, 0, 5, 0, 0),
		"unknown flags":          sealed(1, 1, 2, 5, 0, 0),
		"long number":            sealed(1, 1, 0, 0x85, 0, 0, 0),
		"endless number":         sealed(append([]byte{1, 1, 0}, bytes.Repeat([]byte{0xff}, 12)...)...),
		"more refused than sent": sealed(1, 1, 0, 5, 3, 0, 0, 1, 0, 1, 0, 0),
		"position out of range":  sealed(1, 1, 0, 5, 1, 2, 0, 0),
		"positions out of order": sealed(1, 1, 0, 5, 2, 1, 0, 1, 0, 0),
		"reason cut":             sealed(1, 1, 0, 5, 0, 3, 'a'),
		"something follows":      sealed(1, 1, 0, 5, 0, 0, 0),
	}
	for name, data := range tests {
		if v, err := decodeReply(data, 2); err == nil {
			t.Errorf("%s: read as %+v", name, v)
		}
	}
}

func TestEnvelopesAreReadStrictly(t *testing.T) {
	e := envelope{
		group:   command.Group{Boot: command.BootID{1}, Floor: 1, Commands: []command.Command{{Seq: 1, Payload: entryOf("some text")}}},
		members: []member{{Sender: sender}},
	}
	good, err := encodeEnvelope(e)
	if err != nil {
		t.Fatal(err)
	}
	content := good[:len(good)-crcBytes]
	tail := len(content) - (1 + 1 + len(sender.Fingerprint) + 1 + len(sender.AgentKey))
	bad := e
	bad.group.Commands = []command.Command{{Seq: 1, Payload: entryOf("")}}
	poisoned, err := encodeEnvelope(bad)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(change func([]byte) []byte) []byte { return sealed(change(bytes.Clone(content))...) }
	tests := map[string][]byte{
		"empty":             {},
		"version alone":     sealed(1),
		"no senders":        edit(func(b []byte) []byte { return b[:tail] }),
		"cut sender":        edit(func(b []byte) []byte { return b[:len(b)-1] }),
		"something follows": edit(func(b []byte) []byte { return append(b, 0) }),
		"unknown flags":     edit(func(b []byte) []byte { b[tail] = 2; return b }),
		"not UTF-8":         edit(func(b []byte) []byte { b[tail+2] = 0xff; return b }),
		"no group":          sealed(1, 0),
		"group too long":    sealed(1, 0xff, 0xff, 0xff, 0x7f),
		"poisoned command":  poisoned,
		"long sender": edit(func(b []byte) []byte {
			return append(appendString(append(b[:tail], 0), strings.Repeat("x", maxSenderBytes+1)), 0)
		}),
	}
	for name, data := range tests {
		if got, _, err := decodeEnvelope(data); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

func FuzzDecodeEnvelope(f *testing.F) {
	for _, n := range []int{1, 3} {
		var e envelope
		e.group = command.Group{Boot: command.BootID{1}, Floor: 1}
		for i := range n {
			e.group.Commands = append(e.group.Commands, command.Command{Seq: uint64(i + 1), Payload: entryOf("some text")})
			e.members = append(e.members, member{Sender: sender, Charged: i == 1})
		}
		data, err := encodeEnvelope(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:len(data)-crcBytes])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		e, size, err := decodeEnvelope(sealed(bytes.Clone(content)...))
		if err != nil {
			return
		}
		if size > len(content) || len(e.members) != len(e.group.Commands) {
			t.Fatalf("%d members, %d commands, %d bytes", len(e.members), len(e.group.Commands), size)
		}
		again, err := encodeEnvelope(e)
		if err != nil {
			t.Fatalf("read but not written: %v", err)
		}
		if _, _, err := decodeEnvelope(again); err != nil {
			t.Fatalf("written but not read: %v", err)
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	for _, v := range []verdict{
		{status: statusApplied, index: 1 << 40},
		{status: statusUnknown, charged: true, reason: "disk says no"},
		{status: statusApplied, refused: []refusal{{0, time.Second}, {3, time.Minute}}},
	} {
		data := encodeReply(v)
		f.Add(data[:len(data)-crcBytes], uint16(4))
	}
	f.Fuzz(func(t *testing.T, content []byte, n uint16) {
		if n == 0 {
			return
		}
		data := sealed(bytes.Clone(content)...)
		v, err := decodeReply(data, int(n))
		if err != nil {
			return
		}
		if !bytes.Equal(encodeReply(v), data) {
			t.Fatalf("%+v has two encodings", v)
		}
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	f.Add([]byte(`{"index":7}`))
	f.Add([]byte(`{"index":7}{}`))
	f.Add([]byte(`{"term":7}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a indexAnswer
		if err := decodeAnswer(data, &a); err != nil && strings.TrimSpace(string(data)) == `{"index":7}` {
			t.Fatal(err)
		}
	})
}
