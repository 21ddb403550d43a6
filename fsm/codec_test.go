package fsm

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/commons-cluster/commons/fsm/command"
)

// TestUnreadableBatchIsNotEncoded holds that a log entry which every node would stop
// at is not made in the first place.
func TestUnreadableBatchIsNotEncoded(t *testing.T) {
	for name, b := range map[string]command.Batch{
		"a stamp before the epoch":     {Stamp: -1},
		"a stamp after the year 9999":  {Stamp: command.MaxStamp + 1},
		"too many groups":              {Groups: make([]command.Group, command.MaxBatchGroups+1)},
		"a group without a boot id":    {Groups: []command.Group{{}}},
		"a group of too many commands": {Groups: []command.Group{{Boot: boot1, Commands: make([]command.Command, command.MaxGroupCommands+1)}}},
		"too many open numbers":        {Groups: []command.Group{{Boot: boot1, Floor: command.MaxOpen + 1, Open: rising(command.MaxOpen + 1)}}},
		"an open number at the floor":  {Groups: []command.Group{{Boot: boot1, Floor: 3, Open: []uint64{1, 3}}}},
		"open numbers that fall":       {Groups: []command.Group{{Boot: boot1, Floor: 3, Open: []uint64{2, 1}}}},
		"an open number twice":         {Groups: []command.Group{{Boot: boot1, Floor: 3, Open: []uint64{1, 1}}}},
	} {
		if data, err := command.EncodeBatch(b); err == nil {
			t.Errorf("%s: encoded as %d bytes", name, len(data))
		}
	}
}

// rising returns the numbers from 0 up to n-1.
func rising(n uint64) (numbers []uint64) {
	for i := range n {
		numbers = append(numbers, i)
	}
	return numbers
}

func samplePublish() *command.Publish {
	return &command.Publish{
		Agent: "Ada", AgentKey: "ada", Kind: command.KindKnowledge, Channel: "general",
		Title: "A title", Body: "A body of some words.", Tags: []string{"one", "Two"},
		Target: "e1", Relation: command.RelationReply, Mentions: []string{"bob"}, House: true,
		Request: command.RequestKey{Scope: "ada", ID: "request-1"},
	}
}

func sampleBatch() command.Batch {
	return command.Batch{Stamp: 1700000000000, Groups: []command.Group{
		{Boot: command.BootID{1}, Floor: command.MaxOpen + 3, Open: rising(command.MaxOpen), Commands: []command.Command{
			{Seq: 3, Payload: &command.Lead{ServerID: "n1-abc"}},
			{Seq: 4, Payload: &command.Init{ClusterID: "c1", SealedDataKey: []byte{1, 2, 3}}},
		}},
		{Boot: command.BootID{2}, Commands: []command.Command{{Seq: 1, Payload: samplePublish()}}},
	}}
}

func TestBatchRoundTrip(t *testing.T) { checkBatch(t, sampleBatch()) }

// checkRoundTrip encodes and decodes commands.
func checkRoundTrip(t *testing.T, bodies ...command.Payload) {
	t.Helper()
	b := command.Batch{Stamp: 1, Groups: []command.Group{{Boot: boot1}}}
	for i, body := range bodies {
		b.Groups[0].Commands = append(b.Groups[0].Commands, command.Command{Seq: uint64(i), Payload: body})
	}
	checkBatch(t, b)
}

