package command

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestUnreadableBatchIsNotEncoded holds that a log entry which every node would stop
// at is not made in the first place.
func TestUnreadableBatchIsNotEncoded(t *testing.T) {
	for name, b := range map[string]Batch{
		"a stamp before the epoch":     {Stamp: -1},
		"a stamp after the year 9999":  {Stamp: MaxStamp + 1},
		"too many groups":              {Groups: make([]Group, MaxBatchGroups+1)},
		"a group without a boot id":    {Groups: []Group{{}}},
		"a group of too many commands": {Groups: []Group{{Boot: BootID{1}, Commands: make([]Command, MaxGroupCommands+1)}}},
		"too many open numbers":        {Groups: []Group{{Boot: BootID{1}, Floor: MaxOpen + 1, Open: rising(MaxOpen + 1)}}},
		"an open number at the floor":  {Groups: []Group{{Boot: BootID{1}, Floor: 3, Open: []uint64{1, 3}}}},
		"open numbers that fall":       {Groups: []Group{{Boot: BootID{1}, Floor: 3, Open: []uint64{2, 1}}}},
		"an open number twice":         {Groups: []Group{{Boot: BootID{1}, Floor: 3, Open: []uint64{1, 1}}}},
	} {
		check.Fails(EncodeBatch(b))(t, "%s: encode", name)
	}
}

// rising returns the numbers from 0 up to n-1.
func rising(n uint64) (numbers []uint64) {
	for i := range n {
		numbers = append(numbers, i)
	}
	return numbers
}

func samplePublish() *Publish {
	return &Publish{
		Agent: "Ada", AgentKey: "ada", Kind: KindKnowledge, Channel: "general",
		Title: "A title", Body: "A body of some words.", Tags: []string{"one", "Two"},
		Target: "e1", Relation: RelationReply, Mentions: []string{"bob"}, House: true,
		Request: RequestKey{Scope: "ada", ID: "request-1"},
	}
}

func sampleBatch() Batch {
	return Batch{Stamp: 1700000000000, Groups: []Group{
		{Boot: BootID{1}, Floor: MaxOpen + 3, Open: rising(MaxOpen), Commands: []Command{
			{Seq: 3, Payload: &Lead{ServerID: "n1-abc"}},
			{Seq: 4, Payload: &Init{ClusterID: "c1", SealedDataKey: []byte{1, 2, 3}}},
		}},
		{Boot: BootID{2}, Commands: []Command{{Seq: 1, Payload: samplePublish()}}},
	}}
}

func TestBatchRoundTrip(t *testing.T) { checkBatch(t, sampleBatch()) }

func checkBatch(t *testing.T, want Batch) {
	t.Helper()
	data := must.Get(EncodeBatch(want))(t)
	got := must.Get(DecodeBatch(data))(t)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Command{}, "Data")); diff != "" {
		t.Errorf("batch (-want +got):\n%s", diff)
	}
}

func TestPublishCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Publish)
		want   string // part of the error; empty if there is no error
	}{
		"as it is":             {func(*Publish) {}, ""},
		"no channel":           {func(p *Publish) { p.Channel = "" }, ""},
		"no request":           {func(p *Publish) { p.Request = RequestKey{} }, ""},
		"body at its bound":    {func(p *Publish) { p.Body = strings.Repeat("ö", MaxBody) }, ""},
		"body over":            {func(p *Publish) { p.Body = strings.Repeat("ö", MaxBody+1) }, "body"},
		"body short":           {func(p *Publish) { p.Body = "abc" }, "body"},
		"body not UTF-8":       {func(p *Publish) { p.Body = "abcd\xff" }, "body: not UTF-8"},
		"title over":           {func(p *Publish) { p.Title = strings.Repeat("x", MaxTitle+1) }, "title"},
		"title short":          {func(p *Publish) { p.Title = "abc" }, "title"},
		"agent short":          {func(p *Publish) { p.Agent = "a" }, "agent"},
		"agent over":           {func(p *Publish) { p.Agent = strings.Repeat("x", MaxName+1) }, "agent"},
		"no agent key":         {func(p *Publish) { p.AgentKey = "" }, "agent key"},
		"kind zero":            {func(p *Publish) { p.Kind = 0 }, "kind"},
		"kind over":            {func(p *Publish) { p.Kind = 4 }, "kind"},
		"channel short":        {func(p *Publish) { p.Channel = "x" }, "channel"},
		"nine tags":            {func(p *Publish) { p.Tags = make([]string, 9) }, "tags"},
		"empty tag":            {func(p *Publish) { p.Tags = []string{""} }, "tag"},
		"tag over":             {func(p *Publish) { p.Tags = []string{strings.Repeat("x", MaxTag+1)} }, "tag"},
		"target over":          {func(p *Publish) { p.Target = strings.Repeat("x", MaxTarget+1) }, "target"},
		"relation alone":       {func(p *Publish) { p.Target = "" }, "go together"},
		"target alone":         {func(p *Publish) { p.Relation = RelationNone }, "go together"},
		"relation over":        {func(p *Publish) { p.Relation = 5 }, "relation"},
		"mentions over":        {func(p *Publish) { p.Mentions = make([]string, MaxMentions+1) }, "mentions"},
		"empty mention":        {func(p *Publish) { p.Mentions = []string{""} }, "mention"},
		"request scope alone":  {func(p *Publish) { p.Request.ID = "" }, "request id"},
		"request without home": {func(p *Publish) { p.Request.Scope = "" }, "request scope"},
		"request id over":      {func(p *Publish) { p.Request.ID = strings.Repeat("x", MaxRequestID+1) }, "request id"},
	} {
		t.Run(name, func(t *testing.T) {
			p := samplePublish()
			tt.change(p)
			err := Check(p)
			if tt.want == "" && err != nil {
				t.Errorf("rejected: %v", err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want one about %q", err, tt.want)
			}
		})
	}
}

