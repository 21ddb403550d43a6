package consensus

import (
	"sync"

	"github.com/hashicorp/raft"
)

// notices tell followers of a commit as soon as this node, which leads, applies it.
// Raft itself tells them with the next log entries, or after the commit timeout.
//
// A notice is an AppendEntries without entries. Raft's follower commits the lower of
// LeaderCommitIndex and its own last index, wherever the request's entries end, so a
// notice must not say more than what the follower holds for certain
// (docs/decisions/0013-commit-notices.md):
//
//   - Term, PrevLogEntry and PrevLogTerm are those of one request that the follower
//     answered with success: up to there its log is that of the term's leader.
//   - LeaderCommitIndex is the lower of PrevLogEntry and the newest entry of the same
//     term that was applied here, whoever leads by now.
//
// Answers feed nothing: neither the leader's lease nor its reads count them.
type notices struct {
	send func(raft.ServerID, raft.ServerAddress, *raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error

	mu      sync.Mutex
	term    uint64 // the newest in which this node sent requests
	applied uint64 // the newest entry of the term that was applied; 0: none
	peers   map[raft.ServerID]*told
}

// told is what a follower matched, and was told, in the term.
type told struct {
	id      raft.ServerID
	address raft.ServerAddress
	matched raft.AppendEntriesRequest // without entries; PrevLogEntry 0: nothing yet
	asked   uint64                    // the newest entry that was sent
	commit  uint64                    // a request with it has gone out
	sending bool
}

// lastOf returns the index and the term up to which a follower that takes the request
// has the leader's log.
func lastOf(req *raft.AppendEntriesRequest) (index, term uint64) {
	if n := len(req.Entries); n > 0 {
		return req.Entries[n-1].Index, req.Entries[n-1].Term
	}
	return req.PrevLogEntry, req.PrevLogTerm
}

// sent records a request of Raft's own that goes out: it brings a commit itself.
func (n *notices) sent(id raft.ServerID, address raft.ServerAddress, req *raft.AppendEntriesRequest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if req.Term < n.term {
		return
	}
	if req.Term > n.term {
		n.term, n.applied, n.peers = req.Term, 0, map[raft.ServerID]*told{}
	}
	p := n.peers[id]
	if p == nil {
		p = &told{id: id}
		n.peers[id] = p
	}
	p.address = address
	last, _ := lastOf(req)
	p.asked = max(p.asked, last)
	p.commit = max(p.commit, min(req.LeaderCommitIndex, last))
}

// answered records what the answer to a request of Raft's own proves.
func (n *notices) answered(id raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) {
	index, term := lastOf(req)
	if !resp.Success || resp.Term != req.Term {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[id]
	if req.Term != n.term || p == nil || index <= p.matched.PrevLogEntry {
		return
	}
	p.matched = raft.AppendEntriesRequest{
		RPCHeader: req.RPCHeader,
		Term:      req.Term, PrevLogEntry: index, PrevLogTerm: term,
	}
	n.notify(p)
}

// committed records that an entry is about to be applied here.
func (n *notices) committed(index, term uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if term != n.term || index <= n.applied {
		return
	}
	n.applied = index
	for _, p := range n.peers {
		n.notify(p)
	}
}

// news returns the commit that a follower is to be told of now; 0: nothing. While
// entries are under way to it, it would come to read a notice only after it has stored
// them: under load the next ones have told it by then. The lock is held.
func (n *notices) news(p *told) uint64 {
	commit := min(n.applied, p.matched.PrevLogEntry)
	if p.matched.Term != n.term || commit <= p.commit || p.asked > p.matched.PrevLogEntry {
		return 0
	}
	return commit
}

// notify sends a follower what it was not told yet, one notice at a time. The lock is
// held.
func (n *notices) notify(p *told) {
	if !p.sending && n.news(p) > 0 {
		p.sending = true
		go n.sendTo(p)
	}
}

// sendTo sends notices until the follower was told everything, or is out of reach:
// then Raft's next request tells it.
func (n *notices) sendTo(p *told) {
	for err := error(nil); ; {
		req, address := n.next(p, err)
		if req == nil {
			return
		}
		err = n.send(p.id, address, req, &raft.AppendEntriesResponse{})
	}
}

// next returns the notice that a follower needs; nil when it needs none, or the last
// one failed.
func (n *notices) next(p *told, failed error) (*raft.AppendEntriesRequest, raft.ServerAddress) {
	n.mu.Lock()
	defer n.mu.Unlock()
	commit := n.news(p)
	if failed != nil || commit == 0 {
		p.sending = false
		return nil, ""
	}
	p.commit = commit
	req := p.matched
	req.LeaderCommitIndex = commit
	return &req, p.address
}
