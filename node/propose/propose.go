package propose

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// Propose replicates one command. A command of the node itself, which has no rate
// limit, has the zero Sender. It returns the command's result and the index of its log
// entry, once both this node and the leader have applied it. Errors:
// *command.RateLimited; *command.Unavailable with CodeNotEnqueued if the command will
// certainly never be applied, or with CodeOutcomeUnknown if it may be; any other error
// means that the command is not valid for the log, and was not sent.
func (p *Pipeline) Propose(ctx context.Context, from command.Sender, payload command.Payload) (command.Result, uint64, error) {
	c, err := p.newCall(from, payload)
	if err == nil {
		err = p.session.add(c)
	}
	if err != nil {
		return command.Result{}, 0, err
	}
	p.await(ctx, c, "the write was not confirmed in time")
	return c.result, c.index, c.err
}

// ProposeAsLeader puts a command of the node itself directly into this node's log, also
// before the node accepts writes as the leader; Lead and Init are sent so. It tries
// only once. It returns like Propose; errors wrap Raft's own.
func (p *Pipeline) ProposeAsLeader(ctx context.Context, payload command.Payload) (command.Result, uint64, error) {
	c, err := p.newCall(command.Sender{}, payload)
	if err != nil {
		return command.Result{}, 0, err
	}
	if err := p.knowClocks(ctx); err != nil {
		return command.Result{}, 0, fmt.Errorf("propose %T as the leader: %w", payload, err)
	}
	g, err := p.session.addInFlight(c)
	if err != nil {
		return command.Result{}, 0, err
	}
	r := p.leader.submitUrgent(ctx, g)
	if r.Status != statusApplied {
		p.session.abandon(c, r.Reason)
		if r.cause == nil {
			r.cause = errors.New(r.Reason)
		}
		return command.Result{}, 0, fmt.Errorf("propose %T as the leader: %w", payload, r.cause)
	}
	p.session.settle(batch{calls: []*call{c}}, r)
	p.await(ctx, c, "the command was not applied in time")
	return c.result, c.index, c.err
}

// await returns once the call is answered: by the session, or by a timeout.
func (p *Pipeline) await(ctx context.Context, c *call, reason string) {
	deadline := time.Now().Add(p.timing.propose)
	timer := time.NewTimer(min(p.timing.recheck, p.timing.propose))
	defer timer.Stop()
	for expired := false; ; {
		select {
		case <-c.done:
			return
		case <-ctx.Done():
			p.session.abandon(c, reason)
			return
		case <-timer.C:
		}
		p.lookUp(c)
		left := time.Until(deadline)
		switch {
		case left > 0:
			timer.Reset(min(p.timing.recheck, left))
		case !expired:
			expired = true
			p.session.expire(c, reason)
			timer.Reset(p.timing.grace)
		default:
			p.session.abandon(c, reason)
			return
		}
	}
}

// lookUp searches the newest view for a call that the leader has applied: the Observer
// does not see results from a snapshot.
func (p *Pipeline) lookUp(c *call) {
	d := p.deps.Load()
	if d == nil || !p.session.missing(c) {
		return
	}
	v := d.state.View()
	defer v.Release()
	p.session.recheck(c, v)
}

// newCall encodes a command once; the bytes are used until it is applied. It rejects a
// command that a state machine could not apply, that is too large, or that not every
// node of the cluster knows yet.
func (p *Pipeline) newCall(from command.Sender, payload command.Payload) (*call, error) {
	data, err := command.Encode(payload)
	if err != nil {
		return nil, err
	}
	c := newCall(from, payload, data)
	if c.size > maxCommandBytes {
		return nil, fmt.Errorf("%T takes %d bytes, more than %d", payload, c.size, maxCommandBytes)
	}
	if len(from.Fingerprint) > command.MaxNameKeyBytes || len(from.AgentKey) > command.MaxNameKeyBytes {
		return nil, fmt.Errorf("sender of %T: longer than %d bytes", payload, command.MaxNameKeyBytes)
	}
	if reason := p.tooNew(payload); reason != "" {
		return nil, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: reason}
	}
	return c, nil
}

// tooNew returns why a payload must not enter the log yet; "" if it may, as far as this
// node knows.
func (p *Pipeline) tooNew(payload command.Payload) string {
	needs, d := command.FormatOf(payload), p.deps.Load()
	if needs == command.InitialFormat || d == nil {
		return ""
	}
	if has := d.state.Format(); needs > has {
		return fmt.Sprintf("not every node of the cluster is upgraded yet: this needs format %d, and the cluster has %d", needs, has)
	}
	return ""
}

// send is one of the node's senders: it sends waiting commands to the leader, one group
// at a time, until the Pipeline is closed.
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

// UntilAnotherLeads returns a context that ends with ctx, or when another server leads
// than the given one: an old leader may never answer, and a retry costs little. That no
// leader is known is no reason, as there would be nobody to turn to.
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
