package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// lingerListener wraps the connections of a listener, and goes on after it could
// not take one. Closing it again is no error.
type lingerListener struct {
	net.Listener
	ctx    context.Context // ends with the server
	closed func() error
	log    *slog.Logger
	failed *sample
}

func newLingerListener(ctx context.Context, ln net.Listener, log *slog.Logger) lingerListener {
	failed := &sample{limit: rate.NewLimiter(rate.Every(acceptLogEvery), 1)}
	return lingerListener{ln, ctx, sync.OnceValue(ln.Close), log, failed}
}

// Close implements net.Listener.
func (l lingerListener) Close() error { return l.closed() }

// Accept implements net.Listener. Its only error is that the listener is closed: the
// HTTP server ends at any other, and with it the node, although what keeps a
// connection from being taken, such as too many open files, passes.
func (l lingerListener) Accept() (net.Conn, error) {
	for pause := minAcceptPause; ; pause = min(2*pause, maxAcceptPause) {
		conn, err := l.Listener.Accept()
		if err == nil {
			return &lingerConn{Conn: conn}, nil
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if left, ok := l.failed.take(time.Now()); ok {
			l.log.Warn("a connection could not be taken; it is tried again", "error", err, "retry_in", pause, "leftOut", left)
		}
		select {
		case <-l.ctx.Done():
			return nil, net.ErrClosed
		case <-time.After(pause):
		}
	}
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
