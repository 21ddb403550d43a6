// Package simnet is a network in memory for tests in virtual time (testing/synctest).
// Writers never wait. Bytes arrive after the delay of their link, or once the link is
// whole again. Every delay is longer than zero: a loop over the network lets time pass.
package simnet

import (
	"context"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// shortDelay and longDelay bound the delay of a message on a link that was not changed.
	shortDelay = 200 * time.Microsecond
	longDelay  = 2 * time.Millisecond
	// resendAfter is the pause before a lost segment or a lost request to connect is
	// sent again.
	resendAfter = 200 * time.Millisecond
	// backlog is the number of connections that wait for a listener.
	backlog = 1024
	// firstPort and ports are the ports of the hosts that connect to others.
	firstPort, ports = 10000, 50000
)

// Link is one direction between two hosts.
type Link struct {
	Cut      bool          // holds streams and drops packets
	Min, Max time.Duration // of the delay of a message
	Loss     float64       // share of the messages that are lost; streams send them again
	Rate     int           // bytes in a second; 0 means no limit
}

// Net is a network. Its methods are safe for concurrent use.
type Net struct {
	mu        sync.Mutex // never held over a wait
	seed      uint64
	links     map[[2]string]*link // by from and to
	usual     Link
	stopped   map[string]bool // hosts whose process stands still
	listeners map[string]*listener
	packets   map[string]*packets
	conns     map[*conn]bool
	dialed    int
}

// link is a Link with the random numbers of its delays.
type link struct {
	Link
	rng *rand.Rand
}

// New returns a network. The delays of each of its links follow from the seed.
func New(seed uint64) *Net {
	return &Net{
		seed: seed, usual: Link{Min: shortDelay, Max: longDelay}, links: map[[2]string]*link{}, stopped: map[string]bool{},
		listeners: map[string]*listener{}, packets: map[string]*packets{}, conns: map[*conn]bool{},
	}
}

// link returns a link. The lock is held.
func (n *Net) link(from, to string) *link {
	key := [2]string{from, to}
	l := n.links[key]
	if l == nil {
		sum := fnv.New64a()
		_, _ = sum.Write([]byte(from + ">" + to)) // cannot fail
		l = &link{n.usual, rand.New(rand.NewPCG(n.seed, sum.Sum64()))}
		n.links[key] = l
	}
	return l
}

// delay returns the delay of a message of some bytes, and whether the message is lost.
func (l *link) delay(bytes int) (wait time.Duration, lost bool) {
	wait = l.Min + time.Duration(l.rng.Int64N(int64(l.Max-l.Min)+1))
	if l.Rate > 0 {
		wait += time.Duration(bytes) * time.Second / time.Duration(l.Rate)
	}
	return wait, l.Loss > 0 && l.rng.Float64() < l.Loss
}

// SetUsual sets the properties of links that were not used yet.
func (n *Net) SetUsual(l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.usual = l
}

// Change changes a link. The streams on a link that is whole again continue.
func (n *Net) Change(from, to string, change func(*Link)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.link(from, to).Link)
	n.resume()
}

// Stop holds what a host sends and what is sent to it, as if its process was stopped. Others
// can connect to it: its system accepts connections.
func (n *Net) Stop(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped[host] = true
}

// Continue ends the effect of Stop.
func (n *Net) Continue(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.stopped, host)
	n.resume()
}

// holds reports whether streams from one host to another are held. The lock is held.
func (n *Net) holds(from, to string) bool {
	return n.link(from, to).Cut || n.stopped[from] || n.stopped[to]
}

// resume continues the streams that are held no more. The lock is held.
func (n *Net) resume() {
	for c := range n.conns {
		if !n.holds(c.from, c.to) && c.out.holds() {
			wait, _ := n.link(c.from, c.to).delay(0)
			c.out.resume(time.Now().Add(wait))
		}
	}
}

