package propose

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
)

// leader does the work of the leader. It queues local and forwarded groups, and one
// goroutine merges them into batches, stamps these and passes them to Raft.
type leader struct {
	stamp     func() int64 // returns the stamp of the next batch
	admission admission

	inFlight chan entry
	wake     chan struct{}
	done     chan struct{} // closed by close

	mu          sync.Mutex
	raft        Raft
	state       State
	term        uint64 // in which this node leads, 0 if it does not lead
	newest      uint64 // the highest value of term so far
	queue       []*pending
	queuedBytes int
	running     int        // the number of unanswered log entries
	urgent      []*pending // commands of the node itself, accepted in every state
	closed      bool
}

// pending is a group that waits for its log entry.
type pending struct {
	ctx   context.Context // ends when the sender stops waiting
	group command.Group
	size  int         // in bytes
	end   chan result // buffered, receives one result
}

// entry is a log entry between Raft's Apply and its result.
type entry struct {
	future raft.ApplyFuture
	groups []*pending
}

func newLeader(stamp func() int64, a admission) *leader {
	return &leader{
		stamp: stamp, admission: a,
		inFlight: make(chan entry, MaxInFlight),
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
	}
}

func (l *leader) start(r Raft, s State) {
	l.mu.Lock()
	l.raft, l.state = r, s
	l.mu.Unlock()
	go l.apply()
	go l.resolve()
}

// lead sets the term in which this node leads; 0 means that it does not lead. Groups that
// waited for another term are rejected. A late call for an older term is ignored, because it
// would stop the leader of the newer term.
func (l *leader) lead(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term != 0 && term < l.newest {
		return
	}
	l.newest = max(l.newest, term)
	if l.term != term {
		l.flush()
	}
	l.term = term
}

// close rejects all waiting groups and all later ones.
func (l *leader) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	l.flush()
	for _, s := range l.urgent {
		s.end <- result{Status: statusNotEnqueued, Reason: reasonClosing}
	}
	l.urgent = nil
	close(l.done)
}

// flush rejects the queue. The lock is held.
func (l *leader) flush() {
	for _, s := range l.queue {
		s.end <- notLeading()
	}
	l.queue, l.queuedBytes = nil, 0
}

func notLeading() result {
	return result{Status: statusNotEnqueued, Reason: "this node does not lead"}
}

// leads reports whether this node leads: lead has set a term, and Raft is still in it. The
// lock is held.
func (l *leader) leads() bool {
	return l.term != 0 && l.raft.CurrentTerm() == l.term
}

// leadingTerm returns the term in which this node leads, or 0.
func (l *leader) leadingTerm() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.leads() {
		return 0
	}
	return l.term
}

// reject returns the result for a group that cannot be accepted now, and true. The size is
// in bytes. The lock is held.
func (l *leader) reject(size int) (result, bool) {
	switch {
	case l.closed || !l.leads():
		return notLeading(), true
	case size > maxGroupBytes:
		return result{Status: statusInvalid, Reason: "the group is too large"}, true
	case l.queuedBytes+size > MaxLeaderQueuedBytes:
		return result{Status: statusOverloaded, Reason: "too many writes are waiting at the leader"}, true
	}
	if commit, applied := l.raft.CommitIndex(), l.state.Applied(); commit > applied+MaxApplyLag {
		return result{Status: statusOverloaded, Reason: "the leader is behind with applying"}, true
	}
	return result{}, false
}

// submit brings a group into the log and returns when it is applied, or when ctx ends.
// Every payload was validated on this node when it was encoded or decoded.
func (l *leader) submit(ctx context.Context, g command.Group) result {
	size := g.Size()
	l.mu.Lock()
	r, rejected := l.reject(size)
	l.mu.Unlock()
	if rejected {
		return r
	}
	g, claims, over := l.admission.admit(g, l.admission.take)
	if len(g.Commands) == 0 {
		return result{Status: statusApplied, Charged: true, Rejected: over}
	}
	s := &pending{ctx: ctx, group: g, size: size, end: make(chan result, 1)}
	l.mu.Lock()
	if r, rejected = l.reject(size); !rejected {
		l.queue = append(l.queue, s)
		l.queuedBytes += size
	}
	l.mu.Unlock()
	if !rejected {
		r = l.await(ctx, s)
	}
	if r.Status == statusApplied {
		l.admission.refundLost(l.state, g.Boot, claims)
	}
	r.Charged, r.Rejected = true, over
	return r
}

