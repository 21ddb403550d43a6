package simnet

import (
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// segment is a part of a stream on its way; without data it is the end of the stream.
type segment struct {
	at   time.Time // of its arrival
	held bool      // by a cut, or by a stopped host
	data []byte
}

// half is one direction of a connection.
type half struct {
	mu       sync.Mutex // never held over a wait
	changed  sync.Cond
	segments []segment
	last     time.Time // the newest arrival; later segments do not arrive before it
	readErr  error
	writeErr error
	deadline time.Time // of reads
	timer    *time.Timer
}

func newHalf() *half {
	h := &half{}
	h.changed.L = &h.mu
	return h
}

func (h *half) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed.Broadcast()
}

// fail ends reads and writes with errors, unless they have ended before.
func (h *half) fail(read, write error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readErr == nil {
		h.readErr = read
	}
	if h.writeErr == nil {
		h.writeErr = write
	}
	h.changed.Broadcast()
}

// resume lets the held segments arrive.
func (h *half) resume(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at.Before(h.last) {
		at = h.last
	}
	for i := range h.segments {
		if s := &h.segments[i]; s.held {
			s.held, s.at, h.last = false, at, at
		}
	}
	h.changed.Broadcast()
}

// send puts a segment on its way. Segments behind a held one are held, too.
func (h *half) send(s segment) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.writeErr != nil {
		return h.writeErr
	}
	if s.at.Before(h.last) {
		s.at = h.last
	}
	s.held = s.held || len(h.segments) > 0 && h.segments[len(h.segments)-1].held
	if !s.held {
		h.last = s.at
	}
	if s.data == nil {
		h.writeErr = net.ErrClosed
	}
	h.segments = append(h.segments, s)
	h.changed.Broadcast()
	return nil
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		now := time.Now()
		switch {
		case h.readErr != nil:
			return 0, h.readErr
		case !h.deadline.IsZero() && !now.Before(h.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(h.segments) == 0 || h.segments[0].held:
			h.changed.Wait()
			continue
		}
		s := &h.segments[0]
		switch {
		case now.Before(s.at):
			timer := time.AfterFunc(s.at.Sub(now), h.wake)
			h.changed.Wait()
			timer.Stop()
		case s.data == nil:
			return 0, io.EOF
		default:
			n := copy(p, s.data)
			if s.data = s.data[n:]; len(s.data) == 0 {
				h.segments = h.segments[1:]
			}
			return n, nil
		}
	}
}

func (h *half) setDeadline(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deadline = t
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	if !t.IsZero() && h.readErr == nil {
		h.timer = time.AfterFunc(time.Until(t), h.wake)
	}
	h.changed.Broadcast()
}

// conn is one end of a connection.
type conn struct {
	net           *Net
	from, to      string // hosts
	in, out       *half
	local, remote net.Addr
}

func (c *conn) Read(p []byte) (int, error) { return c.in.read(p) }

func (c *conn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := c.send(slices.Clone(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *conn) send(data []byte) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock() // a link that becomes whole again finds the segment
	wait, lost := c.net.link(c.from, c.to).delay(len(data))
	if lost {
		wait += resendAfter
	}
	return c.out.send(segment{time.Now().Add(wait), c.net.holds(c.from, c.to), data})
}

func (c *conn) Close() error {
	_ = c.send(nil) // closed before, or broken
	c.in.fail(net.ErrClosed, syscall.EPIPE)
	c.in.setDeadline(time.Time{})
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if !c.out.holds() {
		delete(c.net.conns, c)
	}
	return nil
}

// holds reports whether a part of the stream is held.
func (h *half) holds() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.segments) > 0 && h.segments[len(h.segments)-1].held
}

func (c *conn) LocalAddr() net.Addr               { return c.local }
func (c *conn) RemoteAddr() net.Addr              { return c.remote }
func (c *conn) SetDeadline(t time.Time) error     { return c.SetReadDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }
func (*conn) SetWriteDeadline(time.Time) error    { return nil } // writes do not wait
