package consensus

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/internal/check"
)

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
	l := NewLogger(to, ending.Load)
	l.Debug("too fine")
	l.Trace("far too fine")
	l.Info("entering leader state", "leader", described{})
	l.With("id", 7).Named("x").Warn("failed", "servers", hclog.Fmt("%+v|%d", []string{"a"}, 3), "node", described{})
	l.StandardLogger(nil).Print("plain\n")
	// Whenever a cluster is formed.
	l.Warn("no known peers, aborting election")
	l.Warn("heartbeat timeout reached, starting election", "last-leader-addr", raft.ServerAddress(""), "last-leader-id", raft.ServerID(""))
	l.Warn("heartbeat timeout reached, starting election", "last-leader-addr", raft.ServerAddress("a"), "last-leader-id", raft.ServerID("a"))
	l.Warn("failed to get previous log", "previous-index", uint64(1), "last-index", uint64(0), "error", raft.ErrLogNotFound)
	l.Error("failed to take snapshot", "error", raft.ErrNothingNewToSnapshot)
	l.Error("failed to take snapshot", "error", raft.ErrRaftShutdown)
	// A closed connection is an error until the node closes its connections.
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
		`level=INFO msg="no known peers, aborting election" node=n1 part=raft`,
		`level=INFO msg="heartbeat timeout reached, starting election" node=n1 part=raft last-leader-addr="" last-leader-id=""`,
		`level=WARN msg="heartbeat timeout reached, starting election" node=n1 part=raft last-leader-addr=a last-leader-id=a`,
		`level=INFO msg="failed to get previous log" node=n1 part=raft previous-index=1 last-index=0 error="log not found"`,
		`level=ERROR msg="failed to take snapshot" node=n1 part=raft error="raft is already shutdown"`,
		`level=ERROR msg="failed to read" node=n1 part=raft error="read: use of closed network connection"`,
		`level=ERROR msg="failed to write" node=n1 part=raft error="short write"`,
	}, "\n") + "\n"
	check.Equal(t, out.String(), want, "logged")
	if l.IsDebug() || !l.IsInfo() || l.GetLevel() != hclog.Info {
		t.Error("the level is not that of the logger below")
	}
}
