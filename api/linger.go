package api

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// lingerListener wraps the connections of a listener. Closing it again is no error.
type lingerListener struct {
	net.Listener
	closed func() error
}

func newLingerListener(ln net.Listener) lingerListener {
	return lingerListener{ln, sync.OnceValue(ln.Close)}
}

// Close implements net.Listener.
func (l lingerListener) Close() error { return l.closed() }

// Accept implements net.Listener.
func (l lingerListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lingerConn{Conn: conn}, nil
}

// lingerConn is a connection that, when its request was refused before all of it
// was read, reads on for a moment before it closes. Closing at once would reset
// the connection, and the client would lose the answer that says why.
type lingerConn struct {
	net.Conn
	refused atomic.Bool
}

// Close implements net.Conn.
func (c *lingerConn) Close() error {
	if half, can := c.Conn.(interface{ CloseWrite() error }); can && c.refused.Swap(false) {
		if half.CloseWrite() == nil && c.SetReadDeadline(time.Now().Add(lingerTimeout)) == nil {
			// What is read, and whether reading fails, no longer matters.
			_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
		}
	}
	return c.Conn.Close()
}
