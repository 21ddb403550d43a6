package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
)

// bootstrapInterval is how often a node without state checks whether it should form a
// cluster, in addition to every change in gossip.
const bootstrapInterval = 500 * time.Millisecond

// Fresh reports whether this node has no state: no vote, log, snapshot or applied entry.
func (ms *Membership) Fresh() bool {
	return ms.cfg.Raft.CurrentTerm() == 0 && ms.cfg.Raft.LastIndex() == 0 && ms.cfg.Machine.Applied() == 0
}

// bootstrap forms a cluster if this node is the one to do so, and returns when the node
// has state or the context ends. A node that is to join a cluster waits here until the
// leader has added it.
func (ms *Membership) bootstrap(ctx context.Context) {
	joins := ms.cfg.Expect == 1 || ms.cfg.NonVoter
	if ms.Fresh() && joins && len(ms.cfg.Join) == 0 {
		ms.formCluster(ctx, []string{ms.cfg.ServerID})
		return
	}
	defer ms.waiting.Store(nil)
	tick := time.NewTicker(bootstrapInterval)
	defer tick.Stop()
	for ms.Fresh() {
		asker := func(id string) (peerAnswer, error) { return ms.peer(ctx, id) }
		var (
			voters []string
			reason obstacle
		)
		members := ms.cfg.Gossip.Members()
		if joins {
			reason = outsideOf(members, ms.cfg.ServerID, ms.cfg.Join)
		} else if voters, reason = firstVoters(members, ms.cfg.ServerID, ms.cfg.Expect, asker); reason.text == "" {
			ms.formCluster(ctx, voters)
			return
		}
		if problem := ms.cfg.Gossip.AddressProblem(); problem != "" && len(members) <= 1 {
			reason = obstacle{problem, true}
		}
		ms.reportWaiting(ctx, reason, ms.rejectedBy(ctx, members))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// obstacle is the reason why a node without state is not part of a cluster.
type obstacle struct {
	text  string
	wrong bool // an operator has to act
}

// reportWaiting shows the reason why this node waits in the log and in /readyz. The leader's reason
// takes precedence over the node's own.
func (ms *Membership) reportWaiting(ctx context.Context, seen, rejected obstacle) {
	if rejected.text != "" {
		seen = rejected
	}
	if was := ms.waiting.Swap(&seen.text); was != nil && *was == seen.text {
		return
	}
	level := slog.LevelInfo
	if seen.wrong {
		level = slog.LevelWarn
	}
	ms.cfg.Logger.Log(ctx, level, "not part of a cluster yet", "reason", seen.text)
}

// outsideOf returns the obstacle of a node that only joins a cluster.
func outsideOf(members []cluster.Member, self string, join []string) obstacle {
	others := slices.DeleteFunc(slices.Clone(members), func(m cluster.Member) bool { return m.ServerID == self })
	if len(others) == 0 {
		return obstacle{text: fmt.Sprintf("none of --join %s answers as a node with this one's secret; it is tried on", strings.Join(join, ","))}
	}
	for _, m := range others {
		if belongs(m) {
			return obstacle{text: fmt.Sprintf("waiting for the leader of the cluster of server %s to add this node", m.ServerID)}
		}
	}
	for _, m := range others {
		if m.Expect > 1 && !m.NonVoter {
			return obstacle{text: fmt.Sprintf("server %s waits for %d first voters; this node joins after them, because its --bootstrap-expect is 1", m.ServerID, m.Expect)}
		}
	}
	return obstacle{"every node here only joins, because --bootstrap-expect is 1; start those that are to form the cluster with their number", true}
}

// rejectedBy returns why this node cannot become part of the cluster: its program does
// not know the cluster's format, or the leader rejects it.
func (ms *Membership) rejectedBy(ctx context.Context, members []cluster.Member) obstacle {
	for _, m := range members {
		if !belongs(m) || m.ServerID == ms.cfg.ServerID {
			continue
		}
		p, err := ms.peer(ctx, m.ServerID)
		if err != nil {
			continue
		}
		if err := command.CheckFormat(p.Format, ms.cfg.Gossip.Meta().Format); err != nil {
			return obstacle{err.Error(), true}
		}
		if p.Leads && p.Rejected != "" {
			return obstacle{fmt.Sprintf("%s, which leads, rejects this node: %s", m.ServerID, p.Rejected), true}
		}
	}
	return obstacle{}
}

// firstVoters returns the ids of the first configuration, or why this node, self, must
// not create one now. It is called on a node without state.
func firstVoters(members []cluster.Member, self string, expect int, ask func(id string) (peerAnswer, error)) (ids []string, reason obstacle) {
	for _, m := range members {
		if belongs(m) && m.ServerID != self {
			return nil, obstacle{text: fmt.Sprintf("server %s is part of a cluster already; its leader will add this node", m.ServerID)}
		}
	}
	ids = freshPeers(members, self, expect)
	switch {
	case len(ids) < expect:
		return nil, tooFew(members, self, len(ids), expect)
	case len(ids) > expect:
		return nil, obstacle{text: fmt.Sprintf("%d nodes are here and each expects %d; start the others after the cluster has formed, or expect more", len(ids), expect)}
	case ids[0] != self:
		return nil, obstacle{text: fmt.Sprintf("%d of %d nodes are here; %s will form the cluster", len(ids), expect, ids[0])}
	}
	for _, id := range ids[1:] {
		p, err := ask(id)
		switch {
		case err != nil:
			return nil, obstacle{text: fmt.Sprintf("server %s does not answer on its private port", id)}
		case p.ClusterID != "" || !p.Fresh:
			return nil, obstacle{text: fmt.Sprintf("server %s has state already", id)}
		case p.ID != id || p.Expect != expect || !slices.Equal(p.Seen, ids):
			return nil, obstacle{text: fmt.Sprintf("server %s does not see the same nodes yet", id)}
		}
	}
	return ids, obstacle{}
}

// tooFew is the obstacle when fewer nodes are there than this one expects. It names a
// node that expects another number.
func tooFew(members []cluster.Member, self string, here, expect int) obstacle {
	reason := obstacle{text: fmt.Sprintf("%d of %d nodes are here", here, expect)}
	for _, m := range members {
		if m.ServerID != self && !belongs(m) && m.Expect != expect && !m.NonVoter {
			reason.text += fmt.Sprintf("; server %s was started with --bootstrap-expect %d, this node with %d: give the first voters the same number, and 1 to those that join later",
				m.ServerID, m.Expect, expect)
			reason.wrong = m.Expect > 1
			break
		}
	}
	return reason
}

// freshPeers returns the sorted ids of the live nodes without state that expect as many
// voters as self, including self.
func freshPeers(members []cluster.Member, self string, expect int) []string {
	ids := []string{self}
	for _, m := range members {
		if m.ServerID != self && !belongs(m) && m.Expect == expect && !m.NonVoter {
			ids = append(ids, m.ServerID)
		}
	}
	slices.Sort(ids)
	return ids
}

// belongs reports whether a member is, or was, part of a cluster.
func belongs(m cluster.Member) bool { return m.ClusterID != "" || !m.Fresh }

func (ms *Membership) formCluster(ctx context.Context, ids []string) {
	var c raft.Configuration
	for _, id := range ids {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	switch err := ms.cfg.Raft.BootstrapCluster(c).Error(); {
	case errors.Is(err, raft.ErrCantBootstrap): // another founder was faster
		ms.cfg.Logger.WarnContext(ctx, "the cluster could not be formed", "error", err)
		return
	case err != nil:
		// Raft may have stored a term, and allows no second attempt.
		ms.cfg.Fail(fmt.Errorf("the cluster could not be formed: %w; start this node again, and it begins anew", err))
		return
	}
	ms.cfg.Logger.InfoContext(ctx, "formed a cluster", "voters", strings.Join(ids, ","))
}
