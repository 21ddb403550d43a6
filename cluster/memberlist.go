package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"

	"github.com/hashicorp/memberlist"
)

// delegate implements memberlist's callbacks for Gossip. Its methods run under
// memberlist's lock: they must not call memberlist and must not block.
type delegate struct {
	*Gossip

	retired bool // its memberlist has ended; timers and streams may still call. Under mu
}

// NodeMeta returns this node's encoded metadata.
func (d *delegate) NodeMeta(int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.encoded
}

// Gossip uses neither user messages nor user state.
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}

// NotifyAlive rejects members of another cluster. It also drops a member that moved to
// another cluster: memberlist keeps that member's old metadata.
func (d *delegate) NotifyAlive(node *memberlist.Node) error {
	if node.Name == d.cfg.Meta.ServerID {
		return nil
	}
	err := d.checkCluster(node)
	if err == nil {
		return nil
	}
	d.mu.Lock()
	_, known := d.members[node.Name]
	if known = known && !d.retired; known {
		delete(d.members, node.Name)
	}
	d.mu.Unlock()
	if known {
		notify(d.changed)
	}
	return err
}

// NotifyMerge rejects a join by, or to, members of another cluster.
func (d *delegate) NotifyMerge(nodes []*memberlist.Node) error {
	for _, node := range nodes {
		if node.Name == d.cfg.Meta.ServerID || node.State == memberlist.StateDead || node.State == memberlist.StateLeft {
			continue
		}
		if err := d.checkCluster(node); err != nil {
			return err
		}
	}
	return nil
}

func (d *delegate) checkCluster(node *memberlist.Node) error {
	meta, err := decodeMeta(node.Meta)
	if err != nil {
		return nil //nolint:nilerr // it may be newer than this program: it is relayed, but no member here
	}
	d.mu.Lock()
	own := d.meta.ClusterID
	d.mu.Unlock()
	if sameCluster(own, meta.ClusterID) {
		return nil
	}
	d.noteStranger(meta, node.Address())
	if suppressed, ok := d.lines.Allow("cluster " + node.Address() + meta.ClusterID); ok {
		d.logger.Warn("rejected a node of another cluster", "server", node.Name, "address", node.Address(),
			"cluster", meta.ClusterID, "own_cluster", own, "suppressed", suppressed)
	}
	return fmt.Errorf("server %s belongs to cluster %s, this node to cluster %s", node.Name, meta.ClusterID, own)
}

func (d *delegate) NotifyConflict(existing, other *memberlist.Node) {
	if suppressed, ok := d.lines.Allow("conflict " + other.Address()); ok {
		d.logger.Warn("a server shows up at a second address; it is believed once the first is dead",
			"server", other.Name, "known_at", existing.Address(), "seen_at", other.Address(), "suppressed", suppressed)
	}
}

func (d *delegate) NotifyJoin(node *memberlist.Node) {
	if d.note(node) && node.Name != d.cfg.Meta.ServerID {
		d.logger.Info("member joined", "server", node.Name, "gossip", node.Address())
	}
}

func (d *delegate) NotifyUpdate(node *memberlist.Node) { d.note(node) }

// note stores a member, and reports false if its metadata cannot be decoded.
func (d *delegate) note(node *memberlist.Node) bool {
	addr := node.Address()
	meta, err := decodeMeta(node.Meta)
	if err == nil && meta.ServerID != node.Name {
		err = fmt.Errorf("it gives the server id %q", meta.ServerID)
	}
	defer notify(d.changed)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.retired {
		return false
	}
	if err != nil {
		delete(d.members, node.Name)
		if suppressed, ok := d.lines.Allow("meta " + node.Name + err.Error()); ok {
			d.logger.Warn("ignored a gossip member whose metadata cannot be read", "server", node.Name, "address", addr, "error", err, "suppressed", suppressed)
		}
		return false
	}
	if node.Name == d.cfg.Meta.ServerID {
		meta = d.meta // SetMeta may be ahead of what memberlist has
	}
	d.members[node.Name] = Member{Meta: meta, GossipAddr: addr}
	return true
}

