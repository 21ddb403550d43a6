package api

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
)

// listener returns the connections that the guard admits, and retries after a failed
// accept. It may be closed more than once.
type listener struct {
	net.Listener
	srv       *Server
	closed    func() error
	failed    *sample
	rejection []byte      // the response to a connection that is not admitted
	secure    *tls.Config // nil means HTTP in clear
}

func (s *Server) newListener(ln net.Listener, secure *tls.Config) listener {
	failed := &sample{limit: rate.NewLimiter(rate.Every(acceptLogEvery), 1)}
	body := tooManyConnections().Object().AppendJSON(nil)
	rejection := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nRetry-After: %s\r\nConnection: close\r\n\r\n%s",
		http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable), op.ContentJSON, len(body), wire.RetryAfterUnavailable, body)
	if secure != nil {
		rejection = nil // a handshake would cost more than the connection
	}
	return listener{ln, s, sync.OnceValue(ln.Close), failed, rejection, secure}
}

// tooManyConnections returns the error for a connection beyond the limits.
func tooManyConnections() *wire.Error {
	return &wire.Error{Code: wire.CodeNotReady, Message: "Too many connections are open, from your address or in all. Use few, for many requests each, or ask another node."}
}

func (l listener) Close() error { return l.closed() }

// Accept implements net.Listener. Its only error is net.ErrClosed, because the HTTP
// server, and with it the node, ends at any error, and other causes are temporary: for
// example too many open files.
func (l listener) Accept() (net.Conn, error) {
	pause := minAcceptPause
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			pause = minAcceptPause
			addr := peerAddress(conn.RemoteAddr())
			admitted := l.srv.Guard.Admit(conn, addr, l.srv.clients.trusts(addr), l.rejection)
			switch {
			case admitted == nil:
				continue
			case l.secure != nil:
				return admitted.Secure(l.secure), nil
			}
			return admitted, nil
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if left, ok := l.failed.take(time.Now()); ok {
			l.srv.Logger.Warn("a connection could not be accepted; retrying", "error", err, "retry_in", pause, "leftOut", left)
		}
		select {
		case <-l.srv.Waits.Done():
			return nil, net.ErrClosed
		case <-time.After(pause):
		}
		pause = min(2*pause, maxAcceptPause)
	}
}

// connState tells the guard about the states of a connection.
func connState(conn net.Conn, state fasthttp.ConnState) {
	guarded, is := guard.Of(conn)
	switch {
	case is && state == fasthttp.StateActive:
		guarded.Arriving()
	case is && state == fasthttp.StateIdle:
		guarded.Idle()
	}
}

// healthPaths are the paths that are served on reserved connections, when the node is full.
var healthPaths = map[string]bool{"/livez": true, "/readyz": true, "/status": true, "/metrics": true}
