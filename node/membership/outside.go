package membership

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/loop"
)

const (
	// recentContact is how new a leader's last message is for this node to be a
	// member without question.
	recentContact = time.Second
	// outsideTimeout is the heartbeat and election timeout of a removed node, so
	// that it does not ask for votes that nobody would give it.
	outsideTimeout = time.Hour
)

// What a node can be in its cluster.
const (
	Removed = "removed" // and admin.Voter, admin.NonVoter
	None    = "none"
)

// Part returns what this node is in its cluster.
func (ms *Membership) Part() string {
	if ms.outside.Load() {
		return Removed
	}
	for _, s := range ms.cfg.Raft.Servers() {
		switch {
		case string(s.ID) != ms.cfg.ServerID:
		case s.Suffrage == raft.Voter:
			return admin.Voter
		default:
			return admin.NonVoter
		}
	}
	return None
}

// Outside reports whether the cluster goes on without this node.
func (ms *Membership) Outside() bool { return ms.outside.Load() }

// watchRemoval finds out whether this node was removed from its cluster: a
// leader goes on without it, and does not take it in again. A removed node says
// so and keeps quiet.
func (ms *Membership) watchRemoval(ctx context.Context) {
	var since time.Time
	loop.Every(ctx, ms.cfg.ReconcileInterval, func(ctx context.Context) {
		leader := ms.leadsWithout(ctx)
		switch {
		case leader == "":
			since = time.Time{}
			if ms.outside.Swap(false) {
				ms.cfg.Logger.InfoContext(ctx, "this server is a member of its cluster again")
				ms.setTimeouts(ctx, ms.cfg.Heartbeat, ms.cfg.Election)
			}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= ms.cfg.GoneFor && !ms.outside.Swap(true):
			ms.cfg.Logger.WarnContext(ctx, "this server was removed from its cluster; stop it, or empty its data directory and start it to join as a new server",
				"leader", leader)
			ms.setTimeouts(ctx, outsideTimeout, outsideTimeout)
		}
	})
}

// leadsWithout returns a leader of this node's cluster that does not have this
// node in its configuration, "" when there is none.
func (ms *Membership) leadsWithout(ctx context.Context) string {
	if ms.Fresh() || ms.cfg.Raft.Leads() || ms.cfg.Raft.LeaderID() != "" && time.Since(ms.cfg.Raft.LastContact()) < recentContact {
		return ""
	}
	for _, m := range ms.cfg.Gossip.Members() {
		if m.ServerID == ms.cfg.ServerID {
			continue
		}
		p, err := ms.peer(ctx, m.ServerID)
		if err == nil && p.Leads && ms.sameCluster(p) && !slices.Contains(p.Servers, ms.cfg.ServerID) {
			return m.ServerID
		}
	}
	return ""
}

// sameCluster reports whether a leader is of this node's cluster. After a crash
// the cluster's name may still have to be applied; then it is by its servers.
func (ms *Membership) sameCluster(leader peerAnswer) bool {
	if id := ms.cfg.ClusterID(); id != "" {
		return leader.ClusterID == id
	}
	return slices.ContainsFunc(leader.Servers, func(id string) bool { return consensus.Contains(ms.cfg.Raft.Servers(), id) })
}

// setTimeouts changes when Raft starts elections.
func (ms *Membership) setTimeouts(ctx context.Context, heartbeat, election time.Duration) {
	err := ms.cfg.Raft.Reload(func(c *raft.ReloadableConfig) { c.HeartbeatTimeout, c.ElectionTimeout = heartbeat, election })
	if err != nil && ctx.Err() == nil {
		ms.cfg.Logger.WarnContext(ctx, "Raft's timeouts were not changed", "error", err)
	}
}
