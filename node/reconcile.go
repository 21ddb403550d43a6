package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
)

const (
	// caughtUpEntries is how many log entries a server may be behind the leader
	// and still count as caught up.
	caughtUpEntries = 256
	// changeTimeout bounds the wait for a change of the configuration to begin.
	changeTimeout = 5 * time.Second
	// maxVoters bounds the voters: each further one makes every write slower.
	maxVoters = 9
)

// reconcile brings Raft's configuration in line with who is there, for as long
// as this node leads.
func (n *Node) reconcile(ctx context.Context) {
	p := newPlanner(n.identity.ServerID, n, n.cfg.Tuning, n.logger)
	tick := time.NewTicker(n.cfg.Tuning.ReconcileInterval)
	defer tick.Stop()
	for {
		next := p.plan(ctx, n.clusterID(), n.gossip.Members(), n.servers(), time.Now())
		if err := n.change(ctx, next); err != nil && ctx.Err() == nil {
			n.logger.WarnContext(ctx, "the configuration was not changed; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-n.reconcileNow:
		}
	}
}

// wakeReconciler makes the reconciler look at once.
func (n *Node) wakeReconciler() {
	select {
	case n.reconcileNow <- struct{}{}:
	default:
	}
}

// change is what a planner wants done, in this order. Empty fields are left out.
type change struct {
	add     string // becomes a server without a vote
	promote string // gets its vote
	remove  string // leaves; another of its name has its place
}

// change carries a change out.
func (n *Node) change(ctx context.Context, c change) error {
	if c.add != "" {
		if err := n.raft.AddNonvoter(raft.ServerID(c.add), raft.ServerAddress(c.add), 0, changeTimeout).Error(); err != nil {
			return fmt.Errorf("adding %s: %w", c.add, err)
		}
		n.logger.InfoContext(ctx, "added a server without a vote", "server", c.add)
	}
	if c.promote != "" {
		if err := n.raft.AddVoter(raft.ServerID(c.promote), raft.ServerAddress(c.promote), 0, changeTimeout).Error(); err != nil {
			return fmt.Errorf("promoting %s: %w", c.promote, err)
		}
		n.logger.InfoContext(ctx, "gave a server its vote", "server", c.promote)
	}
	if c.remove != "" {
		if err := n.raft.RemoveServer(raft.ServerID(c.remove), 0, changeTimeout).Error(); err != nil {
			return fmt.Errorf("removing %s: %w", c.remove, err)
		}
		n.logger.InfoContext(ctx, "removed a server; another of its name has its place", "server", c.remove)
		return n.book.Forget(c.remove)
	}
	return nil
}

// answers reports whether a server answers on its private port.
func (n *Node) answers(ctx context.Context, id string) bool {
	_, err := ask[peerAnswer](ctx, n.port.Client(), id, pathPeer)
	return err == nil
}

// keepsUp reports whether a server has nearly as much as this node.
func (n *Node) keepsUp(ctx context.Context, id string) bool {
	own := n.stats()
	s, err := ask[statsAnswer](ctx, n.port.Client(), id, pathStats)
	return err == nil && s.ID == id &&
		s.LastLog+caughtUpEntries >= own.LastLog && s.Applied+caughtUpEntries >= own.Applied
}

// knows returns the servers in another node's configuration.
func (n *Node) knows(ctx context.Context, id string) ([]string, error) {
	p, err := ask[peerAnswer](ctx, n.port.Client(), id, pathPeer)
	return p.Servers, err
}

// prober asks other nodes what gossip cannot tell.
type prober interface {
	answers(ctx context.Context, id string) bool
	keepsUp(ctx context.Context, id string) bool
	knows(ctx context.Context, id string) ([]string, error)
}

// planner decides on changes of the configuration. It lives for one term of a
// leader and is used from one goroutine.
type planner struct {
	self      string
	probe     prober
	stableFor time.Duration
	goneFor   time.Duration
	logger    *slog.Logger

	seen    map[string]time.Time // when a server was last alive in gossip
	healthy map[string]time.Time // since when a server without a vote keeps up
	warned  map[string]bool
}

func newPlanner(self string, probe prober, t Tuning, logger *slog.Logger) *planner {
	return &planner{
		self: self, probe: probe, stableFor: t.StableFor, goneFor: t.GoneFor, logger: logger,
		seen: map[string]time.Time{}, healthy: map[string]time.Time{}, warned: map[string]bool{},
	}
}

// picture is what one decision is based on.
type picture struct {
	now     time.Time
	cluster string
	alive   map[string]cluster.Member
	members []cluster.Member
	servers []raft.Server
}

// plan returns the next change, the zero value when all is as it should be.
func (p *planner) plan(ctx context.Context, clusterID string, members []cluster.Member, servers []raft.Server, now time.Time) change {
	pic := picture{now: now, cluster: clusterID, alive: map[string]cluster.Member{}, members: members, servers: servers}
	for _, m := range members {
		pic.alive[m.ServerID] = m
	}
	p.remember(&pic)
	if old := p.superseded(ctx, &pic); old != "" {
		return change{remove: old}
	}
	for _, m := range members {
		if !contains(servers, m.ServerID) && p.mayAdd(ctx, &pic, m) {
			return change{add: m.ServerID}
		}
	}
	for _, s := range servers {
		id := string(s.ID)
		if s.Suffrage == raft.Voter {
			delete(p.healthy, id)
			continue
		}
		if !p.stable(ctx, &pic, id) {
			continue
		}
		if old, ok := p.mayVote(ctx, &pic, id); ok {
			delete(p.healthy, id)
			return change{promote: id, remove: old}
		}
	}
	return change{}
}

// remember notes who is alive.
func (p *planner) remember(pic *picture) {
	for id := range pic.alive {
		p.seen[id] = pic.now
	}
	for _, s := range pic.servers {
		if _, ok := p.seen[string(s.ID)]; !ok {
			p.seen[string(s.ID)] = pic.now // not seen yet, but this leader has only just begun to look
		}
	}
	for id := range p.seen {
		if _, alive := pic.alive[id]; !alive && !contains(pic.servers, id) {
			delete(p.seen, id)
		}
	}
}

// mayAdd reports whether a live node outside of the configuration is to be taken in.
func (p *planner) mayAdd(ctx context.Context, pic *picture, m cluster.Member) bool {
	if m.ClusterID != "" && m.ClusterID != pic.cluster {
		return false
	}
	for _, s := range pic.servers {
		id := string(s.ID)
		if _, alive := pic.alive[id]; alive && nameOf(id) == nameOf(m.ServerID) {
			if p.firstTime(m.ServerID) {
				p.logger.WarnContext(ctx, "two nodes run under one name; give one another --node-id, or stop the one that is not a member",
					"name", nameOf(id), "member", id, "other", m.ServerID)
			}
			return false
		}
	}
	if m.ClusterID != "" || m.Fresh {
		return true
	}
	// It has state and no cluster's name: either another cluster is just being
	// formed, or this one's former leader was lost while it took the node in.
	known, err := p.probe.knows(ctx, m.ServerID)
	return err == nil && (len(known) == 0 || slices.ContainsFunc(known, func(id string) bool { return contains(pic.servers, id) }))
}

// mayVote reports whether a server may be promoted, and which voter of the same
// name, gone for good, it is to replace.
func (p *planner) mayVote(ctx context.Context, pic *picture, id string) (old string, ok bool) {
	voters := 0
	for _, s := range pic.servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if other := string(s.ID); nameOf(other) == nameOf(id) {
			if old != "" || !p.gone(ctx, pic, other) {
				return "", false
			}
			old = other
		}
	}
	if old == "" && voters >= maxVoters {
		if p.firstTime(id) {
			p.logger.WarnContext(ctx, "a server stays without a vote: there are enough voters", "server", id, "voters", voters)
		}
		return "", false
	}
	return old, true
}

