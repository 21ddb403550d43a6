package guard

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// admit admits one end of a pipe and returns both.
func admit(t *testing.T, g *Guard, from string, exempt bool) (*Conn, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close(); _ = theirs.Close() })
	return g.Admit(ours, addr(from), exempt, nil), theirs
}

// isClosed reports whether the client's end is closed.
func isClosed(t *testing.T, theirs net.Conn) bool {
	t.Helper()
	if err := theirs.SetReadDeadline(time.Now().Add(5 * time.Millisecond)); err != nil {
		return true
	}
	_, err := theirs.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestClientOf(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true},
		{"2001:db8:1:2::1", "2001:db8:1:3::1", false},
	} {
		check.Equal(t, ClientOf(addr(tt.a)).narrow == ClientOf(addr(tt.b)).narrow, tt.same, "%s and %s count as one", tt.a, tt.b)
	}
	check.Equal(t, ClientOf(addr("2001:db8:1:2::1")).wide, ClientOf(addr("2001:db8:1:3::1")).wide, "two /64 of one /48 have nothing in common")
}

// An address at its bound loses its own idle connections, and never one with a call.
func TestAddressConnections(t *testing.T) {
	g := New(Limits{Connections: 100, AddressConnections: 2})
	first, firstEnd := admit(t, g, "192.0.2.1", false)
	second, secondEnd := admit(t, g, "192.0.2.1", false)
	_, otherEnd := admit(t, g, "192.0.2.2", false)
	first.Begin()
	if third, _ := admit(t, g, "192.0.2.1", false); third == nil || !third.Begin() {
		t.Fatal("an address with an idle connection got no other")
	}
	if isClosed(t, firstEnd) || !isClosed(t, secondEnd) || isClosed(t, otherEnd) {
		t.Error("another one than its idle connection was closed")
	}
	check.Equal(t, second.Begin(), false, "a call runs on a connection that is closing")
	if fourth, _ := admit(t, g, "192.0.2.1", false); fourth != nil {
		t.Error("a connection above the bound was admitted beside two with calls")
	}
	must.Do(t, first.Close())
	if again, _ := admit(t, g, "192.0.2.1", false); again == nil {
		t.Error("no connection is admitted after another was closed")
	}
	for range 5 {
		if proxy, _ := admit(t, g, "192.0.2.3", true); proxy == nil || !proxy.Begin() {
			t.Fatal("a trusted proxy is bounded like an address")
		}
	}
}

func TestWiderNetwork(t *testing.T) {
	g := New(Limits{Connections: 100, AddressConnections: 2})
	admitted := 0
	for _, from := range []string{"2001:db8::1", "2001:db8:0:1::", "2001:db8:0:2::", "2001:db8:0:3::", "2001:db8:0:4::", "2001:db8:0:5::"} {
		for range 2 {
			if conn, _ := admit(t, g, from, false); conn != nil && conn.Begin() {
				admitted++
			}
		}
	}
	check.Equal(t, admitted, wideShare*2, "admitted connections of one /48")
}

// A full node closes idle connections of the address with the most. Without idle ones it keeps some
// connections for health.
func TestFullNode(t *testing.T) {
	g := New(Limits{Connections: 4, AddressConnections: 3})
	var heavy []net.Conn
	for range 3 {
		_, end := admit(t, g, "192.0.2.1", false)
		heavy = append(heavy, end)
	}
	honest, honestEnd := admit(t, g, "192.0.2.2", false)
	late, _ := admit(t, g, "192.0.2.3", false)
	if late == nil || late.Reserved() || isClosed(t, honestEnd) || !isClosed(t, heavy[0]) || isClosed(t, heavy[2]) {
		t.Error("the oldest connection of the address with the most is not what gave way")
	}
	late.Begin()
	honest.Begin()
	for conn := range g.conns.open {
		conn.Begin()
	}
	for i := range Reserve {
		if conn, _ := admit(t, g, "192.0.2.4", false); conn == nil || !conn.Reserved() {
			t.Fatalf("connection %d of the reserve was not admitted", i+1)
		}
	}
	if conn, _ := admit(t, g, "192.0.2.5", false); conn == nil || !conn.Reserved() {
		t.Error("the reserve is full of connections that do nothing")
	}
	if n := len(g.conns.reserved); n > Reserve {
		t.Errorf("%d connections in the reserve, want at most %d", n, Reserve)
	}
}

func TestWaits(t *testing.T) {
	g := New(Limits{Connections: 8, AddressWaits: 2})
	var ended []int
	begin := func(id int, from string) *Wait {
		return g.Wait(ClientOf(addr(from)), 0, func() { ended = append(ended, id) })
	}
	begin(1, "192.0.2.1")
	second := begin(2, "192.0.2.1")
	begin(3, "192.0.2.1")
	second.Done()
	second.Done()
	begin(4, "192.0.2.1")
	begin(5, "192.0.2.2")
	begin(6, "192.0.2.3")
	begin(7, "192.0.2.4")
	if len(ended) != 2 || ended[0] != 1 || ended[1] != 3 {
		t.Errorf("waits %v ended, want 1 (its address has too many) and 3 (all are too many, its address has the most)", ended)
	}
	check.Equal(t, g.waits.count, 4, "counted waits")
}

