package node

import (
	"context"
	"time"
)

// reconcile brings Raft's configuration in line with who is there, for as long
// as this node leads.
func (n *Node) reconcile(ctx context.Context) {
	p := newPlanner(n.identity.ServerID, n, n.cfg.Tuning, n.cfg.DeadServerThreshold, n.logger)
	tick := time.NewTicker(n.cfg.Tuning.ReconcileInterval)
	defer tick.Stop()
	defer n.refused.Store(nil)
	for {
		err := n.reconfigure(ctx, func(current configuration) (change, error) {
			health, _ := n.Health()
			next := p.plan(ctx, picture{
				now: time.Now(), cluster: n.clusterID(), members: n.gossip.Members(), servers: current.servers, health: health,
			})
			n.refused.Store(p.refusals())
			return next, nil
		})
		if err != nil && ctx.Err() == nil {
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
