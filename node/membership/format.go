package membership

import (
	"context"
	"math"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"

	"github.com/commons-cluster/commons/node/loop"
)

// raiseFormat raises the replicated format number as soon as every server's
// program knows a newer one, for as long as this node leads. Until then nothing
// enters the log that an old program cannot read.
func (ms *Membership) raiseFormat(ctx context.Context) {
	loop.Every(ctx, ms.cfg.ReconcileInterval, func(ctx context.Context) {
		has := ms.cfg.Machine.Format()
		all := commonFormat(ms.cfg.Raft.Servers(), ms.cfg.Gossip.Members(), ms.cfg.ClusterID())
		if all <= has {
			return
		}
		if err := ms.cfg.Propose(ctx, &command.SetFormat{Format: all}); err != nil {
			if ctx.Err() == nil {
				ms.cfg.Logger.WarnContext(ctx, "the format was not raised; it is tried again", "error", err)
			}
			return
		}
		ms.cfg.Logger.InfoContext(ctx, "raised the format: every node is upgraded", "from", has, "to", all)
	})
}

// commonFormat returns the newest format that every server knows, and every live
// node of the cluster or that may join it; 0 while a server is away and so says
// nothing.
func commonFormat(servers []raft.Server, members []cluster.Member, clusterID string) int {
	known := make(map[string]int, len(members))
	common := command.InitialFormat
	if len(members) > 0 {
		common = math.MaxInt
	}
	for _, m := range members {
		known[m.ServerID] = max(m.Format, command.InitialFormat)
		if m.ClusterID == "" || m.ClusterID == clusterID {
			common = min(common, known[m.ServerID])
		}
	}
	for _, s := range servers {
		if known[string(s.ID)] == 0 {
			return 0
		}
	}
	return common
}