// toLeader is sampleBatch's second group with what goes to the leader alone.
func toLeader(t testing.TB) Group {
	t.Helper()
	g := sampleBatch().Groups[1]
	for i := range g.Commands {
		c := &g.Commands[i]
		data := must.Get(Encode(c.Payload))(t)
		c.Data, c.From = data, Sender{Fingerprint: "0123", AgentKey: "ada", Charged: i == 0}
	}
	return g
}

func TestGroupRoundTrip(t *testing.T) {
	want := toLeader(t)
	data := must.Get(EncodeGroup(want))(t)
	got := must.Get(DecodeGroup(data))(t)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("group (-want +got):\n%s", diff)
	}
	check.Fails(DecodeBatch(data))(t, "a group passed for a batch")
	batch := must.Get(EncodeBatch(Batch{Groups: []Group{got}}))(t)
	check.Fails(DecodeGroup(batch))(t, "a batch passed for a group")
	check.Equal(t, bytes.Contains(batch, []byte("0123")), false, "the sender's fingerprint is in the batch")
	check.Contains(t, string(batch), string(want.Commands[0].Data), "the payload's bytes are not those that were sent")
}

// TestEveryFlippedBitIsRejected flips each bit of an encoded batch and group in turn.
func TestEveryFlippedBitIsRejected(t *testing.T) {
	batch := must.Get(EncodeBatch(sampleBatch()))(t)
	group := must.Get(EncodeGroup(toLeader(t)))(t)
	for name, try := range map[string]struct {
		data   []byte
		decode func([]byte) error
	}{
		"batch": {batch, func(b []byte) error { _, err := DecodeBatch(b); return err }},
		"group": {group, func(b []byte) error { _, err := DecodeGroup(b); return err }},
	} {
		for i := range len(try.data) * 8 {
			bad := bytes.Clone(try.data)
			bad[i/8] ^= 1 << (i % 8)
			if try.decode(bad) == nil {
				t.Fatalf("%s: bit %d flipped unnoticed", name, i)
			}
		}
		for n := range try.data {
			if try.decode(try.data[:n]) == nil {
				t.Fatalf("%s: cut to %d bytes unnoticed", name, n)
			}
		}
	}
}

// framed puts the frame around content.
func framed(frame byte, content ...byte) []byte {
	data, err := seal(append(make([]byte, frameBytes), content...), frame, MaxForwardBytes)
	if err != nil {
		panic(err)
	}
	return data
}

// oneGroup is a batch of one group of one command, given in bytes.
func oneGroup(cmd ...byte) []byte {
	out := append([]byte{1, 1}, bytes.Repeat([]byte{7}, len(BootID{}))...)
	return append(append(out, 0, 0, 1), cmd...)
}

