package node

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/api"
)

const (
	// maxReadyLag is how many committed log entries a node may have to apply and
	// still call itself ready. Some entries never reach a state machine.
	maxReadyLag = 1024
	// catchUpRetry is the pause between two looks at how far behind this node is.
	catchUpRetry = 100 * time.Millisecond
	// catchUpWait is within what time a node that counts as caught up applies what
	// the leader had when it was asked. It is well below maxLag, so that a node
	// that is just too slow does not change its mind all the time.
	catchUpWait = time.Second
	// electionGrace is for how many times as long as an election takes at least a
	// node calls itself ready without a leader. It keeps writes and answers reads
	// meanwhile; a load balancer that left it would have the old leader alone, which
	// may hang.
	electionGrace = 3
)

func (n *Node) status() api.Status {
	v := n.machine.View()
	format := v.Format()
	v.Release()
	s := api.Status{
		Node: n.identity.ServerID, Role: role(n.raft.State()), Term: n.raft.CurrentTerm(),
		AppliedIndex: n.machine.Applied(), CommitIndex: n.raft.CommitIndex(),
		Voters: n.raft.Voters(), Version: n.cfg.Version,
		UptimeMillis: time.Since(n.started).Milliseconds(), Format: format, Membership: n.members.Part(),
	}
	if id := n.raft.LeaderID(); id != "" {
		s.Leader = &id
	}
	if d := n.disk.Load(); d != nil {
		s.Disk = &api.DiskStatus{FreeBytes: d.free, ReserveBytes: d.reserve, Low: d.low}
	}
	if failure := n.logFailure.Load(); failure != nil {
		text := (*failure).Error()
		s.LogFailure = &text
	}
	return s
}

func role(s raft.RaftState) string {
	switch s {
	case raft.Leader:
		return "leader"
	case raft.Candidate:
		return "candidate"
	default:
		return "follower"
	}
}

// checks are the conditions of readiness.
func (n *Node) checks() []api.Check {
	leader, applied, commit := n.raft.LeaderID(), n.machine.Applied(), n.raft.CommitIndex()
	running := api.Check{Name: "running", OK: !n.stopping.Load(), Detail: "the node runs"}
	if !running.OK {
		running.Detail = "the node is shutting down"
	}
	known := api.Check{Name: "leader", OK: n.led(), Detail: leader + " leads"}
	if leader == "" {
		known.Detail = "no leader is known"
	}
	member := n.memberCheck()
	caughtUp := api.Check{
		Name: "caught-up", OK: n.caughtUp.Load() && applied+maxReadyLag >= commit,
		Detail: fmt.Sprintf("applied %d of %d", applied, max(applied, commit, n.wanted())),
	}
	if lag := n.lag(); lag > maxLag {
		caughtUp.Detail += fmt.Sprintf(", behind the leader for %v", lag.Round(time.Second))
	} else if !n.caughtUp.Load() {
		caughtUp.Detail += ", not caught up with the leader since it was last heard of, or too far ahead"
	}
	return []api.Check{running, known, member, caughtUp, n.logCheck(), n.diskCheck()}
}

// memberCheck is whether this node is part of the cluster that it is meant for.
func (n *Node) memberCheck() api.Check {
	c := api.Check{Name: "cluster", OK: n.fingerprints.Load() != nil, Detail: "part of cluster " + n.clusterID()}
	waiting := n.members.Waiting()
	stranger, strange := n.gossip.Stranger()
	switch {
	case n.members.Outside():
		c.OK, c.Detail = false, "this server was removed from its cluster; stop it, or empty its data directory and start it to join as a new server"
	case strange && len(n.gossip.Members()) <= 1:
		c.OK, c.Detail = false, fmt.Sprintf("this node belongs to cluster %s and is alone, and %s at the join address %s belongs to cluster %s; empty this node's data directory to join that, or take the address out of --join",
			n.clusterID(), stranger.ServerID, stranger.GossipAddr, stranger.ClusterID)
	case n.clusterID() == "" && waiting != "":
		c.Detail = "not part of a cluster yet: " + waiting
	case n.clusterID() == "":
		c.Detail = "not part of a cluster yet"
	case !c.OK && !n.named():
		c.Detail = fmt.Sprintf("cluster %s is not led yet: its first command is not applied here", n.clusterID())
	case !c.OK:
		c.Detail = "the cluster's data key cannot be opened with this node's secret"
	}
	return c
}

// led reports whether there is a leader, or was so recently that the next one may be
// elected any moment.
func (n *Node) led() bool {
	return n.raft.LeaderID() != "" || time.Since(n.raft.LastContact()) < electionGrace*(n.cfg.Heartbeat+n.cfg.Election)
}

// named reports whether the state has the cluster's name, and with it its data key.
func (n *Node) named() bool {
	v := n.machine.View()
	defer v.Release()
	return v.ClusterID() != ""
}

// watchCatchUp finds out whether this node has everything that was acknowledged
// before it started, lost the leader, or fell behind it: Raft tells a follower
// only of commits that its own log has reached.
func (n *Node) watchCatchUp(ctx context.Context) {
	for ctx.Err() == nil {
		if !n.led() || n.lag() > maxLag {
			n.caughtUp.Store(false)
		}
		if !n.caughtUp.Load() && n.raft.LeaderID() != "" && n.catchUp(ctx) {
			n.caughtUp.Store(true)
			if !n.wasReady.Swap(true) {
				n.logger.InfoContext(ctx, "ready", "http", n.HTTPAddr(), "after", time.Since(n.started).Round(time.Millisecond).String())
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(catchUpRetry):
		}
	}
}

// catchUp asks the leader for its index and reports whether it is applied here
// soon.
func (n *Node) catchUp(ctx context.Context) bool {
	index, err := n.pipeline.ReadIndex(ctx)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpWait)
	defer cancel()
	return n.machine.Wait(ctx, index) == nil
}

// Digest returns the running hash over everything the state machine has applied
// up to index. Nodes of one cluster have equal digests at equal indexes.
func (n *Node) Digest() (index uint64, digest [32]byte) { return n.machine.Digest() }
