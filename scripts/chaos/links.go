package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/commons-cluster/commons/internal/freeport"
	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	chunk   = 16 << 10
	queued  = 64 // chunks on their way over one connection in one direction
	cutLook = 20 * time.Millisecond
)

// quality describes the path from one node to another.
type quality struct {
	cut    bool          // data is held back until the cut ends, as TCP does
	delay  time.Duration // of all data
	jitter time.Duration // more delay, up to this
	loss   float64       // share of the data that is lost, and sent again after resendAfter, as TCP does
}

// resendAfter is the least time after which TCP of Linux sends lost data again. Each further
// attempt takes twice as long; longestResend bounds it.
const resendAfter, longestResend = 200 * time.Millisecond, 5 * time.Second

// wait returns the delay of some data.
func (q quality) wait() time.Duration {
	wait := q.delay
	if q.jitter > 0 {
		wait += rand.N(q.jitter)
	}
	for again := resendAfter + 2*q.delay; again < longestResend && rand.Float64() < q.loss; again *= 2 {
		wait += again
	}
	return wait
}

// links are proxies between the private ports of nodes: each node advertises the address
// of its own proxy. Gossip does not use them: nodes still see that others are alive.
type links struct {
	proc procfs.FS
	mu   sync.Mutex
	ways map[[2]string]quality // by from and to
	pids map[string]int
}

// newLinks needs a machine that can tell which process a connection belongs to.
func newLinks() (*links, error) {
	proc, err := procfs.NewDefaultFS()
	return &links{proc: proc, ways: map[[2]string]quality{}, pids: map[string]int{}}, err
}

// add puts a proxy before a node's private port, which the node advertises.
func (l *links) add(ctx context.Context, n *harness.Node) {
	own := harness.Got(freeport.Addr())
	var config net.ListenConfig
	listener := harness.Got(config.Listen(ctx, "tcp", own))
	n.Flags["cluster-advertise"] = own
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.pass(ctx, conn, n.Name, n.Private)
		}
	}()
}

// set changes the quality of the path from one node to another.
func (l *links) set(from, to string, q quality) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ways[[2]string{from, to}] = q
}

func (l *links) way(from, to string) quality {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ways[[2]string{from, to}]
}

// runs records which process runs a node.
func (l *links) runs(node string, pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pids[node] = pid
}

// pass connects an incoming connection to a node.
func (l *links) pass(ctx context.Context, dialed net.Conn, to, addr string) {
	defer dialed.Close()
	from, err := l.dialer(dialed)
	if err != nil {
		return // the other side has closed already, or is not a node
	}
	var dial net.Dialer
	onward, err := dial.DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer onward.Close()
	ended := make(chan struct{}, 2)
	go func() { l.pump(onward, dialed, from, to); ended <- struct{}{} }()
	go func() { l.pump(dialed, onward, to, from); ended <- struct{}{} }()
	<-ended
}

// parcel is data that is to arrive at a given time.
type parcel struct {
	data []byte
	at   time.Time
}

// pump copies data from one side to the other with the quality of the path between them.
func (l *links) pump(dst io.Writer, src io.Reader, from, to string) {
	parcels, broken := make(chan parcel, queued), make(chan struct{})
	go func() {
		defer close(broken)
		for p := range parcels {
			time.Sleep(time.Until(p.at))
			for l.way(from, to).cut {
				time.Sleep(cutLook)
			}
			if _, err := dst.Write(p.data); err != nil {
				return
			}
		}
	}()
	defer func() { close(parcels); <-broken }()
	for {
		data := make([]byte, chunk)
		n, err := src.Read(data)
		if n > 0 {
			select {
			case parcels <- parcel{data[:n], time.Now().Add(l.way(from, to).wait())}:
			case <-broken:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// dialer returns the node whose process has the other end of a connection.
func (l *links) dialer(conn net.Conn) (string, error) {
	port, own := conn.RemoteAddr().(*net.TCPAddr).Port, conn.LocalAddr().(*net.TCPAddr).Port
	sockets, err := l.proc.NetTCP() //nolint:staticcheck // netlink, which replaces it, would take another module
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	pids := maps.Clone(l.pids)
	l.mu.Unlock()
	for _, socket := range sockets {
		if socket.LocalPort != uint64(port) || socket.RemPort != uint64(own) || socket.Inode == 0 {
			continue
		}
		for node, pid := range pids {
			process, err := l.proc.Proc(pid)
			if err != nil {
				continue // it has ended
			}
			if files, _ := process.FileDescriptorTargets(); slices.Contains(files, fmt.Sprintf("socket:[%d]", socket.Inode)) {
				return node, nil
			}
		}
	}
	return "", fmt.Errorf("no node has port %d", port)
}
