package consensus

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Pauses between attempts to send log entries to a server that is out of reach.
const (
	minResend = 10 * time.Millisecond
	maxResend = 250 * time.Millisecond
)

// maxHandOff is how long a pipeline may take to accept log entries. Each answer that it
// still waits for has raftIOTimeout.
const maxHandOff = 2 * raftIOTimeout

// transport is Raft's network transport, with another treatment of log entries for an
// unreachable server. Raft waits up to ten seconds between two attempts. A follower
// that comes back gets no entries until then, and the loss of another one in that time
// would stop all writes. Here the attempt itself continues until the server is back.
type transport struct {
	*raft.NetworkTransport
	log     queue
	terms   *terms
	covered func() uint64 // see Hooks
	notices *notices
	raft    atomic.Pointer[raft.Raft] // nil until Raft runs
	once    sync.Once
	end     chan struct{}

	requests   chan raft.RPC // for Raft's main goroutine
	heartbeats chan raft.RPC // that are not handled beside it
	discards   chan chan struct{}
	// snapshotting has a value while a snapshot is taken or received, or the log is cut. It is not a
	// sync.Mutex: a waiter also watches end, and virtual time stands still for a mutex's waiters.
	snapshotting chan struct{}
}

func newTransport(log queue, terms *terms, covered func() uint64, inner *raft.NetworkTransport) *transport {
	t := &transport{
		NetworkTransport: inner, log: log, terms: terms, covered: covered, notices: &notices{send: inner.AppendEntries}, end: make(chan struct{}),
		requests: make(chan raft.RPC), heartbeats: make(chan raft.RPC), discards: make(chan chan struct{}), snapshotting: make(chan struct{}, 1),
	}
	go t.forward()
	return t
}

// AppendEntries sends log entries, or a heartbeat, to a server. Like all requests of a
// leader it is rejected in a term in which this node was not elected.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := t.terms.elected(req.Term)
	if err != nil {
		return err
	}
	if isHeartbeat(req) {
		return t.NetworkTransport.AppendEntries(id, target, req, resp)
	}
	to := t.link(id, target)
	to.sent(req)
	err = persist(t.end, func() error {
		*resp = raft.AppendEntriesResponse{}
		err := t.NetworkTransport.AppendEntries(id, target, req, resp)
		if half := len(req.Entries) / 2; err != nil && half > 0 {
			req.Entries = req.Entries[:half] // over a slow link, all of them may never arrive in time
			to.sent(req)
		}
		return err
	}, func() bool { return t.wanted(id, req.Term) })
	if err == nil {
		t.notices.answered(id, req, resp)
	}
	return err
}

// AppendEntriesPipeline opens a pipeline of log entries to a server. It is denied once to a server
// that lacks more entries than one message holds: Raft then sends these first. In a pipeline it
// sends one message for each new entry or commit timeout, so a follower that comes back to an idle
// leader would lag for long.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	if r := t.raft.Load(); r != nil && t.notices.deny(id, r.LastIndex()) {
		return nil, raft.ErrPipelineReplicationNotSupported
	}
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return newPipeline(inner, t.end, maxHandOff, t.link(id, target)), nil
}

func (t *transport) link(id raft.ServerID, target raft.ServerAddress) link {
	return link{t.log, t.terms, t.notices, id, target}
}

// stop ends the running attempts. Raft waits for them when it is shut down.
func (t *transport) stop() { t.once.Do(func() { close(t.end) }) }

// queue is this node's log, such as *logstore.Store: where it begins, and the entries that
// it has accepted and not written yet.
type queue interface {
	FirstIndex() (uint64, error)
	Unwritten() uint64
	WaitWritten(index uint64) error
}

// link is the connection to one follower, as the log and the notices see it.
type link struct {
	log     queue
	terms   *terms
	notices *notices
	id      raft.ServerID
	target  raft.ServerAddress
}

// written lowers a commit index that Raft gave before the call below what the log has not
// written. Raft counts this node among those that have an entry while the log still writes
// it, so that such an entry may not be committed
// (docs/decisions/0016-the-leader-writes-while-it-sends.md).
func written(log queue, commit uint64) uint64 {
	if unwritten := log.Unwritten(); unwritten > 0 {
		return min(commit, unwritten-1)
	}
	return commit
}

