package guard

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The times and sizes of a connection.
const (
	// writePiece is the number of bytes sent at once, and writeProgress the time for a client to
	// read any of them.
	writePiece    = 64 << 10
	writeProgress = 10 * time.Second
	// writeBuffer is the size of the system's send buffer.
	writeBuffer = 128 << 10
	// lingerTimeout and lingerBytes bound the reading from a client that was rejected in the middle
	// of its request, so that it can read the response.
	lingerTimeout = 2 * time.Second
	lingerBytes   = 1 << 20
	// rejectTimeout bounds the response to a connection that is not served: it fits into the buffer
	// of a new one.
	rejectTimeout = 100 * time.Millisecond
)

// busy and closing are values of Conn.since.
const (
	busy    = 0
	closing = -1
)

// conns are the open connections.
type conns struct {
	holdings
	guard    *Guard
	open     map[*Conn]struct{}
	reserved map[*Conn]struct{} // beyond Limits.Connections
	lingers  chan struct{}
}

func (c *conns) init(g *Guard) {
	c.guard, c.shares = g, newShares(g.limits.AddressConnections)
	c.open, c.reserved = make(map[*Conn]struct{}), make(map[*Conn]struct{})
	c.lingers = make(chan struct{}, lingering)
}

// Connections returns the number of open connections.
func (g *Guard) Connections() int {
	g.conns.mu.Lock()
	defer g.conns.mu.Unlock()
	return len(g.conns.open) + len(g.conns.reserved)
}

// Conn is a connection that was admitted.
type Conn struct {
	net.Conn
	guard   *Guard
	client  Client
	exempt  bool // from the bound of an address
	reserve bool
	// since is the time at which the connection became idle, in nanoseconds, or busy, or closing.
	since   atomic.Int64
	answers atomic.Bool // holds an answer
	arrival atomic.Pointer[Wait]
	stream  atomic.Pointer[Wait] // the place of the stream of events on it
	slow    atomic.Bool          // its request was ended, because it took too long to arrive
	linger  atomic.Bool
	// secure is the connection under TLS, or nil, and turn ends the turn of its handshake.
	secure *tls.Conn
	turn   atomic.Pointer[func()]
	// final is the deadline of the newest Send, zero before the first.
	final time.Time
	// ahead is the byte that was read while the client's call waited, if any.
	ahead []byte
	// joins keeps the next Write in begun, to send it with the one after it; see Join.
	joins bool
	begun *[]byte
}

// beginnings are buffers for Conn.begun that are not in use.
var beginnings = sync.Pool{New: func() any { return new([]byte) }}

// Admit counts a connection and returns it. If it is not admitted, it is answered with
// rejection and closed, and Admit returns nil. Connections of an exempt address, such as
// a trusted proxy's, count only towards the bound of all.
func (g *Guard) Admit(conn net.Conn, addr netip.Addr, exempt bool, rejection []byte) *Conn {
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetWriteBuffer(writeBuffer) // the default does as well
	}
	c := &Conn{Conn: conn, guard: g, client: ClientOf(addr), exempt: exempt}
	c.since.Store(time.Now().UnixNano())
	if g.conns.admit(c) {
		return c
	}
	g.metrics.rejected.WithLabelValues("connections").Inc()
	g.reject(conn, rejection)
	return nil
}

// admit counts a connection. If there is no room, those that have been idle for longest are closed.
func (c *conns) admit(conn *Conn) bool {
	c.mu.Lock()
	var victims []*Conn
	admitted := true
	if !conn.exempt && !c.shares.fits(conn.client, 1) {
		victims = c.idlest(c.open, func(other *Conn) bool { return !other.exempt && other.client == conn.client })
		admitted = victims != nil
	}
	if admitted && len(c.open)-len(victims) >= c.guard.limits.Connections {
		victims = append(victims, c.makeRoom()...)
		if conn.reserve = len(victims) == 0; conn.reserve && len(c.reserved) >= Reserve {
			victims = c.idlest(c.reserved, func(*Conn) bool { return true })
			admitted = victims != nil
		}
	}
	for _, other := range victims {
		c.remove(other)
	}
	switch {
	case !admitted:
	case conn.reserve:
		c.reserved[conn] = struct{}{}
	default:
		c.open[conn] = struct{}{}
		if !conn.exempt {
			c.shares.add(conn.client, 1)
		}
	}
	c.mu.Unlock()
	for _, other := range victims {
		c.guard.metrics.closed.WithLabelValues("idle").Inc()
		_ = other.Conn.Close()
	}
	return admitted
}