// Heal makes all links usual ones.
func (n *Net) Heal() {
	n.mu.Lock()
	usual, keys := n.usual, slices.Collect(maps.Keys(n.links))
	n.mu.Unlock()
	for _, key := range keys {
		n.Change(key[0], key[1], func(l *Link) { *l = usual })
	}
}

// Reset breaks the connections between two hosts; b "" means all connections of a.
func (n *Net) Reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.from == a && (c.to == b || b == "") || c.to == a && (c.from == b || b == "") {
			c.in.fail(syscall.ECONNRESET, syscall.ECONNRESET)
			c.out.fail(syscall.ECONNRESET, syscall.ECONNRESET)
		}
	}
}

// Host is the network as one host sees it. Its name is an IP address if ports are used.
type Host struct {
	net  *Net
	name string
}

// Host returns a host.
func (n *Net) Host(name string) Host { return Host{n, name} }

// Listen listens at an address. A listener that exists there is replaced, as by a host
// that starts again.
func (h Host) Listen(_ context.Context, _, at string) (net.Listener, error) {
	return h.listen(at), nil
}

func (h Host) listen(at string) *listener {
	l := &listener{net: h.net, at: at, waiting: make(chan net.Conn, backlog), done: make(chan struct{})}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.net.listeners[at] = l
	return l
}

// DialContext connects to an address. A request to connect that is lost is sent again
// until the context ends.
func (h Host) DialContext(ctx context.Context, network, to string) (net.Conn, error) {
	failed := func(err error) error {
		return &net.OpError{Op: "dial", Net: network, Addr: address(to), Err: err}
	}
	for {
		wait, arrives := h.net.connecting(h.name, hostOf(to))
		select {
		case <-ctx.Done():
			return nil, failed(ctx.Err())
		case <-time.After(wait):
		}
		if !arrives {
			continue
		}
		if c := h.net.connect(h.name, to); c != nil {
			return c, nil
		}
		return nil, failed(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
}

// connecting returns the time of a request to connect and of its answer, and whether both arrive.
func (n *Net) connecting(from, to string) (wait time.Duration, arrives bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	there, back := n.link(from, to), n.link(to, from)
	first, lost := there.delay(0)
	second, answerLost := back.delay(0)
	if there.Cut || back.Cut || n.stopped[from] || lost || answerLost {
		return resendAfter, false
	}
	return first + second, true
}

// connect returns a connection, nil if it is refused.
func (n *Net) connect(from, to string) net.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[to]
	if l == nil {
		return nil
	}
	n.dialed++
	ours := netip.AddrPort{}
	if ip, err := netip.ParseAddr(from); err == nil {
		ours = netip.AddrPortFrom(ip, uint16(firstPort+n.dialed%ports)) // fits
	}
	there, back := newHalf(), newHalf()
	a := &conn{net: n, from: from, to: hostOf(to), in: back, out: there, local: net.TCPAddrFromAddrPort(ours), remote: address(to)}
	b := &conn{net: n, from: a.to, to: from, in: there, out: back, local: a.remote, remote: a.local}
	select {
	case l.waiting <- b:
		n.conns[a], n.conns[b] = true, true
		return a
	default:
		return nil // the backlog is full
	}
}

// hostOf returns the host of an address.
func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// named is the address of a host without ports.
type named string

func (named) Network() string  { return "tcp" }
func (a named) String() string { return string(a) }

// address returns a *net.TCPAddr if the address has a port.
func address(addr string) net.Addr {
	if parsed, err := netip.ParseAddrPort(addr); err == nil {
		return net.TCPAddrFromAddrPort(parsed)
	}
	return named(addr)
}

type listener struct {
	net     *Net
	at      string
	waiting chan net.Conn
	done    chan struct{}
	once    sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.waiting:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Addr() net.Addr { return address(l.at) }

// Close implements net.Listener. It breaks the connections that were not accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.net.mu.Lock()
		if l.net.listeners[l.at] == l {
			delete(l.net.listeners, l.at)
		}
		l.net.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.waiting:
				_ = c.Close() // cannot fail
			default:
				return
			}
		}
	})
	return nil
}
