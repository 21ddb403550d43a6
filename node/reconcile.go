package node

import (
	"context"
	"fmt"
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

// reconciler brings Raft's configuration in line with who is there. It lives as
// long as this node leads, on one goroutine.
type reconciler struct {
	n       *Node
	seen    map[string]time.Time // when a server was last alive in gossip
	healthy map[string]time.Time // since when a server without a vote is caught up
	warned  map[string]bool
}

// reconcile runs the reconciler until ctx ends.
func (n *Node) reconcile(ctx context.Context) {
	r := &reconciler{n: n, seen: map[string]time.Time{}, healthy: map[string]time.Time{}, warned: map[string]bool{}}
	tick := time.NewTicker(n.cfg.Tuning.ReconcileInterval)
	defer tick.Stop()
	for {
		if err := r.pass(ctx); err != nil && ctx.Err() == nil {
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

// picture is what one pass acts upon.
type picture struct {
	alive   map[string]cluster.Member
	servers map[string]raft.Server
	order   []string // ids in the order of the configuration
	voters  int
}

func (r *reconciler) look() picture {
	p := picture{alive: map[string]cluster.Member{}, servers: map[string]raft.Server{}}
	now := time.Now()
	for _, m := range r.n.gossip.Members() {
		p.alive[m.ServerID] = m
		r.seen[m.ServerID] = now
	}
	for _, s := range r.n.servers() {
		id := string(s.ID)
		p.servers[id] = s
		p.order = append(p.order, id)
		if s.Suffrage == raft.Voter {
			p.voters++
		}
		if _, ok := r.seen[id]; !ok {
			r.seen[id] = now // not seen yet, but the leader has only just begun to look
		}
	}
	for id := range r.seen {
		if _, ok := p.servers[id]; !ok && p.alive[id].ServerID == "" {
			delete(r.seen, id)
		}
	}
	return p
}

// pass makes at most one change of the configuration, beside removing a server
// whose place was taken.
func (r *reconciler) pass(ctx context.Context) error {
	p := r.look()
	if id, by := r.superseded(ctx, p); id != "" {
		return r.remove(id, by)
	}
	for id, m := range p.alive {
		if _, ok := p.servers[id]; !ok && r.mayAdd(p, m) {
			return r.add(id)
		}
	}
	for _, id := range p.order {
		if p.servers[id].Suffrage == raft.Voter {
			delete(r.healthy, id)
			continue
		}
		if !r.stable(ctx, p, id) {
			continue
		}
		old, ok := r.mayVote(ctx, p, id)
		if !ok {
			continue
		}
		if err := r.promote(id); err != nil || old == "" {
			return err
		}
		return r.remove(old, id)
	}
	return nil
}

// mayAdd reports whether a live node outside of the configuration is to be taken in.
func (r *reconciler) mayAdd(p picture, m cluster.Member) bool {
	if m.ClusterID == "" && !m.Fresh {
		return false // it is on its way into a cluster that has no name yet
	}
	if m.ClusterID != "" && m.ClusterID != r.n.clusterID() {
		return false
	}
	for _, id := range p.order {
		if _, alive := p.alive[id]; alive && nameOf(id) == m.NodeName {
			if r.firstTime(m.ServerID) {
				r.n.logger.Warn("two nodes run under one name; give one another --node-id, or stop the one that is not a member",
					"name", m.NodeName, "member", id, "other", m.ServerID)
			}
			return false
		}
	}
	return true
}

// mayVote reports whether a server may be promoted, and which voter of the same
// name, gone for good, it is to replace.
func (r *reconciler) mayVote(ctx context.Context, p picture, id string) (old string, ok bool) {
	for _, other := range p.order {
		if other == id || nameOf(other) != nameOf(id) || p.servers[other].Suffrage != raft.Voter {
			continue
		}
		if !r.gone(ctx, p, other) {
			return "", false
		}
		old = other
	}
	if old == "" && p.voters >= maxVoters {
		if r.firstTime(id) {
			r.n.logger.WarnContext(ctx, "a server stays without a vote: there are enough voters", "server", id, "voters", p.voters)
		}
		return "", false
	}
	return old, true
}

// superseded returns a server whose place is taken, and by which of the same
// name. It removes what a leader left behind that was lost between the promotion
// of the new server and the removal of the old one.
func (r *reconciler) superseded(ctx context.Context, p picture) (id, by string) {
	for _, old := range p.order {
		for _, other := range p.order {
			_, alive := p.alive[other]
			outranked := p.servers[other].Suffrage == raft.Voter || p.servers[old].Suffrage != raft.Voter
			if other != old && nameOf(other) == nameOf(old) && alive && outranked && r.gone(ctx, p, old) {
				return old, other
			}
		}
	}
	return "", ""
}

// gone reports whether a server has left for good: it is out of gossip for a
// while, and does not answer.
func (r *reconciler) gone(ctx context.Context, p picture, id string) bool {
	if _, alive := p.alive[id]; alive || id == r.n.identity.ServerID {
		return false
	}
	if time.Since(r.seen[id]) < r.n.cfg.Tuning.GoneFor {
		return false
	}
	_, err := ask[peerAnswer](ctx, r.n.port.Client(), id, pathPeer)
	return err != nil
}

// stable reports whether a server without a vote is alive and caught up, for
// long enough.
func (r *reconciler) stable(ctx context.Context, p picture, id string) bool {
	since, was := r.healthy[id]
	if _, alive := p.alive[id]; !alive || !r.caughtUp(ctx, id) {
		delete(r.healthy, id)
		return false
	}
	if !was {
		since = time.Now()
		r.healthy[id] = since
	}
	return time.Since(since) >= r.n.cfg.Tuning.StableFor
}

func (r *reconciler) caughtUp(ctx context.Context, id string) bool {
	own := r.n.stats()
	s, err := ask[statsAnswer](ctx, r.n.port.Client(), id, pathStats)
	return err == nil && s.ID == id &&
		s.LastLog+caughtUpEntries >= own.LastLog && s.Applied+caughtUpEntries >= own.Applied
}

func (r *reconciler) add(id string) error {
	err := r.n.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(id), 0, changeTimeout).Error()
	if err != nil {
		return fmt.Errorf("adding %s: %w", id, err)
	}
	r.n.logger.Info("added a server without a vote", "server", id)
	return nil
}

func (r *reconciler) promote(id string) error {
	delete(r.healthy, id)
	err := r.n.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(id), 0, changeTimeout).Error()
	if err != nil {
		return fmt.Errorf("promoting %s: %w", id, err)
	}
	r.n.logger.Info("gave a server its vote", "server", id)
	return nil
}

func (r *reconciler) remove(id, by string) error {
	err := r.n.raft.RemoveServer(raft.ServerID(id), 0, changeTimeout).Error()
	if err != nil {
		return fmt.Errorf("removing %s: %w", id, err)
	}
	r.n.logger.Info("removed a server", "server", id, "replaced_by", by)
	delete(r.seen, id)
	return r.n.book.Forget(id)
}

// firstTime reports whether a standing obstacle has not been reported yet.
func (r *reconciler) firstTime(key string) bool {
	was := r.warned[key]
	r.warned[key] = true
	return !was
}

// nameOf returns the node name in a server id.
func nameOf(id string) string {
	if i := strings.LastIndexByte(id, '-'); i > 0 {
		return id[:i]
	}
	return id
}
