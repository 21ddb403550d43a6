package propose

import (
	"time"

	"github.com/hashicorp/raft"
)

// Apply is part of Raft.
func (n *fakeNode) Apply(data []byte, _ time.Duration) raft.ApplyFuture {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	f := &fakeFuture{done: make(chan struct{}), data: data, term: n.myTerm, node: n}
	n.applies = append(n.applies, data)
	if len(n.nextErr) > 0 {
		f.respond(n.nextErr[0])
		n.nextErr = n.nextErr[1:]
		return f
	}
	if !n.leading {
		f.respond(raft.ErrNotLeader)
		return f
	}
	n.maxPending = max(n.maxPending, int(n.outstanding.Add(1)))
	f.counted = true
	if n.stalled || n.myTerm != n.c.term {
		n.uncommitted = append(n.uncommitted, f)
		return f
	}
	n.commit([]*fakeFuture{f})
	return f
}

// VerifyLeader is part of Raft.
func (n *fakeNode) VerifyLeader() raft.Future {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.verifies++
	f := &fakeFuture{done: make(chan struct{})}
	if verifying := n.verifying; verifying != nil {
		go func() { f.respond(verifying()) }()
		return f
	}
	switch {
	case !n.leading:
		f.respond(raft.ErrNotLeader)
	case n.myTerm != n.c.term && !n.blind:
		f.respond(raft.ErrLeadershipLost)
	default:
		f.respond(nil)
	}
	return f
}

// LeaderWithID is part of Raft.
func (n *fakeNode) LeaderWithID() (raft.ServerAddress, raft.ServerID) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return raft.ServerAddress(n.leaderID), raft.ServerID(n.leaderID)
}

// CurrentTerm is part of Raft.
func (n *fakeNode) CurrentTerm() uint64 {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.myTerm
}

// CommitIndex is part of Raft.
func (n *fakeNode) CommitIndex() uint64 {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return uint64(len(n.c.log))
}

// GetLog is part of Log.
func (n *fakeNode) GetLog(index uint64, log *raft.Log) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if index == 0 || index > uint64(len(n.c.log)) {
		return raft.ErrLogNotFound
	}
	e := n.c.log[index-1]
	*log = raft.Log{Index: index, Term: e.term, Type: raft.LogCommand, Data: e.data}
	return nil
}

// Voters is part of Raft.
func (n *fakeNode) Voters() (ids []string) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	for _, other := range n.c.nodes {
		if !n.outside {
			ids = append(ids, other.id)
		}
	}
	return ids
}