func (d *delegate) NotifyLeave(node *memberlist.Node) {
	addr := node.Address()
	d.mu.Lock()
	ignored := d.retired || node.Name == d.cfg.Meta.ServerID
	if !ignored {
		delete(d.members, node.Name)
		delete(d.settled, addr)
	}
	d.mu.Unlock()
	if !ignored {
		notify(d.changed)
		d.logger.Info("member gone", "server", node.Name, "gossip", addr)
	}
}

const (
	maxGossipStreams = 16      // concurrent incoming streams; a node opens one every few seconds, for milliseconds
	maxGossipStream  = 1 << 20 // bytes of one; the metadata of hundreds of nodes takes a fifth of it
)

// gossipTransport bounds the memory that strangers can make memberlist use: it reads up to
// 20 MiB of a stream before it checks the sender's key. TCPTimeout bounds a stream's time.
type gossipTransport struct {
	memberlist.NodeAwareTransport
	streams chan net.Conn
	done    chan struct{} // closed after the last incoming message
	relayed sync.WaitGroup

	open newcomers // a node's stream takes milliseconds, so that one which is held open keeps no node out
}

func newGossipTransport(inner memberlist.NodeAwareTransport) *gossipTransport {
	t := &gossipTransport{NodeAwareTransport: inner, streams: make(chan net.Conn), done: make(chan struct{}), open: newcomers{most: maxGossipStreams}}
	t.relayed.Go(t.relay)
	return t
}

func (t *gossipTransport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown implements memberlist.Transport. The reader of the channels keeps reading
// until it returns.
func (t *gossipTransport) Shutdown() error {
	err := t.NodeAwareTransport.Shutdown()
	close(t.done)
	t.relayed.Wait()
	return err
}

func (t *gossipTransport) relay() {
	for {
		select {
		case conn := <-t.NodeAwareTransport.StreamCh():
			t.open.begin(conn)
			t.streams <- &gossipStream{Conn: conn, transport: t, left: maxGossipStream}
		case <-t.done:
			return
		}
	}
}

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

// gossipLog handles memberlist's log lines. It logs all of them at debug level, and
// those that operators need as throttled warnings.
type gossipLog struct {
	slog.Handler // its methods that memberlist's lines do not need
	g            *Gossip
}

func (l gossipLog) Enabled(context.Context, slog.Level) bool { return true }

// noteworthy are the beginnings of lines that show misconfiguration or strangers.
// memberlist's other errors are temporary; changes of members are logged from its events.
var noteworthy = []string{
	"Decrypt packet failed",
	"failed to receive",
	"discarding",
	"Failed push/pull merge",
	"Received invalid msgType",
	"Was able to connect to",
	"Too many pending",
	"handler queue full",
	"Remote node state size",
	"Error accepting TCP connection",
	"Error reading UDP packet",
}

// otherKey is part of the error text for a message that is encrypted with an unknown key.
const otherKey = "no installed keys could decrypt"

// Handle processes one line of the form "[LEVEL] memberlist: text".
func (l gossipLog) Handle(ctx context.Context, record slog.Record) error {
	text := record.Message
	if _, known, found := strings.Cut(text, "memberlist: "); found {
		text = known
	}
	for _, kind := range noteworthy {
		if !strings.HasPrefix(text, kind) {
			continue
		}
		if strings.Contains(text, " EOF") {
			break // somebody hung up
		}
		suppressed, ok := l.g.lines.Allow("memberlist " + kind + remoteHost(text))
		switch {
		case !ok:
		case strings.Contains(text, otherKey):
			l.g.logger.WarnContext(ctx, "rejected gossip that is encrypted with another key: the node that sends it, or this one, has another cluster secret; give both the same with --secret-file",
				"detail", text, "suppressed", suppressed)
		default:
			l.g.logger.WarnContext(ctx, "trouble in gossip", "detail", text, "suppressed", suppressed)
		}
		return nil
	}
	l.g.logger.DebugContext(ctx, "gossip", "detail", text)
	return nil
}

// remoteHost finds the "from=host:port" at the end of a line, without the port.
func remoteHost(text string) string {
	_, from, found := strings.Cut(text, "from=")
	if !found {
		return ""
	}
	if i := strings.LastIndexByte(from, ':'); i >= 0 {
		from = from[:i]
	}
	return from
}
