package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
)

// bootstrapInterval is how often a node without state looks whether it should
// form a cluster, besides at every change in gossip.
const bootstrapInterval = 500 * time.Millisecond

// fresh reports whether this node has no state: it has never voted, logged,
// received or applied anything.
func (n *Node) fresh() bool {
	return n.raft.CurrentTerm() == 0 && n.raft.LastIndex() == 0 && n.machine.Applied() == 0
}

// bootstrap forms a cluster when it falls to this node, and returns when it has
// state or the context ends. A node that is to join one waits here until the
// leader has added it.
func (n *Node) bootstrap(ctx context.Context) {
	if !n.fresh() {
		return
	}
	if n.cfg.BootstrapExpect == 1 || n.cfg.NonVoter {
		if len(n.cfg.Join) > 0 {
			n.logger.InfoContext(ctx, "waiting to be added to the cluster", "join", strings.Join(n.cfg.Join, ","))
			return
		}
		n.formCluster(ctx, []string{n.identity.ServerID})
		return
	}
	n.logger.InfoContext(ctx, "waiting for the first voters", "expected", n.cfg.BootstrapExpect)
	tick := time.NewTicker(bootstrapInterval)
	defer tick.Stop()
	said := ""
	for n.fresh() {
		voters, obstacle := firstVoters(n.gossip.Members(), n.identity.ServerID, n.cfg.BootstrapExpect,
			func(id string) (peerAnswer, error) { return ask[peerAnswer](ctx, n.port.Client(), id, pathPeer) })
		if obstacle == "" {
			n.formCluster(ctx, voters)
			return
		}
		if obstacle != said {
			n.logger.InfoContext(ctx, "not forming a cluster", "reason", obstacle)
			said = obstacle
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// firstVoters returns the ids of the first configuration, or why this node, self,
// must not make one now. It is called on a node without state.
func firstVoters(members []cluster.Member, self string, expect int, ask func(id string) (peerAnswer, error)) (ids []string, obstacle string) {
	for _, m := range members {
		if belongs(m) && m.ServerID != self {
			return nil, fmt.Sprintf("server %s is part of a cluster already; its leader will add this node", m.ServerID)
		}
	}
	ids = freshPeers(members, self, expect)
	switch {
	case len(ids) < expect:
		return nil, fmt.Sprintf("%d of %d nodes are here", len(ids), expect)
	case len(ids) > expect:
		return nil, fmt.Sprintf("%d nodes are here and each expects %d; start the others after the cluster has formed, or expect more", len(ids), expect)
	case ids[0] != self:
		return nil, fmt.Sprintf("%d of %d nodes are here; %s will form the cluster", len(ids), expect, ids[0])
	}
	for _, id := range ids[1:] {
		p, err := ask(id)
		switch {
		case err != nil:
			return nil, fmt.Sprintf("server %s does not answer on its private port", id)
		case p.ClusterID != "" || !p.Fresh:
			return nil, fmt.Sprintf("server %s has state already", id)
		case p.ID != id || p.Expect != expect || !slices.Equal(p.Seen, ids):
			return nil, fmt.Sprintf("server %s does not see the same nodes yet", id)
		}
	}
	return ids, ""
}

// freshPeers returns the ids of the live nodes without state that expect as many
// voters as self does, which is one of them, sorted.
func freshPeers(members []cluster.Member, self string, expect int) []string {
	ids := []string{self}
	for _, m := range members {
		if m.ServerID != self && !belongs(m) && m.Expect == expect && !m.NonVoter {
			ids = append(ids, m.ServerID)
		}
	}
	slices.Sort(ids)
	return ids
}

// belongs reports whether a member is, or was, part of a cluster.
func belongs(m cluster.Member) bool { return m.ClusterID != "" || !m.Fresh }

// formCluster writes the first configuration.
func (n *Node) formCluster(ctx context.Context, ids []string) {
	var c raft.Configuration
	for _, id := range ids {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	if err := n.raft.BootstrapCluster(c).Error(); err != nil {
		n.logger.WarnContext(ctx, "the cluster could not be formed", "error", err)
		return
	}
	n.logger.InfoContext(ctx, "formed a cluster", "voters", strings.Join(ids, ","))
}
