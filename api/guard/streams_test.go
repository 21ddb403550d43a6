package guard

import (
	"net"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
)

// TestSendGivesUp holds that Send fails if the client does not read.
func TestSendGivesUp(t *testing.T) {
	g := New(Limits{Connections: 4})
	client, server := net.Pipe()
	defer client.Close()
	conn := g.Admit(server, addr("192.0.2.1"), false, nil)
	if conn == nil {
		t.Fatal("not admitted")
	}
	defer conn.Close()
	check.Fails(conn.Send([]byte("hello"), time.Millisecond))(t, "sent to nobody")
	go func() { _, _ = client.Read(make([]byte, 8)) }()
	check.Err(t, conn.Send([]byte("hello"), time.Minute), nil, "send")
}

// TestStreamPlaces: an address has so many, a full node ends the oldest of whoever has
// the most, and a connection that closes gives its place back.
func TestStreamPlaces(t *testing.T) {
	g := New(Limits{Connections: 16, Streams: 3, AddressStreams: 2})
	ended := 0
	open := func(client Client) (*Conn, bool) {
		_, server := net.Pipe()
		conn := g.Admit(server, client.narrow.Addr(), false, nil)
		return conn, g.Stream(conn, client, 0, func() { ended++ })
	}
	one, two := ClientOf(addr("192.0.2.1")), ClientOf(addr("192.0.2.2"))
	first, ok := open(one)
	_, ok2 := open(one)
	if !ok || !ok2 {
		t.Fatal("an address cannot have two")
	}
	if _, ok := open(one); ok || ended > 0 {
		t.Errorf("an address has three, %d ended", ended)
	}
	check.Err(t, first.Close(), nil, "close")
	if _, ok := open(one); !ok || ended > 0 {
		t.Errorf("the place of one that closed is not free, %d ended", ended)
	}
	_, ok = open(two)
	if _, ok2 := open(two); !ok || !ok2 || ended != 1 {
		t.Errorf("another address: %v %v, %d ended", ok, ok2, ended)
	}
}