// sent is called before one of Raft's own requests goes out. It lowers the commit index
// to the last entry up to which the request shows that the logs match: a follower commits
// up to that index, also entries of another leader that its log has behind the request's.
func (l link) sent(req *raft.AppendEntriesRequest) {
	last, _ := lastOf(req)
	req.LeaderCommitIndex = min(written(l.log, req.LeaderCommitIndex), last)
	l.notices.sent(l.id, l.target, req)
}

// pipeline is a pipeline that cannot block its sender forever, and that the notices
// observe. When a server reports a newer term, Raft stops reading answers, and may then
// send one request more than the pipeline has room for. Without the limit, that sender
// and the heartbeats of the old term would run until the process ends, and Raft waits
// for them when it is shut down.
type pipeline struct {
	raft.AppendPipeline
	link
	limit    time.Duration
	answered chan raft.AppendFuture
	once     sync.Once
	closed   chan struct{}
}

// newPipeline wraps inner, and closes it when end is closed or when inner takes longer
// than limit to accept a request.
func newPipeline(inner raft.AppendPipeline, end <-chan struct{}, limit time.Duration, to link) *pipeline {
	p := &pipeline{AppendPipeline: inner, link: to, limit: limit, answered: make(chan raft.AppendFuture), closed: make(chan struct{})}
	go p.run(end)
	return p
}

// run passes answers on to Raft until the pipeline is closed or end is.
func (p *pipeline) run(end <-chan struct{}) {
	var first raft.AppendFuture
	var out chan<- raft.AppendFuture // nil while there is no answer
	in := p.AppendPipeline.Consumer()
	for {
		select {
		case first = <-in:
			in, out = nil, p.answered
			p.notices.answered(p.id, first.Request(), first.Response())
		case out <- first:
			in, out = p.AppendPipeline.Consumer(), nil
		case <-end:
			_ = p.Close() // releases a connection; cannot fail
			return
		case <-p.closed:
			return
		}
	}
}

// Consumer returns the answers, in the order of the requests.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answered }

// AppendEntries sends log entries, and waits until there is room for their answer.
func (p *pipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if err := p.terms.elected(req.Term); err != nil {
		return nil, err
	}
	late := time.AfterFunc(p.limit, func() { _ = p.Close() })
	defer late.Stop()
	p.sent(req)
	return p.AppendPipeline.AppendEntries(req, resp)
}

// Close ends the pipeline, and a call that waits in AppendEntries.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.AppendPipeline.Close()
}

// isHeartbeat recognises heartbeats: Raft sends them from a separate goroutine and
// paces them itself.
func isHeartbeat(req *raft.AppendEntriesRequest) bool {
	return len(req.Entries) == 0 && req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && req.LeaderCommitIndex == 0
}

// wanted reports whether an attempt has to be repeated: this node still leads in the term, and the
// server is still in the configuration.
func (t *transport) wanted(id raft.ServerID, term uint64) bool {
	r := t.raft.Load()
	if r == nil || r.State() != raft.Leader || r.CurrentTerm() != term {
		return false
	}
	future := r.GetConfiguration()
	return future.Error() == nil && Contains(future.Configuration().Servers, string(id))
}

// persist calls send until it succeeds, is not wanted any more, or end is closed,
// and returns its last error.
func persist(end <-chan struct{}, send func() error, wanted func() bool) error {
	for pause := minResend; ; pause = min(2*pause, maxResend) {
		err := send()
		if err == nil {
			return nil
		}
		select {
		case <-end:
			return err
		case <-time.After(pause):
		}
		if !wanted() {
			return err
		}
	}
}

