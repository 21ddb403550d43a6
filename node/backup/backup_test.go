package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/klauspost/compress/zstd"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// someBackup is a backup of a small state.
func someBackup(t testing.TB) []byte {
	t.Helper()
	m := must.Get(fsm.Open(fsm.Options{Dir: t.TempDir()}))(t)
	defer func() {
		check.Err(t, m.Close(), nil, "close")
	}()
	data := must.Get(command.EncodeBatch(command.Batch{Stamp: 1_700_000_000_000, Groups: []command.Group{{
		Boot: command.BootID{1}, Commands: []command.Command{
			{Seq: 1, Payload: &command.Init{ClusterID: "c0ffee", SealedDataKey: []byte("sealed")}},
			{Seq: 2, Payload: &command.Publish{Agent: "ada", AgentKey: "ada", Kind: command.KindMessage, Title: "Title", Body: "some body"}},
		},
	}}}))(t)
	servers := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1"}}})
	m.FSM().ApplyBatch([]*raft.Log{
		{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: servers},
		{Index: 2, Term: 1, Type: raft.LogCommand, Data: data},
	})
	e := must.Get(m.Export())(t)
	var out bytes.Buffer
	must.Do(t, errors.Join(Write(&out, e, Info{CreatedAt: 5, Node: "n1", Program: "test", SealedUnder: "5ea1"}), e.Close()))
	return out.Bytes()
}

func TestInspect(t *testing.T) {
	data := someBackup(t)
	got := must.Get(Inspect(bytes.NewReader(data)))(t)
	if got.Version != Version || got.CreatedAt != 5 || got.ClusterID != "c0ffee" || got.Node != "n1" || got.Index != 2 || got.Term != 1 ||
		got.Entries != 1 || got.Time != 1_700_000_000_000 || string(got.SealedDataKey) != "sealed" || got.SealedUnder != "5ea1" ||
		got.ContentBytes == 0 || len(got.Rows) != 64 || len(got.Digest) != 64 {
		t.Errorf("%+v", got)
	}
}

// TestEveryChangeIsFound changes what is in the compressed frame, so that zstd's
// own checksum does not help.
func TestEveryChangeIsFound(t *testing.T) {
	decoder := must.Get(zstd.NewReader(nil))(t)
	defer decoder.Close()
	encoder := must.Get(zstd.NewWriter(nil))(t)
	plain := must.Get(decoder.DecodeAll(someBackup(t), nil))(t)
	must.Get(Inspect(bytes.NewReader(encoder.EncodeAll(plain, nil))))(t)
	rows := bytes.LastIndex(plain, []byte(`{"rows"`)) // a restore compares it with the rows
	for at := 0; at < rows; at += 1 + at/50 {
		changed := bytes.Clone(plain)
		changed[at] ^= 4
		if _, err := Inspect(bytes.NewReader(encoder.EncodeAll(changed, nil))); err == nil {
			t.Fatalf("a change at byte %d of %d is not found", at, len(plain))
		}
	}
	longer := encoder.EncodeAll(append(bytes.Clone(plain), '\n'), nil)
	check.Fails(Inspect(bytes.NewReader(longer)))(t, "inspect a backup with something after its end")
	for _, n := range []int{0, 5, len(plain) / 2, len(plain) - 1} {
		check.Fails(Inspect(bytes.NewReader(encoder.EncodeAll(plain[:n], nil))))(t, "a backup cut at %d of %d is whole", n, len(plain))
	}
}

// TestFormat1IsFrozen: what a backup begins and ends with, between which the stream of a
// snapshot stands.
func TestFormat1IsFrozen(t *testing.T) {
	z := must.Get(zstd.NewReader(bytes.NewReader(someBackup(t))))(t)
	defer z.Close()
	plain := must.Get(io.ReadAll(z))(t)
	lines := bytes.Split(bytes.TrimSuffix(plain, []byte("\n")), []byte("\n"))
	got := []string{string(lines[0])}
	for _, line := range [][]byte{lines[1], lines[len(lines)-1][bytes.LastIndexByte(lines[len(lines)-1], '{'):]} {
		var doc map[string]any
		if err := json.Unmarshal(line, &doc); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, strings.Join(slices.Sorted(maps.Keys(doc)), " "))
	}
	want := []string{
		"commons backup",
		"clusterId createdAt digest entries format index node program sealedDataKey sealedUnder stateBytes term time version",
		"rows sha256",
	}
	if Version != 1 || !slices.Equal(got, want) {
		t.Errorf("version %d, %q; want 1, %q. There are such backups, which every version has to read: add a field that may be missing, "+
			"or raise Version and go on reading version 1", Version, got, want)
	}
}

func FuzzInspect(f *testing.F) {
	data := someBackup(f)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := Inspect(bytes.NewReader(data)); err == nil && r.Version != Version {
			t.Error("a backup of another version was read")
		}
	})
}
