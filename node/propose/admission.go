package propose

import (
	"slices"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// Limiter holds the rate limits. Only the leader uses it.
type Limiter interface {
	// Admit takes one write from the allowances of the sender and of the name, which depend
	// on the standing of its proof. If one of them is used up, Admit leaves all as they are
	// and returns the time until the next try.
	Admit(from command.Sender, standing command.Standing) (ok bool, retryAfter time.Duration)
	// Refund gives back what Admit took for a write, within a limit of its own.
	Refund(from command.Sender, standing command.Standing)
}

// Assess judges a command of this size: the standing of its proof, whether the state has
// its request_id already, so that repeating it is free, and whether the daily byte budget
// has room for it.
type Assess func(p command.Payload, bytes int) (standing command.Standing, repeated, fits bool)

// admission checks the rate limits and the daily byte budget on the leader.
type admission struct {
	limiter Limiter
	assess  Assess
}

// chargedClaim is a claim of a job that was charged, with the standing that chose the
// allowances.
type chargedClaim struct {
	seq      uint64
	from     command.Sender
	standing command.Standing
}

// admit checks each command that no leader has charged yet. It returns the group without
// the commands over a limit, and the claims that were charged. A repeated command is free.
// Commands of a node itself have no sender and no limit. The sending node declares whether a
// command was charged: nodes trust each other.
func (a *admission) admit(g command.Group) (_ command.Group, claims []chargedClaim, over []rejection) {
	admitted := make([]command.Command, 0, len(g.Commands))
	for i, c := range g.Commands {
		if c.From.Charged || c.From == (command.Sender{}) {
			admitted = append(admitted, c)
			continue
		}
		standing, repeated, fits := a.assess(c.Payload, len(c.Data))
		if !repeated {
			if ok, wait := a.limiter.Admit(c.From, standing); !ok {
				over = append(over, rejection{Position: i, RetryAfter: wait})
				continue
			}
			if !fits {
				over = append(over, rejection{Position: i, OverBudget: true})
				continue
			}
			if _, isClaim := c.Payload.(*command.ClaimJob); isClaim {
				claims = append(claims, chargedClaim{c.Seq, c.From, standing})
			}
		}
		admitted = append(admitted, c)
	}
	g.Commands = admitted
	return g, claims, over
}

// lostClaim are the problems of a claim whose only fault is that another agent came first.
var lostClaim = []command.Problem{command.ProblemJobClaimed}

// refundLost refunds the applied claims that lost their job to another claim. The state that
// their node showed had the job open, so their senders could not know better.
func (a *admission) refundLost(s State, boot command.BootID, claims []chargedClaim) {
	if len(claims) == 0 {
		return
	}
	v := s.View()
	defer v.Release()
	results := v.Results(boot)
	for _, c := range claims {
		if r := results[c.seq]; r.Outcome == command.OutcomeRejected && slices.Equal(r.Problems, lostClaim) {
			a.limiter.Refund(c.from, c.standing)
		}
	}
}
