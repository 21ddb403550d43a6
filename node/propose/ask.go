package propose

import (
	"context"

	"github.com/commons-cluster/commons/fsm/command"
)

// Ask asks the leader whether the rate limits and the daily byte budget have room for a
// command now. The log and the limits stay as they are, except that a wrong key is charged
// like a write. Errors: *command.RateLimited; *command.Unavailable if no leader answers
// before ReadIndexTimeout passes or ctx ends. Any other error means that the command is not
// valid for the log.
func (p *Pipeline) Ask(ctx context.Context, from command.Sender, payload command.Payload) (overBudget bool, err error) {
	c, err := p.newCall(from, payload)
	if err != nil {
		return false, err
	}
	c.Seq = 1
	g := command.Group{Boot: p.session.boot, Floor: c.Seq, Commands: []command.Command{c.Command}}
	ctx, cancel := context.WithTimeout(ctx, p.timing.readIndex)
	defer cancel()
	for failures := 1; ; failures++ {
		changed := p.changed.wait()
		r := p.askOnce(ctx, g)
		switch {
		case len(r.Rejected) > 0 && !r.Rejected[0].OverBudget:
			return false, &command.RateLimited{RetryAfter: r.Rejected[0].RetryAfter}
		case r.Status == statusApplied:
			return len(r.Rejected) > 0, nil
		}
		if !p.pause(ctx, changed, failures) {
			return false, &command.Unavailable{Code: command.CodeNoLeader, Reason: "no leader could be asked in time", Cause: r.cause}
		}
	}
}

func (p *Pipeline) askOnce(ctx context.Context, g command.Group) result {
	target := p.leaderID()
	switch target {
	case "":
		return notLeading()
	case p.self:
		return p.leader.ask(g)
	}
	ctx, stop := p.UntilAnotherLeads(ctx, target)
	defer stop()
	return p.peers.send(ctx, target, pathAsk, g)
}
