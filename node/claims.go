package node

import (
	"context"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// claimsInterval is how often the leader looks for claims that are due.
const claimsInterval = time.Second

// endClaims lets log time pass whenever a claim is due and nobody writes, for as
// long as this node leads. Correctness does not wait for it: a claim past its
// time counts as none in the next log entry, whatever that is.
func (n *Node) endClaims(ctx context.Context) {
	tick := time.NewTicker(claimsInterval)
	defer tick.Stop()
	for {
		for n.claimDue() {
			if _, _, err := n.pipeline.ProposeAsLeader(ctx, &command.Tick{}); err != nil {
				if ctx.Err() == nil {
					n.logger.WarnContext(ctx, "due claims were not ended; it is tried again", "error", err)
				}
				break
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// claimDue reports whether a command with this node's stamp would end a claim.
func (n *Node) claimDue() bool {
	v := n.machine.View()
	defer v.Release()
	at, ok := v.NextClaimEnd()
	return ok && at <= n.pipeline.Clocks().Stamp()
}
