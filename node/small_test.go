package node

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func TestFingerprint(t *testing.T) {
	one, other := []byte("one key"), []byte("another key")
	fp := func(key []byte, addr string) string { return fingerprint(key, netip.MustParseAddr(addr)) }
	same := [][2]string{
		{"192.0.2.1", "::ffff:192.0.2.1"},
		{"2001:db8::1", "2001:db8:0:0:ffff::2"},
		{"fe80::1%eth0", "fe80::1%eth1"},
	}
	for _, s := range same {
		if fp(one, s[0]) != fp(one, s[1]) {
			t.Errorf("%s and %s differ", s[0], s[1])
		}
	}
	for _, s := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8:0:1::1"}} {
		if fp(one, s[0]) == fp(one, s[1]) {
			t.Errorf("%s and %s are the same", s[0], s[1])
		}
	}
	if fp(one, "192.0.2.1") == fp(other, "192.0.2.1") {
		t.Error("the key makes no difference")
	}
	if got := fp(one, "192.0.2.1"); len(got) != 2*fingerprintBytes || strings.Contains(got, "192") {
		t.Errorf("fingerprint %q", got)
	}
}

func TestNameOf(t *testing.T) {
	for id, want := range map[string]string{"n1-abc": "n1", "a-b-c": "a-b", "n1": "n1", "-x": "-x"} {
		if got := nameOf(id); got != want {
			t.Errorf("nameOf(%q) = %q, want %q", id, got, want)
		}
	}
}

type described struct{}

// String implements fmt.Stringer.
func (described) String() string { return "Node at n1 [Leader]" }

func TestRaftLogger(t *testing.T) {
	var out bytes.Buffer
	var ending atomic.Bool
	to := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})).With("node", "n1")
	l := newRaftLogger(to, ending.Load)
	l.Debug("too fine")
	l.Trace("far too fine")
	l.Info("entering leader state", "leader", described{})
	l.With("id", 7).Named("x").Warn("failed", "servers", hclog.Fmt("%+v|%d", []string{"a"}, 3), "node", described{})
	l.StandardLogger(nil).Print("plain\n")
	// What is closed is an error until the node closes it.
	closed := fmt.Errorf("read: %w", net.ErrClosed)
	l.Error("failed to read", "error", closed)
	ending.Store(true)
	l.Error("failed to read", "error", closed)
	l.With("id", 7).Error("failed to read", "error", raft.ErrTransportShutdown)
	l.Error("failed to write", "error", io.ErrShortWrite)
	want := strings.Join([]string{
		`level=INFO msg="entering leader state" node=n1 part=raft leader="Node at n1 [Leader]"`,
		`level=WARN msg=failed node=n1 part=raft id=7 servers=[a]|3 raft="Node at n1 [Leader]"`,
		`level=INFO msg=plain node=n1 part=raft`,
		`level=ERROR msg="failed to read" node=n1 part=raft error="read: use of closed network connection"`,
		`level=ERROR msg="failed to write" node=n1 part=raft error="short write"`,
	}, "\n") + "\n"
	if out.String() != want {
		t.Errorf("logged\n%swant\n%s", out.String(), want)
	}
	if l.IsDebug() || !l.IsInfo() || l.GetLevel() != hclog.Info {
		t.Error("the level is not that of the logger below")
	}
}

func TestLastTerm(t *testing.T) {
	for name, tc := range map[string]struct {
		stats map[string]string
		want  uint64
	}{
		"log after the snapshot":     {map[string]string{"last_log_index": "9", "last_log_term": "4", "last_snapshot_index": "8", "last_snapshot_term": "3"}, 4},
		"an installed snapshot only": {map[string]string{"last_log_index": "0", "last_log_term": "0", "last_snapshot_index": "8", "last_snapshot_term": "3"}, 3},
		"a fresh node":               {map[string]string{"last_log_index": "0", "last_log_term": "0", "last_snapshot_index": "0", "last_snapshot_term": "0"}, 0},
	} {
		if got := lastTerm(tc.stats); got != tc.want {
			t.Errorf("%s: term %d, want %d", name, got, tc.want)
		}
	}
}
