package node

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/node/admin"

	"github.com/commons-cluster/commons/node/consensus"
)

const (
	// recentContact is how new a leader's last message is for this node to be a
	// member without question.
	recentContact = time.Second
	// outsideTimeout is the heartbeat and election timeout of a removed node, so
	// that it does not ask for votes that nobody would give it.
	outsideTimeout = time.Hour
)

// What this node is in its cluster.
const (
	membershipRemoved = "removed" // and admin.Voter, admin.NonVoter
	membershipNone    = "none"
)

// membership returns what this node is in its cluster.
func (n *Node) membership() string {
	if n.outside.Load() {
		return membershipRemoved
	}
	for _, s := range n.raft.Servers() {
		switch {
		case string(s.ID) != n.identity.ServerID:
		case s.Suffrage == raft.Voter:
			return admin.Voter
		default:
			return admin.NonVoter
		}
	}
	return membershipNone
}

// watchMembership finds out whether this node was removed from its cluster: a
// leader goes on without it, and does not take it in again. A removed node says
// so and keeps quiet.
func (n *Node) watchMembership(ctx context.Context) {
	tick := time.NewTicker(n.cfg.Tuning.ReconcileInterval)
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		leader := n.leadsWithout(ctx)
		switch {
		case leader == "":
			since = time.Time{}
			if n.outside.Swap(false) {
				n.logger.InfoContext(ctx, "this server is a member of its cluster again")
				n.setTimeouts(ctx, n.cfg.Heartbeat, n.cfg.Election)
			}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= n.cfg.Tuning.GoneFor && !n.outside.Swap(true):
			n.logger.WarnContext(ctx, "this server was removed from its cluster; stop it, or empty its data directory and start it to join as a new server",
				"leader", leader)
			n.setTimeouts(ctx, outsideTimeout, outsideTimeout)
		}
	}
}

// leadsWithout returns a leader of this node's cluster that does not have this
// node in its configuration, "" when there is none.
func (n *Node) leadsWithout(ctx context.Context) string {
	if n.fresh() || n.raft.Leads() || n.raft.LeaderID() != "" && time.Since(n.raft.LastContact()) < recentContact {
		return ""
	}
	for _, m := range n.gossip.Members() {
		if m.ServerID == n.identity.ServerID {
			continue
		}
		p, err := ask[peerAnswer](ctx, n.port.Client(), m.ServerID, pathPeer)
		if err == nil && p.Leads && n.sameCluster(p) && !slices.Contains(p.Servers, n.identity.ServerID) {
			return m.ServerID
		}
	}
	return ""
}

// sameCluster reports whether a leader is of this node's cluster. After a crash
// the cluster's name may still have to be applied; then it is by its servers.
func (n *Node) sameCluster(leader peerAnswer) bool {
	if id := n.clusterID(); id != "" {
		return leader.ClusterID == id
	}
	return slices.ContainsFunc(leader.Servers, func(id string) bool { return consensus.Contains(n.raft.Servers(), id) })
}

// setTimeouts changes when Raft starts elections.
func (n *Node) setTimeouts(ctx context.Context, heartbeat, election time.Duration) {
	err := n.raft.Reload(func(c *raft.ReloadableConfig) { c.HeartbeatTimeout, c.ElectionTimeout = heartbeat, election })
	if err != nil && ctx.Err() == nil {
		n.logger.WarnContext(ctx, "Raft's timeouts were not changed", "error", err)
	}
}
