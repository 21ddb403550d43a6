package cluster

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"
)

const (
	maxLost         = 64             // members that went and are looked for
	lostKept        = 24 * time.Hour // for so long
	hintPace        = 5              // rejoin intervals between attempts at lost and known addresses
	maxJoinTargets  = 256
	joinConcurrency = 8
)

// lostMember is where a member was that died or left.
type lostMember struct {
	addr string // IP:port
	at   time.Time
}

// strangerRounds is for how many rejoin intervals a stranger is remembered after the last
// contact: in each interval every join address without a member is asked.
const strangerRounds = 5

// stranger is a member of another cluster.
type stranger struct {
	Member
	at time.Time
}

// Stranger returns a member of another cluster that has one of the join addresses and
// was seen recently.
func (g *Gossip) Stranger() (Member, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for addr, s := range g.strangers {
		if g.listed[addr] && time.Since(s.at) < strangerRounds*g.cfg.RejoinInterval {
			return s.Member, true
		}
	}
	return Member{}, false
}

// noteStranger keeps a member of another cluster if it has a join address.
func (g *Gossip) noteStranger(meta Meta, addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listed[addr] {
		g.strangers[addr] = stranger{Member{Meta: meta, GossipAddr: addr}, time.Now()}
	}
}

// joinLoop looks for the others for as long as gossip runs: at the join
// addresses, at addresses known from before, and where members died.
func (g *Gossip) joinLoop() {
	defer g.wg.Done()
	for {
		missing := g.missingTargets()
		g.joinAll(missing)
		select {
		case <-g.stop.Done():
			return
		case <-time.After(g.cfg.RejoinInterval):
		}
	}
}

// missingTargets returns the addresses that no live member has and whose turn
// it is.
func (g *Gossip) missingTargets() []string {
	targets := make(map[string]struct{})
	add := func(addr netip.AddrPort) {
		reachable := !g.cfg.Secrets.LoopbackOnly() || addr.Addr().IsLoopback()
		if addr != g.advertise && reachable && len(targets) < maxJoinTargets {
			targets[addr.String()] = struct{}{}
		}
	}
	for _, name := range g.cfg.Join {
		for _, addr := range g.lookupJoin(name) {
			add(addr)
		}
	}
	listed := make(map[string]bool, len(targets))
	for addr := range targets {
		listed[addr] = true
	}
	for _, text := range g.hints() {
		if addr, err := netip.ParseAddrPort(text); err == nil {
			add(addr)
		}
	}
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listed = listed
	maps.DeleteFunc(g.strangers, func(addr string, _ stranger) bool { return !listed[addr] })
	for _, m := range g.members {
		delete(targets, m.GossipAddr)
	}
	for addr, until := range g.settled {
		if now.Before(until) {
			delete(targets, addr)
		} else {
			delete(g.settled, addr)
		}
	}
	for addr := range targets {
		if !listed[addr] {
			g.settled[addr] = now.Add(hintPace * g.cfg.RejoinInterval)
		}
	}
	return slices.Collect(maps.Keys(targets))
}

// hints are addresses where members were, apart from the join list.
func (g *Gossip) hints() []string {
	var addrs []string
	if g.cfg.Known != nil {
		addrs = g.cfg.Known()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, lost := range g.lost {
		if time.Since(lost.at) > lostKept {
			delete(g.lost, id)
			continue
		}
		addrs = append(addrs, lost.addr)
	}
	return addrs
}

// lookupJoin returns all addresses of a join entry.
func (g *Gossip) lookupJoin(name string) []netip.AddrPort {
	host, port, err := splitAddr(name)
	if err != nil {
		return nil // checked at the start
	}
	if port == 0 {
		port = DefaultGossipPort
	}
	ctx, cancel := context.WithTimeout(g.stop, lookupTimeout)
	defer cancel()
	ips, err := lookupIPs(ctx, g.cfg.LookupHost, host)
	if err != nil {
		g.logJoinFailure(name, err)
		return nil
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip, port)
	}
	return addrs
}

// joinAll exchanges members with every address, a few at a time.
func (g *Gossip) joinAll(addrs []string) {
	var group errgroup.Group
	group.SetLimit(joinConcurrency)
	for _, addr := range addrs {
		group.Go(func() error {
			if g.stop.Err() != nil {
				return nil
			}
			if _, err := g.list.Join([]string{addr}); err != nil {
				g.logJoinFailure(addr, err)
				return nil
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.settled[addr] = time.Now().Add(g.cfg.SettledInterval)
			return nil
		})
	}
	_ = group.Wait() // each failure is logged
}

func (g *Gossip) logJoinFailure(addr string, err error) {
	if g.stop.Err() != nil {
		return
	}
	if suppressed, ok := g.lines.allow("join " + addr); ok {
		if strings.Contains(err.Error(), otherKey) {
			g.logger.Warn("a join address has another cluster secret; give this node the same with --secret-file, or take the address out of --join",
				"address", addr, "error", err, "suppressed", suppressed)
			return
		}
		g.logger.Info("no gossip with a join address yet, trying on", "address", addr, "error", err, "suppressed", suppressed)
	}
}

// rememberLost keeps where a member was; the caller holds the lock. When there are too
// many, the oldest is forgotten.
func (g *Gossip) rememberLost(serverID, addr string) {
	if len(g.lost) >= maxLost {
		oldest := ""
		for id, lost := range g.lost {
			if oldest == "" || lost.at.Before(g.lost[oldest].at) {
				oldest = id
			}
		}
		delete(g.lost, oldest)
	}
	g.lost[serverID] = lostMember{addr: addr, at: time.Now()}
	delete(g.settled, addr)
}

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

func (t *gossipTransport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown implements memberlist.Transport. The reader of the channels keeps reading
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

// gossipStream is a stream that is read up to a limit.
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

func (s *gossipStream) Close() error {
	s.transport.open.end(s.Conn)
	return s.Conn.Close()
}
