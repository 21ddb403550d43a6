package node

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// changeTimeout bounds the wait for a change of the configuration to begin.
const changeTimeout = 5 * time.Second

// reconcile brings Raft's configuration in line with who is there, for as long
// as this node leads.
func (n *Node) reconcile(ctx context.Context) {
	p := newPlanner(n.identity.ServerID, n, n.cfg.Tuning, n.cfg.DeadServerThreshold, n.logger)
	tick := time.NewTicker(n.cfg.Tuning.ReconcileInterval)
	defer tick.Stop()
	for {
		health, _ := n.Health()
		next := p.plan(ctx, picture{
			now: time.Now(), cluster: n.clusterID(), members: n.gossip.Members(), servers: n.servers(), health: health,
		})
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
	if c.demote != "" {
		if err := n.raft.DemoteVoter(raft.ServerID(c.demote), 0, changeTimeout).Error(); err != nil {
			return fmt.Errorf("demoting %s: %w", c.demote, err)
		}
		n.logger.InfoContext(ctx, "took a server's vote; it does not want one", "server", c.demote)
	}
	if c.remove != "" {
		if err := n.raft.RemoveServer(raft.ServerID(c.remove), 0, changeTimeout).Error(); err != nil {
			return fmt.Errorf("removing %s: %w", c.remove, err)
		}
		n.logger.InfoContext(ctx, "removed a server", "server", c.remove, "reason", c.why)
		if err := n.book.Forget(c.remove); err != nil {
			return err
		}
	}
	if c.lead != "" {
		n.logger.WarnContext(ctx, "another server is to lead", "server", c.lead)
		if err := n.raft.LeadershipTransferToServer(raft.ServerID(c.lead), raft.ServerAddress(c.lead)).Error(); err != nil {
			return fmt.Errorf("handing leadership to %s: %w", c.lead, err)
		}
	}
	return nil
}

// answers reports whether a server answers on its private port.
func (n *Node) answers(ctx context.Context, id string) bool {
	_, err := ask[peerAnswer](ctx, n.port.Client(), id, pathPeer)
	return err == nil
}

// knows returns the servers in another node's configuration.
func (n *Node) knows(ctx context.Context, id string) ([]string, error) {
	p, err := ask[peerAnswer](ctx, n.port.Client(), id, pathPeer)
	return p.Servers, err
}
