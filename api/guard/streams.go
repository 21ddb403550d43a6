package guard

import (
	"net"
	"time"
)

// Stream counts a stream of events that holds so many bytes of its request, as waits are
// counted. It returns false where the client's address has
// as many as it may; where the node has, the oldest of the address with the most end:
// end is called, and must not block. The place is free again when the connection closes.
func (g *Guard) Stream(conn *Conn, client Client, bytes int, end func()) bool {
	w, weight := &g.streams, 1+bytes/waitBytes
	w.mu.Lock()
	fits := w.shares.fits(client, weight)
	w.mu.Unlock()
	if !fits {
		g.metrics.rejected.WithLabelValues("streams").Inc()
		return false
	}
	conn.stream.Store(w.begin(client, false, weight, end))
	return true
}

// Send writes all of p, or fails where the client has not taken it in within a time.
func (c *Conn) Send(p []byte, within time.Duration) error {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	_, err := c.Conn.Write(p)
	if timeout, is := err.(net.Error); is && timeout.Timeout() { //nolint:errorlint // as it is returned
		c.guard.metrics.closed.WithLabelValues("unread").Inc()
	}
	return err
}
