package simnet

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

const (
	east, west = "127.0.0.1", "127.0.0.2"
	door       = west + ":80"
)

// connected returns both ends of a connection from east to west.
func connected(t *testing.T, n *Net) (client, server net.Conn) {
	t.Helper()
	l, err := n.Host(west).Listen(t.Context(), "tcp", door)
	must.Do(t, err)
	t.Cleanup(func() { _ = l.Close() })
	client = must.Get(n.Host(east).DialContext(t.Context(), "tcp", door))(t)
	server = must.Get(l.Accept())(t)
	return client, server
}

// read reads n bytes, and fails the test unless they are want and come after a time.
func read(t *testing.T, c io.Reader, want string, after time.Duration) {
	t.Helper()
	begun := time.Now()
	got := make([]byte, len(want))
	must.Get(io.ReadFull(c, got))(t)
	check.Equal(t, string(got), want, "read %q", got)
	if took := time.Since(begun); took < after || took > after+time.Second {
		t.Errorf("%q took %v, want about %v", want, took, after)
	}
}

func write(t *testing.T, c io.Writer, text string) {
	t.Helper()
	must.Get(io.WriteString(c, text))(t)
}

func TestStream(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, n *Net, client, server net.Conn){
		"order": func(t *testing.T, n *Net, client, server net.Conn) {
			t.Helper()
			n.Change(east, west, func(l *Link) { l.Loss = 0.5 })
			for _, text := range []string{"a", "b", "c", "d"} {
				write(t, client, text)
			}
			read(t, server, "abcd", shortDelay)
		},
		"a cut holds what is sent": func(t *testing.T, n *Net, client, server net.Conn) {
			t.Helper()
			n.Change(east, west, func(l *Link) { l.Cut = true })
			write(t, client, "held")
			_ = client.Close()
			time.AfterFunc(time.Hour, n.Heal)
			read(t, server, "held", time.Hour)
			check.Err(t, check.Last(server.Read(make([]byte, 1))), io.EOF, "after the end")
		},
		"the other direction of a cut": func(t *testing.T, n *Net, client, server net.Conn) {
			t.Helper()
			n.Change(east, west, func(l *Link) { l.Cut = true })
			write(t, server, "back")
			read(t, client, "back", shortDelay)
		},
		"a stopped receiver": func(t *testing.T, n *Net, client, server net.Conn) {
			t.Helper()
			n.Stop(west)
			write(t, client, "held")
			time.AfterFunc(time.Hour, func() { n.Continue(west) })
			read(t, server, "held", time.Hour)
		},
		"a stopped sender": func(t *testing.T, n *Net, client, server net.Conn) {
			t.Helper()
			n.Stop(east)
			write(t, client, "held")
			time.AfterFunc(time.Hour, func() { n.Continue(east) })
			read(t, server, "held", time.Hour)
		},
		"a stopped host at a cut": func(t *testing.T, n *Net, client, server net.Conn) {
			t.Helper()
			n.Change(east, west, func(l *Link) { l.Cut = true })
			n.Stop(west)
			write(t, client, "held")
			time.AfterFunc(time.Minute, n.Heal)
			time.AfterFunc(time.Hour, func() { n.Continue(west) })
			read(t, server, "held", time.Hour)
			n.Change(east, west, func(l *Link) { l.Cut = true })
			n.Stop(west)
			write(t, client, "held")
			time.AfterFunc(time.Minute, func() { n.Continue(west) })
			time.AfterFunc(time.Hour, n.Heal)
			read(t, server, "held", time.Hour)
		},
		"rate": func(t *testing.T, n *Net, client, server net.Conn) {
			t.Helper()
			n.Change(east, west, func(l *Link) { l.Rate = 1 })
			write(t, client, "slow")
			read(t, server, "slow", 4*time.Second)
		},
		"deadline": func(t *testing.T, _ *Net, client, _ net.Conn) {
			t.Helper()
			_ = client.SetDeadline(time.Now().Add(time.Minute))
			check.Err(t, check.Last(client.Read(make([]byte, 1))), os.ErrDeadlineExceeded, "read")
		},
		"reset": func(t *testing.T, n *Net, client, server net.Conn) {
			t.Helper()
			n.Reset(west, "")
			for _, c := range []net.Conn{client, server} {
				check.Err(t, check.Last(c.Read(make([]byte, 1))), syscall.ECONNRESET, "read")
			}
		},
		"close": func(t *testing.T, _ *Net, client, server net.Conn) {
			t.Helper()
			_ = client.Close()
			check.Err(t, check.Last(client.Read(make([]byte, 1))), net.ErrClosed, "read")
			check.Err(t, check.Last(server.Read(make([]byte, 1))), io.EOF, "read at the other end")
			check.Err(t, check.Last(server.Write([]byte("x"))), syscall.EPIPE, "write at the other end")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := New(1)
				client, server := connected(t, n)
				test(t, n, client, server)
			})
		})
	}
}

func TestDial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		check.Err(t, check.Last(n.Host(east).DialContext(t.Context(), "tcp", door)), syscall.ECONNREFUSED, "without a listener")
		n.Change(west, east, func(l *Link) { l.Cut = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		check.Err(t, check.Last(n.Host(east).DialContext(ctx, "tcp", door)), context.DeadlineExceeded, "over a cut")
		n.Heal()
		n.Stop(west)
		connected(t, n)
		n.Stop(east)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		check.Err(t, check.Last(n.Host(east).DialContext(ctx, "tcp", door)), context.DeadlineExceeded, "from a stopped host")
	})
}

func TestPackets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		from := must.Get(n.Host(east).Packets(netip.MustParseAddrPort(east + ":7946")))(t)
		to := must.Get(n.Host(west).Packets(netip.MustParseAddrPort(west + ":7946")))(t)
		for _, tt := range []struct {
			what string
			do   func()
			want int
		}{
			{"a cut", func() { n.Change(east, west, func(l *Link) { l.Cut = true }) }, 0},
			{"a stopped host", func() { n.Heal(); n.Stop(west) }, 0},
			{"a whole link", func() { n.Continue(west) }, 1},
		} {
			tt.do()
			must.Get(from.WriteTo([]byte{1}, west+":7946"))(t)
			time.Sleep(time.Second)
			check.Equal(t, len(to.PacketCh()), tt.want, "%s: packets", tt.what)
		}
		for _, transport := range []interface{ Shutdown() error }{from, to} {
			check.Err(t, transport.Shutdown(), nil, "shutdown")
		}
	})
}