// makeRoom chooses connections to close because the node has too many: of the address
// with the most, else of any other, and exempt ones last.
func (c *conns) makeRoom() []*Conn {
	heaviest := c.shares.heaviest()
	for _, gives := range []func(*Conn) bool{
		func(conn *Conn) bool { return !conn.exempt && conn.client.narrow == heaviest },
		func(conn *Conn) bool { return !conn.exempt },
		func(*Conn) bool { return true },
	} {
		if victims := c.idlest(c.open, gives); victims != nil {
			return victims
		}
	}
	return nil
}

// idlest returns some of the connections that have been idle for longest, and marks them as closing.
// Connections with a running call are left out.
func (c *conns) idlest(among map[*Conn]struct{}, gives func(*Conn) bool) (victims []*Conn) {
	type idle struct {
		conn  *Conn
		since int64
	}
	var found []idle
	for conn := range among {
		if since := conn.since.Load(); since > busy && gives(conn) {
			found = append(found, idle{conn, since})
		}
	}
	slices.SortFunc(found, func(a, b idle) int { return int(a.since - b.since) })
	for _, one := range found {
		if len(victims) >= batch(len(found)) {
			break
		}
		if one.conn.since.CompareAndSwap(one.since, closing) {
			victims = append(victims, one.conn)
		}
	}
	return victims
}

func (c *conns) remove(conn *Conn) {
	delete(c.reserved, conn)
	if _, is := c.open[conn]; is {
		delete(c.open, conn)
		if !conn.exempt {
			c.shares.add(conn.client, -1)
		}
	}
}

// reject answers a connection that is not served, and closes it.
func (g *Guard) reject(conn net.Conn, rejection []byte) {
	_ = conn.SetDeadline(time.Now().Add(rejectTimeout))
	_, _ = conn.Write(rejection) // who does not get it sees that it is closed
	select {
	case g.conns.lingers <- struct{}{}:
		go func() {
			defer func() { <-g.conns.lingers }()
			drain(conn)
			_ = conn.Close()
		}()
	default:
		_ = conn.Close()
	}
}

// drain half-closes a connection and reads on for a moment. Closing at once would reset it, and the
// client would lose the response that explains the rejection.
func drain(conn net.Conn) {
	half, can := conn.(interface{ CloseWrite() error })
	if can && half.CloseWrite() == nil && conn.SetReadDeadline(time.Now().Add(lingerTimeout)) == nil {
		// The bytes and errors no longer matter.
		_, _ = io.CopyN(io.Discard, conn, lingerBytes)
	}
}

// Arriving notes that a request has begun to arrive. Where too many do, reading the one
// that has taken the longest fails.
func (c *Conn) Arriving() {
	c.Idle()
	c.slow.Store(false)
	c.arrival.Store(c.guard.arrivals.begin(c.client, c.exempt, 1, func() {
		c.slow.Store(true)
		_ = c.SetReadDeadline(past) // fails on a closed connection
	}))
}

// arrived ends the count of an arriving request.
func (c *Conn) arrived() {
	if arrival := c.arrival.Swap(nil); arrival != nil {
		arrival.Done()
	}
}

// Slow reports whether reading failed because too many requests were arriving.
func (c *Conn) Slow() bool { return c.slow.Load() }

// SetReadDeadline implements net.Conn. A request that is too slow stays so.
func (c *Conn) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	if c.slow.Load() { // after it: the request may have been ended meanwhile
		err = c.Conn.SetReadDeadline(past)
	}
	return err
}

// past is a deadline that ends a running read.
var past = time.Unix(1, 0)

