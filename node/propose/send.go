package propose

import (
	"context"

	"github.com/commons-cluster/commons/fsm/command"
)

// send is one of the node's senders: it takes whatever waits to the leader, one
// group at a time, until the Pipeline is closed.
func (p *Pipeline) send() {
	failures := 0
	for p.session.awaitWork() {
		changed := p.changed.wait()
		target := p.leaderID()
		if target == "" {
			// The commands stay in the queue, where their callers can withdraw them.
			failures++
			p.pause(p.ctx, changed, failures)
			continue
		}
		b := p.session.take()
		if len(b.calls) == 0 {
			continue
		}
		r := p.attempt(target, b.group)
		p.session.settle(b, r)
		if r.Status == statusApplied {
			failures = 0
			p.recheckApplied(b, r.Index)
			continue
		}
		failures++
		p.pause(p.ctx, changed, failures)
	}
}

// attempt brings a group to the leader once.
func (p *Pipeline) attempt(target string, g command.Group) result {
	if target == p.self {
		return p.leader.submit(p.ctx, g)
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.timing.attempt)
	defer cancel()
	ctx, stop := p.UntilAnotherLeads(ctx, target)
	defer stop()
	return p.peers.propose(ctx, target, g)
}

// UntilAnotherLeads returns a context that ends with ctx, or when somebody else than
// the given server leads: an old leader may never answer, and a retry costs little.
// That no leader is known is no reason, as there would be nobody to turn to.
func (p *Pipeline) UntilAnotherLeads(ctx context.Context, leader string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for {
			changed := p.changed.wait()
			if id := p.leaderID(); id != "" && id != leader {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// recheckApplied looks up the calls of a group that this node passed by without
// the Observer: a snapshot was installed while the leader's answer was on its way.
func (p *Pipeline) recheckApplied(b batch, index uint64) {
	d := p.deps.Load()
	if d.state.Applied() < index {
		return
	}
	for _, c := range b.calls {
		p.lookUp(c)
	}
}