func TestWaitsOfWiderNetwork(t *testing.T) {
	g := New(Limits{Connections: 1000, AddressWaits: 2})
	ended := 0
	for i := range 20 {
		from := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 7: byte(i)})
		g.Wait(ClientOf(from), 0, func() { ended++ })
	}
	check.Equal(t, ended, 20-wideShare*2, "ended waits")
}

// A wait that holds a long body counts as several.
func TestLongWaits(t *testing.T) {
	g := New(Limits{Connections: 40, AddressWaits: 10})
	var ended []int
	begin := func(id, bytes int, from string) *Wait {
		return g.Wait(ClientOf(addr(from)), bytes, func() { ended = append(ended, id) })
	}
	begin(1, 0, "192.0.2.1")
	begin(2, 5*waitBytes, "192.0.2.1")
	begin(3, 5*waitBytes, "192.0.2.1").Done()
	begin(4, 0, "2001:db8:0:1::1")
	begin(5, 100*waitBytes, "2001:db8:0:2::1")
	if want := []int{1, 2, 4}; !slices.Equal(ended, want) || g.waits.count != 101 {
		t.Errorf("waits %v ended, want %v; %d are counted", ended, want, g.waits.count)
	}
	begin(6, 0, "192.0.2.1").Done()
	if len(ended) != 4 || g.waits.count != 0 || len(g.waits.shares.held) != 0 {
		t.Errorf("waits %v ended; %d are counted, %v", ended, g.waits.count, g.waits.shares.held)
	}
}

// Too many requests that are arriving end the oldest of their address, and those of an
// exempt one are bounded with all others; what has arrived is not counted any more.
func TestArrivals(t *testing.T) {
	g := New(Limits{Connections: 100, AddressArrivals: 2, Arrivals: 5})
	arrive := func(from string, exempt bool) *Conn {
		conn, _ := admit(t, g, from, exempt)
		conn.Arriving()
		return conn
	}
	ended := func(conn *Conn) bool {
		if !conn.Slow() {
			return false
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute)) // as the server does
		_, err := conn.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	first, second, third := arrive("192.0.2.1", false), arrive("192.0.2.1", false), arrive("192.0.2.1", false)
	if !ended(first) || ended(second) || ended(third) {
		t.Error("not the oldest of an address with too many has ended")
	}
	second.Begin()
	if arrive("192.0.2.1", false); ended(third) {
		t.Error("a request that has arrived still counts")
	}
	proxied := []*Conn{arrive("192.0.2.2", true), arrive("192.0.2.2", true), arrive("192.0.2.2", true)}
	check.Equal(t, ended(proxied[0]), false, "an exempt address has the bound of others")
	if arrive("192.0.2.3", false); !ended(proxied[0]) || ended(third) {
		t.Error("not the oldest of the address with the most has ended")
	}
	if proxied[0].Arriving(); ended(proxied[0]) {
		t.Error("the next request on a connection is slow from the start")
	}
}

func TestAnswers(t *testing.T) {
	now := time.Now()
	g := New(Limits{Connections: 100, AnswerBytes: 10 * shortAnswer, AddressAnswerBytes: 6 * shortAnswer, Now: func() time.Time { return now }})
	send := func(from string, bytes int) (*Conn, net.Conn, bool) {
		conn, end := admit(t, g, from, false)
		now = now.Add(time.Millisecond)
		return conn, end, g.Answer(conn, ClientOf(addr(from)), bytes)
	}
	_, slowEnd, fits := send("192.0.2.1", 5*shortAnswer)
	if !fits {
		t.Fatal("the first answer does not fit")
	}
	if _, _, fits := send("192.0.2.1", 2*shortAnswer); fits {
		t.Error("an address may hold more than its bound")
	}
	if _, _, fits := send("192.0.2.1", shortAnswer); !fits {
		t.Error("a short answer does not fit")
	}
	read, _, _ := send("192.0.2.2", 5*shortAnswer)
	if _, _, fits := send("192.0.2.3", 5*shortAnswer); fits {
		t.Error("answers above the bound of the node, and none is slow")
	}
	read.Idle()
	if _, _, fits := send("192.0.2.3", 5*shortAnswer); !fits {
		t.Error("what was sent still counts")
	}
	now = now.Add(answerGrace)
	if _, _, fits := send("192.0.2.4", 5*shortAnswer); !fits || !isClosed(t, slowEnd) {
		t.Error("the answer that has been under way for longest did not give way")
	}
}

// mustEnd fails where a watch does not see its client leave.
func mustEnd(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the client's leaving was not noticed")
	}
}

// TestWatch: what a client sends while its call waits is not lost.
func TestWatch(t *testing.T) {
	g := New(Limits{Connections: 1})
	conn, end := admit(t, g, "192.0.2.1", false)
	ended, stop := conn.Watch()
	stop()
	select {
	case <-ended:
		t.Fatal("the client seems to have left when the watching stopped")
	default:
	}
	ended, stop = conn.Watch()
	go func() { _, _ = end.Write([]byte("abc")) }()
	mustEnd(t, ended)
	stop()
	if ended, stop := conn.Watch(); ended != nil {
		mustEnd(t, ended)
		stop()
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, 3)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "abc" {
		t.Errorf("read %q, %v", got, err)
	}
	ended, stop = conn.Watch()
	_ = end.Close()
	mustEnd(t, ended)
	stop()
}

