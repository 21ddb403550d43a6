package propose

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/trace"
)

// Propose replicates one command. It returns the command's result and the index of its log
// entry once both this node and the leader have applied it. The zero Sender is for commands
// of the node itself, which have no rate limit. Errors: *command.RateLimited;
// *command.Unavailable with CodeNotEnqueued if the command will certainly never be applied,
// or with CodeOutcomeUnknown if it may be applied. Any other error means that the command is
// not valid for the log and was not sent.
func (p *Pipeline) Propose(ctx context.Context, from command.Sender, payload command.Payload) (command.Result, uint64, error) {
	c, err := p.newCall(from, payload)
	if err == nil {
		c.trace = trace.From(ctx)
		err = p.session.add(c)
	}
	if err != nil {
		return command.Result{}, 0, err
	}
	p.await(ctx, c, "the write was not confirmed in time")
	return c.result, c.index, c.err
}

// ProposeAsLeader puts a command of the node itself directly into this node's log, also
// before the node accepts writes as the leader. Lead and Init are sent this way. It tries
// once and returns like Propose; its errors wrap Raft's.
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
	p.session.update(batch{calls: []*call{c}}, r)
	p.await(ctx, c, "the command was not applied in time")
	return c.result, c.index, c.err
}

// await returns once the call is answered by the session, or by a timeout.
func (p *Pipeline) await(ctx context.Context, c *call, reason string) {
	timer := time.NewTimer(p.timing.propose)
	defer timer.Stop()
	for range 2 {
		select {
		case <-c.done:
			return
		case <-ctx.Done():
			p.session.abandon(c, reason)
			return
		case <-timer.C:
			p.session.expire(c, reason)
			timer.Reset(p.timing.grace)
		}
	}
	p.session.abandon(c, reason)
}

// newCall returns a call with the encoded command; every attempt uses these bytes. It
// rejects a command that a state machine could not apply, that is too large, or that not
// every node of the cluster knows yet.
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

// tooNew returns the reason why a payload must not enter the log yet, according to this
// node's state. It is empty if the payload may.
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

// send sends waiting commands to the leader, one group at a time, until the Pipeline is
// closed. MaxInFlight goroutines run it.
func (p *Pipeline) send() {
	failures := 0
	for p.session.awaitWork() {
		changed := p.changed.wait()
		target := p.leaderID()
		if target == "" {
			// The commands stay in the queue, so that their callers can still withdraw them.
			failures++
			p.pause(p.ctx, changed, failures)
			continue
		}
		b := p.session.take()
		if len(b.calls) == 0 {
			continue
		}
		r := p.attempt(target, b)
		p.session.update(b, r)
		if r.Status == statusApplied {
			failures = 0
			continue
		}
		failures++
		p.pause(p.ctx, changed, failures)
	}
}

// attempt sends a batch to the leader, and ends when another server leads.
func (p *Pipeline) attempt(target string, b batch) result {
	if target == p.self {
		return p.leader.submit(p.ctx, b.group)
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.timing.attempt)
	defer cancel()
	ctx, stop := p.UntilAnotherLeads(ctx, target)
	defer stop()
	return p.peers.send(ctx, target, b.group, b.traces()...)
}