// Begin notes that a call runs. It reports whether it may: the connection may be closing already.
func (c *Conn) Begin() bool {
	c.arrived()
	c.slow.Store(false) // it arrived in time after all
	for {
		since := c.since.Load()
		if since == closing {
			return false
		}
		if c.since.CompareAndSwap(since, busy) {
			c.joins = false
			return true
		}
	}
}

// Idle notes that a call was answered.
func (c *Conn) Idle() {
	c.guard.answers.sent(c)
	for {
		since := c.since.Load()
		if since == closing || c.since.CompareAndSwap(since, time.Now().UnixNano()) {
			return
		}
	}
}

// Reserved reports whether the connection is one of those that are kept for health.
func (c *Conn) Reserved() bool { return c.reserve }

// Linger has Close read on for a moment first: the client was rejected in the middle of its request.
func (c *Conn) Linger() { c.linger.Store(true) }

// Watch reads ahead while the client's call waits: ended is closed when the client leaves, or has
// sent more. Bytes that were read are kept. The caller calls stop before anybody else reads from c.
func (c *Conn) Watch() (ended <-chan struct{}, stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	if len(c.ahead) > 0 || c.SetReadDeadline(time.Time{}) != nil {
		close(end)
		return end, func() {}
	}
	go func() {
		defer close(done)
		one := make([]byte, 1)
		n, err := c.Conn.Read(one)
		c.ahead = one[:n]
		if timeout, is := err.(net.Error); err == nil || !is || !timeout.Timeout() { //nolint:errorlint // as it is returned
			close(end)
		}
	}()
	return end, func() {
		_ = c.SetReadDeadline(past) // fails on a closed connection: so did Read
		<-done
	}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.endTurn()
	if len(c.ahead) > 0 && len(p) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// Join declares that the response is longer than the server's buffer, so that there will be at least
// two writes. The first one is sent together with the second. That saves a system call of the node
// and a wake-up of the client. The caller must be sure.
func (c *Conn) Join() { c.joins = true }

// Write implements net.Conn. It continues as long as the client reads, however slowly,
// and others do not need the room (see Guard.Answer).
func (c *Conn) Write(p []byte) (written int, err error) {
	if c.joins && c.begun == nil {
		c.joins = false
		c.begun, _ = beginnings.Get().(*[]byte)
		*c.begun = append((*c.begun)[:0], p...)
		return len(p), nil
	}
	var begun []byte
	if c.begun != nil {
		begun = *c.begun
		defer beginnings.Put(c.begun)
	}
	c.joins, c.begun = false, nil
	for len(begun)+len(p) > 0 {
		deadline := c.final
		if deadline.IsZero() {
			deadline = time.Now().Add(writeProgress)
		}
		if err := c.Conn.SetWriteDeadline(deadline); err != nil {
			return written, err
		}
		n, err := c.send(begun, p[:min(len(p), writePiece)])
		kept := min(n, len(begun))
		begun = begun[kept:]
		written, p = written+n-kept, p[n-kept:]
		if timeout, is := err.(net.Error); err != nil && (n == 0 || !c.final.IsZero() || !is || !timeout.Timeout()) { //nolint:errorlint // as it is returned
			return written, err
		}
	}
	return written, nil
}

// send writes two pieces, with one system call where that can be.
func (c *Conn) send(begun, p []byte) (int, error) {
	if len(begun) == 0 {
		return c.Conn.Write(p)
	}
	pieces := net.Buffers{begun, p}
	n, err := pieces.WriteTo(c.Conn)
	return int(n), err
}

// SetWriteDeadline implements net.Conn: Write sets its own.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

// kill closes the connection at once, whatever is left to send.
func (c *Conn) kill() {
	c.since.Store(closing)
	if tcp, is := c.Conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.Close()
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.arrived()
	c.endTurn()
	if place := c.stream.Swap(nil); place != nil {
		place.Done()
	}
	if c.linger.Swap(false) {
		drain(c.Conn)
	}
	c.guard.answers.sent(c)
	c.guard.conns.mu.Lock()
	c.guard.conns.remove(c)
	c.guard.conns.mu.Unlock()
	return c.Conn.Close()
}
