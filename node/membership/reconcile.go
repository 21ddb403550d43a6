package membership

import (
	"context"
	"time"
)

// reconcile brings Raft's configuration in line with who is there, for as long
// as this node leads.
func (ms *Membership) reconcile(ctx context.Context) {
	p := newPlanner(ms.cfg.ServerID, prober(ms), ms.cfg.Timing, ms.cfg.DeadFor, ms.cfg.Logger)
	tick := time.NewTicker(ms.cfg.ReconcileInterval)
	defer tick.Stop()
	defer ms.refused.Store(nil)
	for {
		err := ms.reconfigure(ctx, func(current configuration) (change, error) {
			health, _ := ms.Health()
			next := p.plan(ctx, picture{
				now: time.Now(), cluster: ms.cfg.ClusterID(), members: ms.cfg.Gossip.Members(), servers: current.servers, health: health,
			})
			ms.refused.Store(p.refusals())
			return next, nil
		})
		if err != nil && ctx.Err() == nil {
			ms.cfg.Logger.WarnContext(ctx, "the configuration was not changed; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-ms.reconcileNow:
		}
	}
}

// wakeReconciler makes the reconciler look at once.
func (ms *Membership) wakeReconciler() {
	select {
	case ms.reconcileNow <- struct{}{}:
	default:
	}
}

// Answers reports whether a server answers on its private port.
func (ms *Membership) Answers(ctx context.Context, id string) bool {
	_, err := ms.peer(ctx, id)
	return err == nil
}

// knows returns the servers in another node's configuration.
func (ms *Membership) knows(ctx context.Context, id string) ([]string, error) {
	p, err := ms.peer(ctx, id)
	return p.Servers, err
}
