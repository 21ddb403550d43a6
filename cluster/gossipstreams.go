package cluster

import (
	"fmt"
	"net"
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

	open newcomers // a node's stream takes milliseconds, so that one which is held open keeps no node out
}

var _ memberlist.NodeAwareTransport = (*gossipTransport)(nil)

func newGossipTransport(inner *memberlist.NetTransport) *gossipTransport {
	t := &gossipTransport{NetTransport: inner, streams: make(chan net.Conn), done: make(chan struct{}), open: newcomers{most: maxGossipStreams}}
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
			t.open.begin(conn)
			t.streams <- &gossipStream{Conn: conn, transport: t, left: maxGossipStream}
		case <-t.done:
			return
		}
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
	s.transport.open.end(s.Conn)
	return s.Conn.Close()
}
