package node

import (
	"context"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/loop"
)

const (
	// sweepInterval is how often the leader looks for entries that are older than their
	// retention.
	sweepInterval = 10 * time.Second
	// sweepPause is the pause between two sweeps in a row, so that other writes get
	// through.
	sweepPause = 50 * time.Millisecond
)

// sweepExpired turns entries that are older than the retention of their channels into
// stubs, for as long as this node leads.
func (n *Node) sweepExpired(ctx context.Context) {
	kept := uint64(0) // from where the next look goes on among those that were kept
	loop.Every(ctx, sweepInterval, func(ctx context.Context) {
		for {
			next, to, err := n.nextSweep(kept)
			kept = to
			if err == nil && next == nil {
				return
			}
			if err == nil {
				_, _, err = n.pipeline.ProposeAsLeader(ctx, next)
			}
			if err != nil && ctx.Err() == nil {
				n.logger.WarnContext(ctx, "what is older than its retention was not swept; it is tried again", "error", err)
			}
			if err != nil {
				return
			}
			if !loop.Pause(ctx, sweepPause) {
				return
			}
		}
	})
}

// nextSweep returns the next sweep at this node's stamp; nil if nothing is due.
func (n *Node) nextSweep(kept uint64) (*command.Sweep, uint64, error) {
	v := n.machine.View()
	defer v.Release()
	return v.NextSweep(n.pipeline.Clocks().Stamp(), kept)
}