// An answer that is joined arrives whole and in order, and holds up no other.
func TestJoin(t *testing.T) {
	g := New(Limits{Connections: 1})
	conn, end := admit(t, g, "192.0.2.1", false)
	long := strings.Repeat("long", writePiece)
	read := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		_ = end.SetReadDeadline(time.Now().Add(time.Minute))
		must.Get(io.ReadFull(end, got))(t)
		check.Equal(t, string(got), want, "read %.20q", got)
	}
	write := func(p string) {
		if n, err := conn.Write([]byte(p)); n != len(p) || err != nil {
			t.Errorf("wrote %d of %d, %v", n, len(p), err)
		}
	}
	for range 2 {
		conn.Begin()
		conn.Join()
		write("head")
		if !isSilent(t, end) {
			t.Error("the first write was sent alone")
		}
		go write(long)
		read("head" + long)
		conn.Idle()
	}
	conn.Join()
	conn.Begin()
	go write("short")
	read("short")
}

// isSilent reports whether no byte arrives.
func isSilent(t *testing.T, end net.Conn) bool {
	t.Helper()
	_ = end.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	n, err := end.Read(make([]byte, 1))
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

func TestBudgets(t *testing.T) {
	now := time.Now()
	b := newBudgets(10, time.Second, 30, func() time.Time { return now })
	who := ClientOf(addr("192.0.2.1"))
	b.Use(who, 30)
	check.Equal(t, b.Wait(who), 0, "wait of a client that used its burst")
	b.Use(who, 1000)
	check.Equal(t, b.Wait(who), 3*time.Second, "wait of a client that owes a burst")
	check.Equal(t, b.Wait(ClientOf(addr("192.0.2.2"))), 0, "wait of another client")
	now = now.Add(3 * time.Second)
	check.Equal(t, b.Wait(who), 0, "wait after its wait")
	for i := range 2 * maxBudgets {
		b.Use(ClientOf(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})), 30)
	}
	check.Equal(t, b.narrow.Len(), maxBudgets, "budgets")
	off := newBudgets(Unbounded, time.Second, 3, time.Now)
	off.Use(who, 1000)
	check.Equal(t, off.Wait(who), 0, "a budget that is turned off bounds")
}

// Pages are made in turns of their own, so that one may wait for its lists.
func TestPagesTakeTurns(t *testing.T) {
	g := New(Limits{Connections: 1})
	who := ClientOf(addr("192.0.2.1"))
	for range buildsPerCPU * runtime.GOMAXPROCS(0) {
		_, ok := g.MakePage(t.Context(), time.Minute, who)
		check.Equal(t, ok, true, "a free place is given")
	}
	_, isPage := g.MakePage(t.Context(), time.Nanosecond, who)
	_, isList := g.Build(t.Context(), time.Nanosecond, who)
	check.Equal(t, isPage, false, "one page too many is made")
	check.Equal(t, isList, true, "a list is made")
}

// Addresses take turns to have lists made.
func TestBuilds(t *testing.T) {
	g := New(Limits{Connections: 1})
	var running []func()
	for range buildsPerCPU * runtime.GOMAXPROCS(0) {
		done, ok := g.Build(t.Context(), time.Minute, ClientOf(addr("192.0.2.1")))
		if !ok {
			t.Fatal("a free place is not given")
		}
		running = append(running, done)
	}
	order := make(chan string, 4)
	wait := func(from string, waiting int) {
		go func() {
			if _, ok := g.Build(t.Context(), time.Minute, ClientOf(addr(from))); ok {
				order <- from
			}
		}()
		for n := 0; n != waiting; time.Sleep(time.Millisecond) {
			g.builds.mu.Lock()
			n = 0
			for e := g.builds.lines.Front(); e != nil; e = e.Next() {
				n += len(e.Value.(*line).waiters)
			}
			g.builds.mu.Unlock()
		}
	}
	wait("192.0.2.1", 1)
	wait("192.0.2.1", 2)
	wait("192.0.2.2", 3)
	running[0]()
	first := <-order
	running[1]()
	if second := <-order; first != "192.0.2.1" || second != "192.0.2.2" {
		t.Errorf("turns were %s and %s", first, second)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := g.Build(ended, time.Minute, ClientOf(addr("192.0.2.3"))); ok {
		t.Error("a client that waits no more has its turn")
	}
	if _, ok := g.Build(t.Context(), time.Nanosecond, ClientOf(addr("192.0.2.3"))); ok {
		t.Error("a client that has waited for as long as it may has its turn")
	}
	g.builds.done()
	g.builds.done()
	if g.builds.lines.Len() != 0 || len(g.builds.waiting) != 0 || g.builds.free != 1 {
		t.Errorf("%d lines wait, %d places are free", g.builds.lines.Len(), g.builds.free)
	}
}
