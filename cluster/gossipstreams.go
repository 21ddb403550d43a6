package cluster

import (
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/hashicorp/memberlist"
)

const (
	// maxGossipStreams is how many streams of others are served at once. Each node
	// opens one every few seconds, for milliseconds.
	maxGossipStreams = 16
	// maxGossipStream is how many bytes one of them may bring: what hundreds of
	// nodes say about themselves takes a fifth.
	maxGossipStream = 1 << 20
)

// gossipTransport bounds what strangers can make memberlist hold: it reads up to
// 20 MiB of every stream before it knows whether the sender has the key. The time
// of a stream is bounded by memberlist (TCPTimeout).
type gossipTransport struct {
	*memberlist.NetTransport
	streams chan net.Conn
	done    chan struct{} // closed when nothing comes in any more
	relayed sync.WaitGroup

	mu   sync.Mutex
	open []*gossipStream // oldest first
}

var _ memberlist.NodeAwareTransport = (*gossipTransport)(nil)

func newGossipTransport(inner *memberlist.NetTransport) *gossipTransport {
	t := &gossipTransport{NetTransport: inner, streams: make(chan net.Conn), done: make(chan struct{})}
	t.relayed.Go(t.relay)
	return t
}

// StreamCh implements memberlist.Transport.
func (t *gossipTransport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown implements memberlist.Transport. Whoever reads the channels goes on
// until it returns.
func (t *gossipTransport) Shutdown() error {
	err := t.NetTransport.Shutdown()
	close(t.done)
	t.relayed.Wait()
	return err
}

func (t *gossipTransport) relay() {
	for {
		select {
		case conn := <-t.NetTransport.StreamCh():
			t.streams <- t.admit(conn)
		case <-t.done:
			return
		}
	}
}

// admit takes a stream in. When there are too many the oldest one ends: a node's
// takes milliseconds, so that one which is held open does not keep nodes out.
func (t *gossipTransport) admit(conn net.Conn) net.Conn {
	s := &gossipStream{Conn: conn, transport: t, left: maxGossipStream}
	t.mu.Lock()
	var oldest *gossipStream
	if len(t.open) == maxGossipStreams {
		oldest = t.open[0]
		t.open = slices.Delete(t.open, 0, 1)
	}
	t.open = append(t.open, s)
	t.mu.Unlock()
	if oldest != nil {
		_ = oldest.Conn.Close() // whoever reads it closes it again
	}
	return s
}

func (t *gossipTransport) forget(s *gossipStream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.open, s); i >= 0 {
		t.open = slices.Delete(t.open, i, i+1)
	}
}

// gossipStream is a stream of which only so much is read.
type gossipStream struct {
	net.Conn
	transport *gossipTransport
	left      int
}

// Read reads up to the limit. It is called by one goroutine.
func (s *gossipStream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, fmt.Errorf("the stream has more than %d bytes", maxGossipStream)
	}
	n, err := s.Conn.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// Close ends the stream.
func (s *gossipStream) Close() error {
	s.transport.forget(s)
	return s.Conn.Close()
}
