package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// announced is the beginning of an encrypted stream of 20 MiB, which memberlist
// would read as a whole.
func announced() []byte {
	return binary.BigEndian.AppendUint32([]byte{10}, 20<<20-100)
}

// dialStream opens a stream and sends the data.
func dialStream(t *testing.T, addr string, data []byte) net.Conn {
	t.Helper()
	conn := must.Get(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { _ = conn.Close() })
	must.Get(conn.Write(data))(t)
	return conn
}

// ended reports whether the other side has closed a stream.
func ended(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, err := io.Copy(io.Discard, conn)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// TestGossipStreamIsCut checks the limit on the bytes read from a stranger.
func TestGossipStreamIsCut(t *testing.T) {
	t.Parallel()
	g := startGossip(t, gossipConfig("n1-a", testSecrets(t, "a")))
	conn := dialStream(t, g.Addr(), announced())
	blob := make([]byte, 64<<10)
	sent := 0
	for ; sent < 20<<20-200; sent += len(blob) {
		if _, err := conn.Write(blob); err != nil {
			break
		}
	}
	// The kernel buffers further bytes.
	if sent > 16<<20 {
		t.Errorf("the node took %d bytes", sent)
	}
	await.Eventually(t, "the node says that the stream was too long", func() bool {
		return g.logs.has("the stream has more than 1048576 bytes")
	})
}

// TestGossipStreamsAreFew: of the streams that are held open only the newest stay,
// and one that ends makes room.
func TestGossipStreamsAreFew(t *testing.T) {
	t.Parallel()
	inner := must.Get(memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{"127.0.0.1"}}))(t)
	transport := newGossipTransport(inner)
	t.Cleanup(func() { discardTransport(transport) })
	addr := joinAddr("127.0.0.1", uint16(inner.GetAutoBindPort()))
	var held, served []net.Conn
	for range 3 * maxGossipStreams {
		held = append(held, dialStream(t, addr, nil))
		served = append(served, <-transport.StreamCh())
	}
	newest := 2 * maxGossipStreams
	for i, conn := range held[:newest] {
		await.Eventually(t, fmt.Sprintf("stream %d ends", i), func() bool { return ended(conn) })
	}
	must.Do(t, served[newest].Close())
	held = append(held, dialStream(t, addr, nil))
	<-transport.StreamCh()
	for i, conn := range held[newest+1:] {
		check.Equal(t, ended(conn), false, "stream %d of the newest ones has ended", i+1)
	}
}

// TestGossipGoesOnAmongStrangers: nodes find each other while strangers hold open
// all streams that they can get.
func TestGossipGoesOnAmongStrangers(t *testing.T) {
	t.Parallel()
	secrets := testSecrets(t, "a")
	a := startGossip(t, gossipConfig("n1-a", secrets))
	stop := make(chan struct{})
	var strangers sync.WaitGroup
	t.Cleanup(func() { close(stop); strangers.Wait() })
	for range 3 * maxGossipStreams {
		strangers.Go(func() {
			for {
				if conn, err := net.Dial("tcp", a.Addr()); err == nil {
					_, _ = conn.Write(announced())
					_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
					_, _ = io.Copy(io.Discard, conn)
					_ = conn.Close()
				}
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	b := startGossip(t, gossipConfig("n2-b", secrets, a.Addr()))
	wantMembers(t, a, "n1-a", "n2-b")
	wantMembers(t, b, "n1-a", "n2-b")
}
