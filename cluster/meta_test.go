package cluster

import (
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func testMeta(id string) Meta {
	return Meta{ServerID: id, NodeName: "n", ClusterAddr: "127.0.0.1:7000", HTTPAddr: "node-1.example:8080", Version: "0.1.0", Expect: 3, Fresh: true}
}

func TestMetaRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-zA-Z0-9._-]{1,63}`)
		want := Meta{
			ServerID: name.Draw(t, "id"), NodeName: name.Draw(t, "name"),
			ClusterAddr: rapid.StringMatching(`[a-z0-9.-]{1,60}:[1-9][0-9]{0,3}`).Draw(t, "addr"),
			Version:     rapid.StringMatching(`[ -~]{0,20}`).Draw(t, "version"),
			ClusterID:   rapid.StringMatching(`([a-z0-9][a-z0-9-]{0,20}[a-z0-9])?`).Draw(t, "cluster"),
			Expect:      rapid.IntRange(0, maxExpect).Draw(t, "expect"),
			Fresh:       rapid.Bool().Draw(t, "fresh"), NonVoter: rapid.Bool().Draw(t, "nonvoter"),
			DiskLow: rapid.Bool().Draw(t, "low"), Slow: rapid.Bool().Draw(t, "slow"), Format: rapid.IntRange(0, maxFormat).Draw(t, "format"),
		}
		data := must.Get(want.Encode())(t)
		got := must.Get(decodeMeta(data))(t)
		check.Equal(t, got, want, "decoded")
	})
}

func TestMetaRejects(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Meta){
		"no server id":      func(m *Meta) { m.ServerID = "" },
		"bad server id":     func(m *Meta) { m.ServerID = "a/b" },
		"bad node name":     func(m *Meta) { m.NodeName = "a b" },
		"no cluster addr":   func(m *Meta) { m.ClusterAddr = "" },
		"no port":           func(m *Meta) { m.ClusterAddr = "host" },
		"port 0":            func(m *Meta) { m.ClusterAddr = "host:0" },
		"bad http addr":     func(m *Meta) { m.HTTPAddr = "host:http" },
		"no host":           func(m *Meta) { m.HTTPAddr = ":80" },
		"long version":      func(m *Meta) { m.Version = strings.Repeat("v", maxVersionLen+1) },
		"control character": func(m *Meta) { m.Version = "1\n2" },
		"cluster id":        func(m *Meta) { m.ClusterID = "a.b" },
		"cluster id dash":   func(m *Meta) { m.ClusterID = "-" },
		"negative expect":   func(m *Meta) { m.Expect = -1 },
	} {
		m := testMeta("n-1")
		spoil(&m)
		check.Fails(m.Encode())(t, "%s: encoded", name)
		body := must.Get(cbor.Marshal(m))(t)
		check.Fails(decodeMeta(append([]byte{metaVersion}, body...)))(t, "%s: decoded", name)
	}
}

func TestMetaTooLong(t *testing.T) {
	t.Parallel()
	m := testMeta("n-1")
	m.ClusterAddr = strings.Repeat("h", 250) + ":7000"
	m.HTTPAddr = strings.Repeat("h", 250) + ":8080"
	_, err := m.Encode()
	if err == nil || !strings.Contains(err.Error(), "at most 512") || !strings.Contains(err.Error(), "shorter host names") {
		t.Fatalf("got %v", err)
	}
}

func TestMetaIgnoresUnknownFields(t *testing.T) {
	t.Parallel()
	body := must.Get(cbor.Marshal(map[int]any{1: "n-1", 2: "n", 3: "h:1", 99: "later"}))(t)
	must.Equal(t, must.Get(decodeMeta(append([]byte{metaVersion}, body...)))(t).ServerID, "n-1", "server id")
	check.Fails(decodeMeta(append([]byte{metaVersion + 1}, body...)))(t, "another version was read")
}

func FuzzDecodeMeta(f *testing.F) {
	full := testMeta("n-1")
	full.ClusterID, full.NonVoter, full.DiskLow, full.Slow, full.Format = "c1", true, true, true, maxFormat
	for _, m := range []Meta{testMeta("n-1"), full} {
		data := must.Get(m.Encode())(f)
		f.Add(data)
		f.Add(data[:len(data)-1])
	}
	f.Add([]byte{})
	f.Add([]byte{metaVersion, 0xbf, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeMeta(data)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatalf("decoded but cannot be encoded: %v", err)
		}
		must.Equal(t, must.Get(decodeMeta(again))(t), m, "decode meta")
	})
}