func TestBatchesAreReadStrictly(t *testing.T) {
	const lead = byte(OpLead)
	good := oneGroup(1, lead, 4, 0xa1, 1, 0x61, 'x')
	for name, data := range map[string][]byte{"empty": framed(batchFrame, 1, 0), "one command": framed(batchFrame, good...)} {
		if _, err := DecodeBatch(data); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	noBoot := bytes.Clone(good)
	clear(noBoot[2 : 2+len(BootID{})])
	for name, data := range map[string][]byte{
		"nothing":              {},
		"frame alone":          framed(batchFrame),
		"other version":        framed(9, good...),
		"trailing byte":        framed(batchFrame, append(bytes.Clone(good), 0)...),
		"late stamp":           framed(batchFrame, append(binary.AppendUvarint(nil, MaxStamp+1), 0)...),
		"long number":          framed(batchFrame, 0x81, 0, 0),
		"endless number":       framed(batchFrame, bytes.Repeat([]byte{0xff}, 12)...),
		"too many groups":      framed(batchFrame, binary.AppendUvarint([]byte{1}, MaxBatchGroups+1)...),
		"missing group":        framed(batchFrame, 1, 1),
		"no boot id":           framed(batchFrame, noBoot...),
		"too many commands":    framed(batchFrame, append(bytes.Clone(good[:len(good)-8]), binary.AppendUvarint(nil, MaxGroupCommands+1)...)...),
		"unknown command":      framed(batchFrame, oneGroup(1, 200, 1, 0xa0)...),
		"no payload":           framed(batchFrame, oneGroup(1, lead, 0)...),
		"cut payload":          framed(batchFrame, oneGroup(1, lead, 5, 0xa1, 1, 0x61, 'x')...),
		"payload and a byte":   framed(batchFrame, oneGroup(1, lead, 5, 0xa1, 1, 0x61, 'x', 0)...),
		"payload not UTF-8":    framed(batchFrame, oneGroup(1, lead, 4, 0xa1, 1, 0x61, 0xff)...),
		"unknown key":          framed(batchFrame, oneGroup(1, lead, 6, 0xa2, 1, 0x61, 'x', 2, 1)...),
		"duplicate key":        framed(batchFrame, oneGroup(1, lead, 7, 0xa2, 1, 0x61, 'x', 1, 0x61, 'x')...),
		"indefinite map":       framed(batchFrame, oneGroup(1, lead, 5, 0xbf, 1, 0x61, 'x', 0xff)...),
		"tagged":               framed(batchFrame, oneGroup(1, lead, 5, 0xc1, 0xa1, 1, 0x61, 'x')...),
		"not a map":            framed(batchFrame, oneGroup(1, lead, 1, 1)...),
		"huge array":           framed(batchFrame, oneGroup(1, byte(OpPublish), 7, 0xa1, 7, 0x9a, 0xff, 0xff, 0xff, 0xff)...),
		"larger than any log":  framed(batchFrame, bytes.Repeat([]byte{1}, MaxEncodedBytes)...),
		"a short boot id":      framed(batchFrame, oneGroup(1, byte(OpAddUsage), 4, 0xa1, 1, 0x41, 7)...),
		"open above the floor": framed(batchFrame, append(append([]byte{1, 1}, bytes.Repeat([]byte{7}, len(BootID{}))...), 3, 1, 3, 0)...),
	} {
		check.Fails(DecodeBatch(data))(t, "%s: decode", name)
	}
}

// TestLeaderChecksWhatIsForwarded holds that an invalid payload does not get past a leader,
// and that payloads are not checked again after that.
func TestLeaderChecksWhatIsForwarded(t *testing.T) {
	g := toLeader(t)
	bad := samplePublish()
	bad.Title = ""
	g.Commands[0].Payload, g.Commands[0].Data = bad, nil
	check.Fails(Encode(bad))(t, "encoded where it comes in")
	data := must.Get(EncodeGroup(g))(t)
	if _, err := DecodeGroup(data); err == nil || !strings.Contains(err.Error(), "title") {
		t.Errorf("at the leader: %v", err)
	}
	data = must.Get(EncodeBatch(Batch{Groups: []Group{g}}))(t)
	check.Err(t, check.Last(DecodeBatch(data)), nil, "a state machine rejects what it can read")
}

func TestGroupsAreReadStrictly(t *testing.T) {
	g := toLeader(t)
	good := must.Get(EncodeGroup(g))(t)
	from := g.Commands[0].From
	content := good[frameBytes:]
	tail := len(content) - (1 + 1 + len(from.Fingerprint) + 1 + len(from.AgentKey))
	edit := func(change func([]byte) []byte) []byte { return framed(groupFrame, change(bytes.Clone(content))...) }
	for name, data := range map[string][]byte{
		"no sender":         edit(func(b []byte) []byte { return b[:tail] }),
		"cut sender":        edit(func(b []byte) []byte { return b[:len(b)-1] }),
		"something follows": edit(func(b []byte) []byte { return append(b, 0) }),
		"unknown flags":     edit(func(b []byte) []byte { b[tail] = 2; return b }),
		"not UTF-8":         edit(func(b []byte) []byte { b[tail+2] = 0xff; return b }),
		"long sender": edit(func(b []byte) []byte {
			return append(appendBytes(append(b[:tail], 0), strings.Repeat("x", MaxNameKeyBytes+1)), 0)
		}),
	} {
		check.Fails(DecodeGroup(data))(t, "%s: decode", name)
	}
}

func TestEncodeRejectsTooMuch(t *testing.T) {
	g := Group{Boot: BootID{1}}
	for i := range 30 {
		p := samplePublish()
		p.Body = strings.Repeat("世", MaxBody)
		g.Commands = append(g.Commands, Command{Seq: uint64(i), Payload: p})
	}
	check.Fails(EncodeBatch(Batch{Groups: []Group{g}}))(t, "encoded a batch over MaxEncodedBytes")
	check.Fails(EncodeGroup(Group{Commands: []Command{{}}}))(t, "encoded a command without a payload")
	check.Fails(Encode(nil))(t, "encoded no payload")
}

// TestSizeIsAnUpperBound holds what queues and batches count with.
func TestSizeIsAnUpperBound(t *testing.T) {
	g := toLeader(t)
	g.Boot, g.Floor = BootID{1}, 1<<64-1
	g.Commands[0].Seq = 1<<64 - 1
	for i := range uint64(MaxOpen) {
		g.Open = append(g.Open, 1<<63+i)
	}
	data, err := g.append(nil, false)
	if err != nil || len(data) > g.Size() {
		t.Errorf("%d bytes, at most %d were announced, %v", len(data), g.Size(), err)
	}
}

// fuzzSeeds are messages of every kind of command.
func fuzzSeeds(f *testing.F) (groups []Group) {
	f.Helper()
	for _, op := range Ops() {
		groups = append(groups, Group{Boot: BootID{1}, Floor: 9, Open: []uint64{1, 5}, Commands: []Command{{Seq: 9, Payload: New(op), From: Sender{AgentKey: "ada"}}}})
	}
	return append(groups, toLeader(f))
}

// The fuzzer cannot guess checksums, so it works below them.
func FuzzDecodeBatch(f *testing.F) {
	for _, g := range fuzzSeeds(f) {
		data := must.Get(EncodeBatch(Batch{Stamp: 1, Groups: []Group{g}}))(f)
		f.Add(data[frameBytes:])
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > MaxEncodedBytes-frameBytes {
			return
		}
		b, err := DecodeBatch(framed(batchFrame, content...))
		if err != nil {
			return
		}
		again, err := EncodeBatch(b)
		if err != nil {
			t.Fatalf("decoded but does not encode: %v", err)
		}
		b2, err := DecodeBatch(again)
		if diff := cmp.Diff(b, b2, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("changed on the way, %v (-first +second):\n%s", err, diff)
		}
	})
}