// ask returns the commands of a group that submit would reject by its limits. Only the
// charge for a wrong key is kept.
func (l *leader) ask(g command.Group) result {
	l.mu.Lock()
	r, rejected := l.reject(g.Size())
	l.mu.Unlock()
	if rejected {
		return r
	}
	_, _, over := l.admission.admit(g, l.admission.peek)
	return result{Status: statusApplied, Rejected: over}
}

// submitUrgent submits a command of the node itself, without limits and also before the
// node leads.
func (l *leader) submitUrgent(ctx context.Context, g command.Group) result {
	s := &pending{ctx: ctx, group: g, size: g.Size(), end: make(chan result, 1)}
	l.mu.Lock()
	closed := l.closed || l.raft == nil
	if !closed {
		l.urgent = append(l.urgent, s)
	}
	l.mu.Unlock()
	if closed {
		return notLeading()
	}
	return l.await(ctx, s)
}

func (l *leader) await(ctx context.Context, s *pending) result {
	l.poke()
	select {
	case v := <-s.end:
		return v
	case <-ctx.Done():
		return result{Status: statusUnknown, Reason: "the sending node stopped waiting for the log", cause: ctx.Err()}
	case <-l.done:
	}
	// The queues were answered before done was closed.
	select {
	case v := <-s.end:
		return v
	default:
		return result{Status: statusUnknown, Reason: reasonClosing, cause: errors.New(reasonClosing)}
	}
}

func (l *leader) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// apply stamps batches and passes them to Raft, in order, until the leader is closed. One
// goroutine runs it.
func (l *leader) apply() {
	for {
		groups := l.next()
		if groups == nil {
			return
		}
		if !l.propose(groups) {
			l.finished()
		}
	}
}

// finished frees the place of a log entry.
func (l *leader) finished() {
	l.mu.Lock()
	l.running--
	l.mu.Unlock()
	l.poke()
}

// ready reports whether the waiting groups may become a log entry now. While another entry
// is unanswered, the next one has to be large, because most of the cost of an entry does not
// depend on its size. The lock is held.
func (l *leader) ready() bool {
	return l.running == 0 || l.running < MaxInFlight && (len(l.urgent) > 0 || l.queuedBytes >= LargeBatchBytes)
}

// next waits for groups that may be sent and returns those that fit into one batch. It
// returns nil once the leader is closed.
func (l *leader) next() []*pending {
	for {
		var groups []*pending
		l.mu.Lock()
		if l.ready() {
			groups = l.pack()
		}
		if len(groups) > 0 {
			l.running++
		}
		closed := l.closed
		l.mu.Unlock()
		if len(groups) > 0 {
			return groups
		}
		if closed {
			return nil
		}
		select {
		case <-l.wake:
		case <-l.done:
		}
	}
}

// pack removes the groups of the next batch from the queue. The lock is held.
func (l *leader) pack() []*pending {
	if len(l.urgent) > 0 {
		s := l.urgent[0]
		l.urgent = l.urgent[1:]
		return []*pending{s}
	}
	if len(l.queue) > 0 && !l.leads() {
		l.flush()
	}
	var groups []*pending
	bytes, taken := 0, 0
	for _, s := range l.queue {
		if len(groups) == command.MaxBatchGroups || (bytes+s.size > maxGroupBytes && bytes > 0) {
			break
		}
		taken++
		l.queuedBytes -= s.size
		if s.ctx.Err() != nil {
			continue // its sender stopped waiting, or asks another leader
		}
		bytes += s.size
		groups = append(groups, s)
	}
	l.queue = slices.Delete(l.queue, 0, taken)
	return groups
}

// propose passes the groups to Raft as one log entry. It reports false if the entry cannot
// be encoded.
func (l *leader) propose(groups []*pending) bool {
	batch := command.Batch{Stamp: l.stamp(), Groups: make([]command.Group, len(groups))}
	for i, s := range groups {
		batch.Groups[i] = s.group
	}
	data, err := command.EncodeBatch(batch)
	if err != nil {
		for _, s := range groups {
			s.end <- result{Status: statusInvalid, Reason: err.Error(), cause: err}
		}
		return false
	}
	l.inFlight <- entry{future: l.raft.Apply(data, EnqueueTimeout), groups: groups}
	return true
}

// resolve answers the groups of each log entry, in order. Raft may leave a future
// unanswered when it is shut down; the goroutine then ends with the process.
func (l *leader) resolve() {
	for {
		var e entry
		select {
		case e = <-l.inFlight:
		case <-l.done:
			return
		}
		v := raftResult(e.future)
		l.finished()
		for _, s := range e.groups {
			s.end <- v
		}
	}
}
