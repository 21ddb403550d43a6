package node

import (
	"context"
	"time"
)

const (
	// lagInterval is how often a node asks the leader how far it is.
	lagInterval = time.Second
	// maxLag is for how long a node may lack what the leader has applied and still
	// call itself ready.
	maxLag = 5 * time.Second
)

// mark is an index that the leader had applied at a time, and this node had not.
type mark struct {
	index uint64
	since time.Time
}

// watchLag compares this node with the leader. Raft does not tell a node what it
// lacks while its own log takes nothing.
func (n *Node) watchLag(ctx context.Context) {
	tick := time.NewTicker(lagInterval)
	defer tick.Stop()
	for {
		n.compareWithLeader(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// compareWithLeader marks what the leader has and this node has not. What was
// marked before stays until it is applied: a leader's applied index is committed,
// so that it holds under every later leader.
func (n *Node) compareWithLeader(ctx context.Context) {
	leader := n.raft.LeaderID()
	if n.lag() > 0 || leader == "" || leader == n.identity.ServerID {
		return
	}
	asked := time.Now()
	applied, err := n.members.AppliedAt(ctx, leader)
	if err != nil {
		return // what Raft hears of the leader says enough
	}
	n.behind.Store(&mark{applied, asked})
}

// lag returns for how long this node has lacked what the leader had applied.
func (n *Node) lag() time.Duration {
	if m := n.behind.Load(); m != nil && n.machine.Applied() < m.index {
		return time.Since(m.since)
	}
	return 0
}

// wanted returns the index that the leader was last seen at.
func (n *Node) wanted() uint64 {
	if m := n.behind.Load(); m != nil {
		return m.index
	}
	return 0
}
