package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// handoff is a listener whose connections come from the port, handshake done.
type handoff struct {
	addr net.Addr
	ch   chan net.Conn
	done chan struct{}
	once sync.Once
}

func newHandoff(addr net.Addr) *handoff {
	return &handoff{addr: addr, ch: make(chan net.Conn), done: make(chan struct{})}
}

// deliver reports whether somebody took the connection in time.
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

// Addr is the address that the protocol knows this node by.
func (h *handoff) Addr() net.Addr { return h.addr }

// serverAddr is a server id as an address: what Raft calls servers by.
type serverAddr string

// Network names the address space.
func (serverAddr) Network() string { return "commons" }

// String is the server id.
func (a serverAddr) String() string { return string(a) }

// isBrokenOff reports whether a handshake ended because the connection did, and
// not because of anything that was said: port checks and dying peers.
func isBrokenOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// explain says in an operator's words why a handshake failed.
func explain(err error) string {
	var unknownCA x509.UnknownAuthorityError
	var notTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &unknownCA):
		return "its certificate comes from another cluster secret"
	case errors.As(err, &notTLS):
		return "it does not speak TLS"
	case strings.HasSuffix(err.Error(), "tls: unknown certificate authority"), strings.HasSuffix(err.Error(), "tls: bad certificate"):
		return "it does not accept this node's certificate: another cluster secret, or another server was meant (" + err.Error() + ")"
	}
	return err.Error()
}