// superseded returns a server that is gone and whose place a live one of the same
// name has taken: what a leader left behind that was lost between the promotion
// of the new server and the removal of the old one.
func (p *planner) superseded(ctx context.Context, pic *picture) string {
	for _, old := range pic.servers {
		for _, other := range pic.servers {
			_, alive := pic.alive[string(other.ID)]
			outranked := other.Suffrage == raft.Voter || old.Suffrage != raft.Voter
			if other.ID != old.ID && nameOf(string(other.ID)) == nameOf(string(old.ID)) && alive && outranked &&
				p.gone(ctx, pic, string(old.ID)) {
				return string(old.ID)
			}
		}
	}
	return ""
}

// gone reports whether a server has left for good: it is out of gossip for a
// while, and does not answer.
func (p *planner) gone(ctx context.Context, pic *picture, id string) bool {
	if _, alive := pic.alive[id]; alive || id == p.self {
		return false
	}
	return pic.now.Sub(p.seen[id]) >= p.goneFor && !p.probe.answers(ctx, id)
}

// stable reports whether a server without a vote is alive and keeps up, for long
// enough.
func (p *planner) stable(ctx context.Context, pic *picture, id string) bool {
	since, was := p.healthy[id]
	m, alive := pic.alive[id]
	if !alive || m.NonVoter || !p.probe.keepsUp(ctx, id) {
		delete(p.healthy, id)
		return false
	}
	if !was {
		since = pic.now
		p.healthy[id] = since
	}
	return pic.now.Sub(since) >= p.stableFor
}

// firstTime reports whether a standing obstacle has not been reported yet.
func (p *planner) firstTime(key string) bool {
	was := p.warned[key]
	p.warned[key] = true
	return !was
}

func contains(servers []raft.Server, id string) bool {
	return slices.ContainsFunc(servers, func(s raft.Server) bool { return string(s.ID) == id })
}

// nameOf returns the node name in a server id.
func nameOf(id string) string {
	if i := strings.LastIndexByte(id, '-'); i > 0 {
		return id[:i]
	}
	return id
}
