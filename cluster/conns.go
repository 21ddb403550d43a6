package cluster

import (
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxConnsPerPeer bounds the connections that one server may hold to this one.
// Raft pools a few and HTTP/2 needs one or two.
const MaxConnsPerPeer = 256

// conn is the raw connection under TLS on the private port.
type conn struct {
	net.Conn
	set     *connSet
	inbound bool

	// Set under set.mu when the handshake is done.
	peer      string        // server id
	heard     *atomic.Int64 // of the peer, see connSet
	cluster   string        // cluster id of the peer's certificate, empty if it names no cluster
	protocol  string
	peerKeyID string // secret of the peer's certificate
	ownKeyID  string // secret of our certificate
	via       any    // HTTP transport that it belongs to
}

// Read notes when the peer was last heard.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.heard != nil {
		c.heard.Store(int64(time.Since(c.set.begun)))
	}
	return n, err
}

func (c *conn) Close() error {
	c.set.remove(c)
	return c.Conn.Close()
}

// connSet holds every connection of a port.
type connSet struct {
	begun time.Time

	mu     sync.Mutex
	conns  map[*conn]struct{}
	heard  map[string]*atomic.Int64 // when servers were last heard, in nanoseconds since begun, by id
	closed bool
}

func newConnSet() *connSet {
	return &connSet{begun: time.Now(), conns: make(map[*conn]struct{}), heard: make(map[string]*atomic.Int64)}
}

// lastHeard returns when a server was last heard, or the begin of the set.
func (s *connSet) lastHeard(serverID string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.heard[serverID]; at != nil {
		return s.begun.Add(time.Duration(at.Load()))
	}
	return s.begun
}

// add tracks a raw connection. It returns nil if the set is closed.
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

// establish records the peer of a connection. It returns false if the peer has too many
// connections or the connection is already closed.
func (s *connSet) establish(c *conn, note func(*conn)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.conns[c]; !ok {
		return false
	}
	note(c)
	if c.heard = s.heard[c.peer]; c.heard == nil {
		if len(s.heard) >= MaxBookEntries {
			dropOldest(s.heard, func(at *atomic.Int64) int64 { return at.Load() })
		}
		c.heard = new(atomic.Int64)
		s.heard[c.peer] = c.heard
	}
	c.heard.Store(int64(time.Since(s.begun)))
	held := 0
	for other := range s.conns {
		if other.inbound && other.peer == c.peer {
			held++
		}
	}
	return !c.inbound || held <= MaxConnsPerPeer
}

func (s *connSet) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// closeIf closes the established connections that match and returns how many.
func (s *connSet) closeIf(match func(*conn) bool) int {
	found := s.matching(match)
	for _, c := range found {
		_ = c.Close() // it is gone either way
	}
	return len(found)
}

// matching returns the established connections that match.
func (s *connSet) matching(match func(*conn) bool) (found []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.peer != "" && match(c) {
			found = append(found, c)
		}
	}
	return found
}

func (s *connSet) close() {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // it is gone either way
	}
}

// newcomers bounds the connections before their handshake is done. Above the limit it
// closes the oldest: the handshake of a real peer takes milliseconds.
type newcomers struct {
	most int

	mu   sync.Mutex
	open []net.Conn // oldest first
}

func (n *newcomers) begin(c net.Conn) {
	n.mu.Lock()
	var oldest net.Conn
	if len(n.open) >= n.most {
		oldest = n.open[0]
		n.open = slices.Delete(n.open, 0, 1)
	}
	n.open = append(n.open, c)
	n.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // a stranger's
	}
}

func (n *newcomers) end(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.open, c); i >= 0 {
		n.open = slices.Delete(n.open, i, i+1)
	}
}

// handoff is a listener that gets its connections from the port, after the handshake.
type handoff struct {
	addr net.Addr
	ch   chan net.Conn
	done chan struct{}
	once sync.Once
}

func newHandoff(addr net.Addr) *handoff {
	return &handoff{addr: addr, ch: make(chan net.Conn), done: make(chan struct{})}
}

// deliver reports whether Accept took the connection in time.
func (h *handoff) deliver(c net.Conn, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case h.ch <- c:
		return true
	case <-h.done:
		return false
	case <-timer.C:
		return false
	}
}

// Accept returns the next connection; net.ErrClosed after Close.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case <-h.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-h.ch:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return. It is safe to call more than once.
func (h *handoff) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr returns this node's address in the protocol.
func (h *handoff) Addr() net.Addr { return h.addr }

// serverAddr is a server id as a Raft address.
type serverAddr string

func (serverAddr) Network() string { return "commons" }

func (a serverAddr) String() string { return string(a) }