// notices notify followers of a commit as soon as the leader applies it. Raft itself
// notifies them with the next log entries, or after the commit timeout.
//
// A notice is an AppendEntries without entries. A Raft follower commits the lower of
// LeaderCommitIndex and its own last index, wherever the request's entries end. So a
// notice must not name more than the follower is known to have
// (docs/decisions/0013-commit-notices.md):
//
//   - Term, PrevLogEntry and PrevLogTerm are from one request that the follower
//     answered with success: up to there its log matches the leader's.
//   - LeaderCommitIndex is the lower of PrevLogEntry and the newest entry of the same
//     term that was applied here, even if another node leads by now.
//
// Answers to notices are ignored: they extend no lease and confirm no read.
type notices struct {
	send func(raft.ServerID, raft.ServerAddress, *raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error
	// pauses are told of the followers' progress.
	pauses snapshotPauses

	mu      sync.Mutex
	term    uint64 // the newest in which this node sent requests
	applied uint64 // the newest entry of the term that was applied, or 0
	peers   map[raft.ServerID]*progress
}

// progress is the position of a follower in the term: confirmed, and sent to it.
type progress struct {
	id      raft.ServerID
	address raft.ServerAddress
	matched raft.AppendEntriesRequest // without entries; its PrevLogEntry is 0 before the first confirmation
	asked   uint64                    // the newest entry that was sent
	commit  uint64                    // a request with it has gone out
	sending bool
	denied  bool // a pipeline, when one was last asked for
	// transfer is true from a transfer of leadership to the follower until its next answer.
	transfer bool
}

// lastOf returns the index and the term up to which a follower has the leader's log
// once it has accepted the request.
func lastOf(req *raft.AppendEntriesRequest) (index, term uint64) {
	if n := len(req.Entries); n > 0 {
		return req.Entries[n-1].Index, req.Entries[n-1].Term
	}
	return req.PrevLogEntry, req.PrevLogTerm
}

// sent records one of Raft's own requests, which carries a commit index, too.
func (n *notices) sent(id raft.ServerID, address raft.ServerAddress, req *raft.AppendEntriesRequest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if req.Term < n.term {
		return
	}
	if req.Term > n.term {
		n.term, n.applied, n.peers = req.Term, 0, map[raft.ServerID]*progress{}
	}
	p := n.peers[id]
	if p == nil {
		p = &progress{id: id}
		n.peers[id] = p
	}
	p.address = address
	last, _ := lastOf(req)
	p.asked = max(p.asked, last)
	p.commit = max(p.commit, min(req.LeaderCommitIndex, last))
}

// answered records what the answer to one of Raft's own requests proves.
func (n *notices) answered(id raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) {
	index, term := lastOf(req)
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[id]
	if req.Term != n.term || p == nil {
		return
	}
	p.transfer = false
	if !resp.Success || resp.Term != req.Term || index <= p.matched.PrevLogEntry {
		return
	}
	p.matched = raft.AppendEntriesRequest{
		RPCHeader: req.RPCHeader,
		Term:      req.Term, PrevLogEntry: index, PrevLogTerm: term,
	}
	n.pauses.advanced(id, index)
	n.notify(p)
}

// beginTransfer reports whether leadership may be transferred to a follower: it has answered
// a request of this term since the last attempt. An attempt to one that does not answer only
// delays writes.
func (n *notices) beginTransfer(id raft.ServerID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[id]
	if p == nil || p.transfer {
		return false
	}
	p.transfer = true
	return true
}

// has reports whether a follower has the leader's log of a term up to an index.
func (n *notices) has(id raft.ServerID, term, index uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[id]
	return term == n.term && p != nil && p.matched.PrevLogEntry >= index
}

// deny reports whether a follower is to get the missing part of the log, up to an entry,
// before it gets a pipeline; never twice in a row, as more may be written meanwhile.
func (n *notices) deny(id raft.ServerID, last uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[id]
	if p == nil {
		return false
	}
	p.denied = !p.denied && last > p.matched.PrevLogEntry+maxAppendEntries
	return p.denied
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

// pendingCommit returns the commit index to send to a follower now, or 0. While
// entries are in flight to it, a notice would be read only after they are stored, and
// under load the next entries bring the commit index sooner. The lock is held.
func (n *notices) pendingCommit(p *progress) uint64 {
	commit := min(n.applied, p.matched.PrevLogEntry)
	if p.matched.Term != n.term || commit <= p.commit || p.asked > p.matched.PrevLogEntry {
		return 0
	}
	return commit
}

// notify sends a follower a commit index that it does not have yet, one notice at a
// time. The lock is held.
func (n *notices) notify(p *progress) {
	if !p.sending && n.pendingCommit(p) > 0 {
		p.sending = true
		go n.sendTo(p)
	}
}

// sendTo sends notices until the follower is up to date or unreachable: then Raft's
// next request notifies it.
func (n *notices) sendTo(p *progress) {
	for err := error(nil); ; {
		n.mu.Lock()
		commit := n.pendingCommit(p)
		if err != nil || commit == 0 {
			p.sending = false
			n.mu.Unlock()
			return
		}
		p.commit = commit
		req, address := p.matched, p.address
		n.mu.Unlock()
		req.LeaderCommitIndex = commit
		err = n.send(p.id, address, &req, &raft.AppendEntriesResponse{})
	}
}
