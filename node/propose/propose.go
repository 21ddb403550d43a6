package propose

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// Propose replicates one command; one of the node itself, which the rate limits
// let pass, comes from nobody: the zero Sender. It returns the command's result, and the index
// of the log entry that carries it, once both this node and the leader have
// applied it. Errors: *api.RateLimited; *api.Unavailable with CodeNotEnqueued
// when the command will certainly never be applied, with CodeOutcomeUnknown when
// it may be; any other error says that the command is not fit for the log, and
// was not sent.
func (p *Pipeline) Propose(ctx context.Context, from command.Sender, body command.Payload) (command.Result, uint64, error) {
	size, err := p.fit(from, body)
	if err != nil {
		return command.Result{}, 0, err
	}
	c, err := p.session.add(from, body, size)
	if err != nil {
		return command.Result{}, 0, err
	}
	p.await(ctx, c, "the write was not confirmed in time")
	return c.result, c.index, c.err
}

// ProposeAsLeader brings a command of the node itself straight into this node's
// log, whether or not it leads already; Lead and Init go this way. There is no
// second attempt. It returns like Propose; errors wrap Raft's own.
func (p *Pipeline) ProposeAsLeader(ctx context.Context, body command.Payload) (command.Result, uint64, error) {
	size, err := p.fit(command.Sender{}, body)
	if err != nil {
		return command.Result{}, 0, err
	}
	if err := p.knowClocks(ctx); err != nil {
		return command.Result{}, 0, fmt.Errorf("propose %T as the leader: %w", body, err)
	}
	c, g, err := p.session.addInFlight(body, size)
	if err != nil {
		return command.Result{}, 0, err
	}
	v := p.leader.submitUrgent(ctx, g, size)
	if v.status != statusApplied {
		p.session.abandon(c, v.reason)
		if v.cause == nil {
			v.cause = errors.New(v.reason)
		}
		return command.Result{}, 0, fmt.Errorf("propose %T as the leader: %w", body, v.cause)
	}
	p.session.settle(parcel{calls: []*call{c}}, v)
	p.await(ctx, c, "the command was not applied in time")
	return c.result, c.index, c.err
}

// await returns once the call is answered: by the session, or for want of time.
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

// lookUp searches the newest view for a call that the leader has applied: the
// Observer is not told of what a snapshot brings.
func (p *Pipeline) lookUp(c *call) {
	d := p.deps.Load()
	if d == nil || !p.session.missing(c) {
		return
	}
	v := d.state.View()
	defer v.Release()
	p.session.recheck(c, v)
}

// fit is measure, and also refuses what not every node of the cluster knows yet.
func (p *Pipeline) fit(from command.Sender, body command.Payload) (int, error) {
	size, err := measure(p.session.boot, from, body)
	if err != nil {
		return 0, err
	}
	needs, d := command.FormatOf(body), p.deps.Load()
	if needs == command.InitialFormat || d == nil || d.state.Format() >= needs {
		return size, nil
	}
	return 0, &command.Unavailable{
		Code:   command.CodeNotEnqueued,
		Reason: fmt.Sprintf("not every node of the cluster is upgraded yet: this needs format %d, and the cluster has %d", needs, d.state.Format()),
	}
}

// measure returns an upper bound for the command's size in a group. It refuses
// what a state machine would refuse: a command that cannot be read must not get
// anywhere near the log, and one from another node is checked when it is decoded.
func measure(boot command.BootID, from command.Sender, body command.Payload) (int, error) {
	if body == nil {
		return 0, errors.New("no command")
	}
	if len(from.Fingerprint) > maxSenderBytes || len(from.AgentKey) > maxSenderBytes {
		return 0, fmt.Errorf("sender of %T: longer than %d bytes", body, maxSenderBytes)
	}
	if err := command.Check(body); err != nil {
		return 0, fmt.Errorf("%T is not fit for the log: %w", body, err)
	}
	data, err := command.EncodeGroup(command.Group{Boot: boot, Floor: 1, Commands: []command.Command{{Seq: 1, Payload: body}}})
	if err != nil {
		return 0, fmt.Errorf("encode %T: %w", body, err)
	}
	size := len(data) + commandReserve
	if size > maxCommandBytes {
		return 0, fmt.Errorf("%T takes %d bytes, more than %d", body, size, maxCommandBytes)
	}
	return size, nil
}