func FuzzDecodeGroup(f *testing.F) {
	for _, g := range fuzzSeeds(f) {
		data := must.Get(EncodeGroup(g))(f)
		f.Add(data[frameBytes:])
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > MaxEncodedBytes {
			return
		}
		data := framed(groupFrame, content...)
		g, err := DecodeGroup(data)
		if err != nil {
			return
		}
		again := must.Get(EncodeGroup(g))(t)
		check.Equal(t, string(again), string(data), "%+v has two encodings", g)
		if _, err := EncodeBatch(Batch{Groups: []Group{g}}); err != nil && len(content) < MaxBatchBytes {
			t.Fatalf("checked and not fit for a batch: %v", err)
		}
	})
}

// TestEveryTextIsUTF8 holds that no text of any command gets past its check when it is
// not UTF-8: Encode writes it, and what decodes the log does not take it.
func TestEveryTextIsUTF8(t *testing.T) {
	const wrong = "\xff"
	texts := 0
	for _, op := range Ops() {
		p := New(op)
		eachText(reflect.ValueOf(p).Elem(), op.String(), func(name string, text reflect.Value) {
			texts++
			text.SetString(wrong)
			// A check lists all problems, those of the empty fields among them.
			if err := Check(p); err == nil || !strings.Contains(err.Error(), "not UTF-8") && !strings.Contains(err.Error(), "byte 'ÿ'") {
				t.Errorf("%s: %v", name, err)
			}
			text.SetString("")
		})
	}
	if texts == 0 {
		t.Error("no command has a text")
	}
}

// eachText calls f with every string in v; lists get one item for it.
func eachText(v reflect.Value, name string, f func(name string, text reflect.Value)) {
	switch v.Kind() {
	case reflect.String:
		f(name, v)
	case reflect.Struct:
		for i := range v.NumField() {
			eachText(v.Field(i), name+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		eachText(v.Index(0), name+"[0]", f)
		v.SetZero()
	}
}
