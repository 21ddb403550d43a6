package cluster

import (
	"maps"
	"net"
	"slices"
	"sync"
)

// MaxConnsPerPeer bounds the connections that one server may hold to this one.
// Raft pools a few and HTTP/2 needs one or two.
const MaxConnsPerPeer = 256

// conn is the raw side of one connection of the private port. TLS runs over it,
// so closing it ends whatever uses the connection at once.
type conn struct {
	net.Conn
	set     *connSet
	inbound bool

	// Set under set.mu when the handshake is done.
	peer      string // server id
	cluster   string // the peer's cluster id, as its certificate says; "" for none
	protocol  string
	peerKeyID string // secret of the peer's certificate
	ownKeyID  string // secret of our certificate
	via       any    // HTTP transport that it belongs to
}

// Close closes the connection and forgets it.
func (c *conn) Close() error {
	c.set.remove(c)
	return c.Conn.Close()
}

// connSet knows every connection of a port.
type connSet struct {
	mu      sync.Mutex
	conns   map[*conn]struct{}
	inbound map[string]int // established, by server id
	closed  bool
}

func newConnSet() *connSet {
	return &connSet{conns: make(map[*conn]struct{}), inbound: make(map[string]int)}
}

// add tracks a raw connection, or returns nil when the set is closed.
func (s *connSet) add(raw net.Conn, inbound bool) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	c := &conn{Conn: raw, set: s, inbound: inbound}
	s.conns[c] = struct{}{}
	return c
}

// establish notes whom a connection leads to. It reports false when the peer
// has too many connections or the connection is closed by now.
func (s *connSet) establish(c *conn, note func(*conn)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.conns[c]; !ok {
		return false
	}
	note(c)
	if !c.inbound {
		return true
	}
	if s.inbound[c.peer] >= MaxConnsPerPeer {
		c.peer = "" // was not counted
		return false
	}
	s.inbound[c.peer]++
	return true
}

func (s *connSet) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.conns[c]; !ok {
		return
	}
	delete(s.conns, c)
	if !c.inbound || c.peer == "" {
		return
	}
	if s.inbound[c.peer]--; s.inbound[c.peer] == 0 {
		delete(s.inbound, c.peer)
	}
}

// closeIf closes the established connections that match and returns how many.
func (s *connSet) closeIf(match func(*conn) bool) int {
	s.mu.Lock()
	var found []*conn
	for c := range s.conns {
		if c.peer != "" && match(c) {
			found = append(found, c)
		}
	}
	s.mu.Unlock()
	for _, c := range found {
		_ = c.Close() // it is gone either way
	}
	return len(found)
}

// has reports whether an established connection matches.
func (s *connSet) has(match func(*conn) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.peer != "" && match(c) {
			return true
		}
	}
	return false
}

// close closes all connections and takes no more.
func (s *connSet) close() {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // it is gone either way
	}
}

// handshakes bounds the connections whose peer is not known yet. When it is
// full the oldest has to go: a real peer is through in milliseconds, so those
// that linger are the ones to lose.
type handshakes struct {
	mu      sync.Mutex
	waiting []*conn // oldest first
}

func (h *handshakes) begin(c *conn) {
	h.mu.Lock()
	var oldest *conn
	if len(h.waiting) >= MaxHandshakes {
		oldest = h.waiting[0]
		h.waiting = h.waiting[1:]
	}
	h.waiting = append(h.waiting, c)
	h.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // a stranger's
	}
}

func (h *handshakes) end(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.waiting, c); i >= 0 {
		h.waiting = slices.Delete(h.waiting, i, i+1)
	}
}
