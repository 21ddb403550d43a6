package guard

import (
	"crypto/tls"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// serveTLS returns the configuration of a server with a certificate for tests.
func serveTLS(t *testing.T) *tls.Config {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	return TLS(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.TLS.Certificates[0], nil })
}

// handshake performs a handshake from an address and returns the errors of both sides.
func handshake(t *testing.T, g *Guard, config *tls.Config, from string, exempt bool) (server, client error) {
	t.Helper()
	ours, theirs := admit(t, g, from, exempt)
	secure := ours.Secure(config).(*tls.Conn)
	done := make(chan error, 1)
	go func() { done <- secure.HandshakeContext(t.Context()) }()
	client = tls.Client(theirs, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context())
	server = <-done
	return server, client
}

// Handshakes over the budget of an address end before they compute. Other addresses and exempt
// ones have theirs.
func TestHandshakeBudget(t *testing.T) {
	now := time.Unix(1000, 0)
	g := New(Limits{Connections: 1000, Handshakes: 1, Now: func() time.Time { return now }})
	config := serveTLS(t)
	succeed := func(from string, exempt bool) {
		t.Helper()
		server, client := handshake(t, g, config, from, exempt)
		check.Err(t, server, nil, "the server's side for %s", from)
		check.Err(t, client, nil, "the client's side for %s", from)
	}
	var most int
	for {
		server, client := handshake(t, g, config, "192.0.2.1", false)
		if server != nil {
			check.Err(t, server, errHandshakes, "the handshake over the budget")
			if client == nil {
				t.Error("a client over the budget has a connection")
			}
			break
		}
		most++
	}
	// A budget may owe a burst.
	if most < handshakeSeconds || most > 2*handshakeSeconds+1 {
		t.Errorf("an address made %d handshakes at once", most)
	}
	succeed("192.0.2.2", false)
	succeed("192.0.2.1", true)
	now = now.Add(2 * handshakeSeconds * time.Second)
	succeed("192.0.2.1", false)
}

// A handshake waits for its turn, and a turn ends with the next read or with the connection.
func TestHandshakeTurns(t *testing.T) {
	g := New(Limits{Connections: 1000})
	config := serveTLS(t)
	hello := func(c *Conn) *tls.ClientHelloInfo { return &tls.ClientHelloInfo{Conn: c} }
	var held []*Conn
	atOnce := g.handshakes.free
	for range atOnce {
		c, _ := admit(t, g, "192.0.2.1", false)
		check.Err(t, takeTurn(hello(c)), nil, "a free turn")
		check.Err(t, takeTurn(hello(c)), nil, "the turn that a connection has")
		held = append(held, c)
	}
	finished := make(chan error, 1)
	go func() {
		server, client := handshake(t, g, config, "192.0.2.2", false)
		if server == nil {
			server = client
		}
		finished <- server
	}()
	await.Eventually(t, "the handshake waits", func() bool {
		g.handshakes.mu.Lock()
		defer g.handshakes.mu.Unlock()
		return len(g.handshakes.waiting) == 1
	})
	must.Do(t, held[0].Close())
	check.Err(t, <-finished, nil, "the handshake after a turn has ended")
	for _, c := range held[1:] {
		must.Do(t, c.SetReadDeadline(past))
		check.Fails(c.Read(make([]byte, 1)))(t, "read from a silent client")
	}
	await.Eventually(t, "all turns are free", func() bool {
		g.handshakes.mu.Lock()
		defer g.handshakes.mu.Unlock()
		return g.handshakes.free == atOnce
	})
}

// Of finds the guarded connection with and without TLS.
func TestOf(t *testing.T) {
	g := New(Limits{Connections: 10})
	c, theirs := admit(t, g, "192.0.2.1", false)
	for name, conn := range map[string]net.Conn{"plain": c, "secure": c.Secure(serveTLS(t))} {
		if found, is := Of(conn); !is || found != c {
			t.Errorf("%s: found %v, %v", name, found, is)
		}
	}
	if _, is := Of(theirs); is {
		t.Error("a connection that was not admitted is guarded")
	}
}
