package consensus

import (
	"errors"
	"maps"
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

// maxHandOff is how long a pipeline may take to take log entries in. Each answer
// that it still waits for has raftIOTimeout.
const maxHandOff = 2 * raftIOTimeout

// transport is Raft's way to the other nodes. It differs from Raft's own in what
// happens to log entries for a server that is out of reach: Raft waits up to ten
// seconds between two attempts, so that a follower that comes back counts for
// nothing until then, and the loss of another in that time would stop all
// writes. Here the attempt itself goes on until the server is back.
type transport struct {
	*raft.NetworkTransport
	notices *notices
	raft    atomic.Pointer[raft.Raft] // nil until Raft runs
	once    sync.Once
	end     chan struct{}
	heirs   heirs
}

// heirs are servers that leadership is being handed to. Raft does that with the help of
// the goroutine that sends log entries to the server, waits for it without end, and
// rejects all writes meanwhile: attempts to reach these servers must not go on.
type heirs struct {
	mu    sync.Mutex
	until map[raft.ServerID]time.Time
}

// add has attempts to reach a server end with their first error, for some time.
func (h *heirs) add(id raft.ServerID, length time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(h.until, func(_ raft.ServerID, until time.Time) bool { return now.After(until) })
	if h.until == nil {
		h.until = map[raft.ServerID]time.Time{}
	}
	h.until[id] = now.Add(length)
}

func (h *heirs) has(id raft.ServerID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.until[id])
}

func newTransport(inner *raft.NetworkTransport) *transport {
	return &transport{NetworkTransport: inner, notices: &notices{send: inner.AppendEntries}, end: make(chan struct{})}
}

// AppendEntries sends log entries, or a heartbeat, to a server.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if isHeartbeat(req) {
		return t.NetworkTransport.AppendEntries(id, target, req, resp)
	}
	t.notices.sent(id, target, req)
	err := persist(t.end, func() error {
		*resp = raft.AppendEntriesResponse{}
		return t.NetworkTransport.AppendEntries(id, target, req, resp)
	}, func() bool { return t.wanted(id, req.Term) })
	if err == nil {
		t.notices.answered(id, req, resp)
	}
	return err
}

// AppendEntriesPipeline opens a pipeline of log entries to a server.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return newPipeline(inner, t.end, maxHandOff, link{t.notices, id, target}), nil
}

var errDiscarded = errors.New("this node has just become part of a cluster; ask again")

// discard rejects the messages that wait to be taken in. Their connections may be
// closed already, which does not take them back. Servers of this cluster repeat them.
func (t *transport) discard() {
	for {
		select {
		case rpc := <-t.Consumer():
			rpc.Respond(nil, errDiscarded)
		default:
			return
		}
	}
}

// stop ends the attempts that are under way. Raft waits for them when it is shut down.
func (t *transport) stop() { t.once.Do(func() { close(t.end) }) }

// link is one follower, as the notices know it.
type link struct {
	notices *notices
	id      raft.ServerID
	target  raft.ServerAddress
}

// pipeline is a pipeline that cannot block its sender for good, and that the notices
// look into. Raft stops taking answers from one when a server knows a newer term, and
// may then send once more than the pipeline has room for: the sender, and the
// heartbeats of the term that is over, would go on until the process ends, which Raft
// waits for when it is shut down.
type pipeline struct {
	raft.AppendPipeline
	link
	limit    time.Duration
	answered chan raft.AppendFuture
	once     sync.Once
	closed   chan struct{}
}

// newPipeline returns inner, which is closed when end is or when it takes longer
// than limit to take in an entry.
func newPipeline(inner raft.AppendPipeline, end <-chan struct{}, limit time.Duration, to link) *pipeline {
	p := &pipeline{AppendPipeline: inner, link: to, limit: limit, answered: make(chan raft.AppendFuture), closed: make(chan struct{})}
	go p.run(end)
	return p
}

// run hands answers on to Raft until the pipeline is closed, which the end does.
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
	late := time.AfterFunc(p.limit, func() { _ = p.Close() })
	defer late.Stop()
	p.notices.sent(p.id, p.target, req)
	return p.AppendPipeline.AppendEntries(req, resp)
}

// Close ends the pipeline, and whoever waits in AppendEntries.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.AppendPipeline.Close()
}

// isHeartbeat recognises what Raft sends on a goroutine of its own, with pauses
// of its own.
func isHeartbeat(req *raft.AppendEntriesRequest) bool {
	return len(req.Entries) == 0 && req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && req.LeaderCommitIndex == 0
}

// wanted reports whether this node still leads in the term, and the server is still
// one of its own and not to lead now.
func (t *transport) wanted(id raft.ServerID, term uint64) bool {
	r := t.raft.Load()
	if r == nil || t.heirs.has(id) || r.State() != raft.Leader || r.CurrentTerm() != term {
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