func checkBatch(t *testing.T, want command.Batch) {
	t.Helper()
	data, err := command.EncodeBatch(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := command.DecodeBatch(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("batch (-want +got):\n%s", diff)
	}
}

func TestGroupRoundTrip(t *testing.T) {
	want := sampleBatch().Groups[1]
	data, err := command.EncodeGroup(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := command.DecodeGroup(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("group (-want +got):\n%s", diff)
	}
	if _, err := command.DecodeBatch(data); err == nil {
		t.Error("a group passed for a batch")
	}
}

// TestEveryFlippedBitIsRefused flips each bit of an encoded batch in turn.
func TestEveryFlippedBitIsRefused(t *testing.T) {
	data, err := command.EncodeBatch(sampleBatch())
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(data) * 8 {
		bad := bytes.Clone(data)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := command.DecodeBatch(bad); err == nil {
			t.Fatalf("bit %d flipped unnoticed", i)
		}
	}
	for n := range data {
		if _, err := command.DecodeBatch(data[:n]); err == nil {
			t.Fatalf("cut to %d bytes unnoticed", n)
		}
	}
}

// frameBytes is the length of the frame around CBOR.
const frameBytes = 1 + 4

// frame wraps raw CBOR as the codec does.
func frame(body ...byte) []byte {
	out := []byte{1, 0, 0, 0, 0}
	binary.LittleEndian.PutUint32(out[1:], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(out, body...)
}

func TestDecodeStrictness(t *testing.T) {
	good := frame(0xa2, 1, 1, 2, 0x80)
	if _, err := command.DecodeBatch(good); err != nil {
		t.Fatalf("the base case: %v", err)
	}
	deep := append([]byte{0xa2, 1, 1, 2}, bytes.Repeat([]byte{0x81}, 40)...)
	tests := map[string][]byte{
		"trailing byte":     frame(0xa2, 1, 1, 2, 0x80, 0),
		"duplicate key":     frame(0xa3, 1, 1, 1, 1, 2, 0x80),
		"unknown field":     frame(0xa3, 1, 1, 2, 0x80, 9, 1),
		"indefinite map":    frame(0xbf, 1, 1, 2, 0x80, 0xff),
		"indefinite array":  frame(0xa2, 1, 1, 2, 0x9f, 0xff),
		"too deep":          frame(append(deep, 0x80)...),
		"huge array":        frame(0xa2, 1, 1, 2, 0x9a, 0xff, 0xff, 0xff, 0xff),
		"not a map":         frame(0x01),
		"negative stamp":    frame(0xa2, 1, 0x20, 2, 0x80),
		"tagged":            frame(0xc1, 0xa2, 1, 1, 2, 0x80),
		"empty":             {},
		"frame alone":       frame(),
		"other version":     append([]byte{2}, good[1:]...),
		"short boot id":     frame(0xa2, 1, 1, 2, 0x81, 0xa3, 1, 0x41, 7, 2, 0, 3, 0x80),
		"command of two":    frame(commandFrame(0x82, 1, 1)...),
		"command of four":   frame(commandFrame(0x84, 1, 1, 0xa1, 1, 0x61, 'x', 1)...),
		"unknown command":   frame(commandFrame(0x83, 1, 0x18, 200, 0xa0)...),
		"body breaks check": frame(commandFrame(0x83, 1, 1, 0xa0)...),
		"body not UTF-8":    frame(commandFrame(0x83, 1, 1, 0xa1, 1, 0x61, 0xff)...),
		"body unknown key":  frame(commandFrame(0x83, 1, 1, 0xa2, 1, 0x61, 'x', 2, 1)...),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			if b, err := command.DecodeBatch(data); err == nil {
				t.Errorf("decoded to %+v", b)
			}
		})
	}
	if _, err := command.DecodeBatch(frame(commandFrame(0x83, 1, 1, 0xa1, 1, 0x61, 'x')...)); err != nil {
		t.Errorf("the command's base case: %v", err)
	}
}

// commandFrame is a batch of one group of one command, given in CBOR.
func commandFrame(cmd ...byte) []byte {
	out := []byte{0xa2, 1, 1, 2, 0x81, 0xa3, 1, 0x50}
	out = append(out, bytes.Repeat([]byte{7}, 16)...)
	out = append(out, 2, 0, 3, 0x81)
	return append(out, cmd...)
}

func TestPublishCheck(t *testing.T) {
	tests := map[string]struct {
		change func(*command.Publish)
		want   string // part of the error; "" for none
	}{
		"as it is":             {func(*command.Publish) {}, ""},
		"no channel":           {func(p *command.Publish) { p.Channel = "" }, ""},
		"no request":           {func(p *command.Publish) { p.Request = command.RequestKey{} }, ""},
		"body at its bound":    {func(p *command.Publish) { p.Body = strings.Repeat("ö", command.MaxBody) }, ""},
		"body over":            {func(p *command.Publish) { p.Body = strings.Repeat("ö", command.MaxBody+1) }, "body"},
		"body short":           {func(p *command.Publish) { p.Body = "abc" }, "body"},
		"body not UTF-8":       {func(p *command.Publish) { p.Body = "abcd\xff" }, "body: not UTF-8"},
		"title over":           {func(p *command.Publish) { p.Title = strings.Repeat("x", command.MaxTitle+1) }, "title"},
		"title short":          {func(p *command.Publish) { p.Title = "abc" }, "title"},
		"agent short":          {func(p *command.Publish) { p.Agent = "a" }, "agent"},
		"agent over":           {func(p *command.Publish) { p.Agent = strings.Repeat("x", command.MaxName+1) }, "agent"},
		"no agent key":         {func(p *command.Publish) { p.AgentKey = "" }, "agent key"},
		"kind zero":            {func(p *command.Publish) { p.Kind = 0 }, "kind"},
		"kind over":            {func(p *command.Publish) { p.Kind = 4 }, "kind"},
		"channel short":        {func(p *command.Publish) { p.Channel = "x" }, "channel"},
		"nine tags":            {func(p *command.Publish) { p.Tags = make([]string, 9) }, "tags"},
		"empty tag":            {func(p *command.Publish) { p.Tags = []string{""} }, "tag"},
		"tag over":             {func(p *command.Publish) { p.Tags = []string{strings.Repeat("x", command.MaxTag+1)} }, "tag"},
		"target over":          {func(p *command.Publish) { p.Target = strings.Repeat("x", command.MaxTarget+1) }, "target"},
		"relation alone":       {func(p *command.Publish) { p.Target = "" }, "go together"},
		"target alone":         {func(p *command.Publish) { p.Relation = command.RelationNone }, "go together"},
		"relation over":        {func(p *command.Publish) { p.Relation = 5 }, "relation"},
		"mentions over":        {func(p *command.Publish) { p.Mentions = make([]string, command.MaxMentions+1) }, "mentions"},
		"empty mention":        {func(p *command.Publish) { p.Mentions = []string{""} }, "mention"},
		"request scope alone":  {func(p *command.Publish) { p.Request.ID = "" }, "request id"},
		"request without home": {func(p *command.Publish) { p.Request.Scope = "" }, "request scope"},
		"request id over":      {func(p *command.Publish) { p.Request.ID = strings.Repeat("x", command.MaxRequestID+1) }, "request id"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := samplePublish()
			tt.change(p)
			err := command.Check(p)
			if tt.want == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want one about %q", err, tt.want)
			}
		})
	}
}

func TestEncodeRefusesTooMuch(t *testing.T) {
	var g command.Group
	for i := range 30 {
		p := samplePublish()
		p.Body = strings.Repeat("世", command.MaxBody)
		g.Commands = append(g.Commands, command.Command{Seq: uint64(i), Payload: p})
	}
	if _, err := command.EncodeGroup(g); err == nil {
		t.Error("encoded a group over MaxEncodedBytes")
	}
	if _, err := command.EncodeGroup(command.Group{Commands: []command.Command{{}}}); err == nil {
		t.Error("encoded a command without a body")
	}
}

func FuzzDecodeBatch(f *testing.F) {
	data, err := command.EncodeBatch(sampleBatch())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[frameBytes:])
	f.Add([]byte{0xa2, 1, 1, 2, 0x80})
	f.Add(commandFrame(0x83, 1, 1, 0xa1, 1, 0x61, 'x'))
	for _, b := range deliveryCommands() {
		data, err := command.EncodeBatch(command.Batch{Stamp: 1, Groups: []command.Group{{Boot: boot1, Commands: []command.Command{{Seq: 1, Payload: b}}}}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[frameBytes:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		// The fuzzer cannot guess checksums, so it works below them.
		b, err := command.DecodeBatch(frame(body...))
		if err != nil {
			return
		}
		again, err := command.EncodeBatch(b)
		if err != nil {
			t.Fatalf("decoded but does not encode: %v", err)
		}
		b2, err := command.DecodeBatch(again)
		if err != nil {
			t.Fatalf("encoded but does not decode: %v", err)
		}
		if diff := cmp.Diff(b, b2, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("changed on the way (-first +second):\n%s", diff)
		}
	})
}

func BenchmarkDecodeBatch(b *testing.B) {
	data := must(command.EncodeBatch(publishBatch(1, 100)))
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := command.DecodeBatch(data); err != nil {
			b.Fatal(err)
		}
	}
}

// publishBatch is a batch of n entries of about 1 KB.
func publishBatch(first uint64, n int) command.Batch {
	g := command.Group{Boot: command.BootID{9}, Floor: first}
	for i := range n {
		p := samplePublish()
		p.Target, p.Relation, p.Request = "", 0, command.RequestKey{}
		p.Body = strings.Repeat("wordy ", 160)
		g.Commands = append(g.Commands, command.Command{Seq: first + uint64(i), Payload: p})
	}
	return command.Batch{Stamp: 1, Groups: []command.Group{g}}
}
