package propose

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/loop"
)

// leader does the work of the leader. It queues local and forwarded groups, and one
// goroutine merges them into batches, stamps these and passes them to Raft.
type leader struct {
	stamp     func() int64 // returns the stamp of the next batch
	admission admission

	wake chan struct{}
	done chan struct{} // closed by close

	mu          sync.Mutex
	raft        Raft
	state       State
	term        uint64 // in which this node leads, 0 if it does not lead
	newest      uint64 // the highest value of term so far
	queue       []*pending
	queuedBytes int
	running     int // the number of unanswered log entries
	closed      bool
}

// pending is a group that waits for its log entry.
type pending struct {
	ctx   context.Context // ends when the sender stops waiting
	group command.Group
	size  int         // in bytes
	end   chan result // buffered, receives one result
}

func newLeader(stamp func() int64, a admission) *leader {
	return &leader{stamp: stamp, admission: a, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

func (l *leader) start(r Raft, s State) {
	l.mu.Lock()
	l.raft, l.state = r, s
	l.mu.Unlock()
	go l.apply()
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

// accept adds a group to the queue, or returns why it is not accepted now. With a nil group it
// only reports that. The size is in bytes.
func (l *leader) accept(size int, s *pending) (rejected result, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed || !l.leads():
		return notLeading(), false
	case size > maxGroupBytes:
		return result{Status: statusInvalid, Reason: "the group is too large"}, false
	case l.queuedBytes+size > MaxLeaderQueuedBytes:
		return result{Status: statusOverloaded, Reason: "too many writes are waiting at the leader"}, false
	case l.raft.CommitIndex() > l.state.Applied()+MaxApplyLag:
		return result{Status: statusOverloaded, Reason: "the leader is behind with applying"}, false
	case s != nil:
		l.queue = append(l.queue, s)
		l.queuedBytes += size
	}
	return result{}, true
}

// submit brings a group into the log and returns when it is applied, or when ctx ends.
// Every payload was validated on this node when it was encoded or decoded.
func (l *leader) submit(ctx context.Context, g command.Group) result {
	size := g.Size()
	if r, ok := l.accept(size, nil); !ok {
		return r // before anything is charged
	}
	g, claims, over := l.admission.admit(g)
	if len(g.Commands) == 0 {
		return result{Status: statusApplied, Charged: true, Rejected: over}
	}
	s := &pending{ctx: ctx, group: g, size: size, end: make(chan result, 1)}
	r, ok := l.accept(size, s)
	if ok {
		loop.Wake(l.wake)
		r = l.await(ctx, s)
	}
	if r.Status == statusApplied {
		l.admission.refundLost(l.state, g.Boot, claims)
	}
	r.Charged, r.Rejected = true, over
	return r
}

// submitUrgent submits a command of the node itself, without limits, past the queue, and also
// before the node leads.
func (l *leader) submitUrgent(ctx context.Context, g command.Group) result {
	l.mu.Lock()
	closed := l.closed || l.raft == nil
	l.mu.Unlock()
	if closed {
		return notLeading()
	}
	s := &pending{ctx: ctx, group: g, end: make(chan result, 1)}
	go func() { s.end <- l.propose(s)() }()
	return l.await(ctx, s)
}

func (l *leader) await(ctx context.Context, s *pending) result {
	select {
	case v := <-s.end:
		return v
	case <-ctx.Done():
		return result{Status: statusUnknown, Reason: "the sending node stopped waiting for the log", cause: ctx.Err()}
	case <-l.done:
	}
	// The queue was answered before done was closed.
	select {
	case v := <-s.end:
		return v
	default:
		return result{Status: statusUnknown, Reason: reasonClosing, cause: errors.New(reasonClosing)}
	}
}

// apply stamps batches and passes them to Raft, in order, until the leader is closed. One
// goroutine runs it. Raft may leave an entry unanswered when it is shut down; the goroutine that
// waits for it then ends with the process.
func (l *leader) apply() {
	for groups := l.next(); groups != nil; groups = l.next() {
		applied := l.propose(groups...)
		go func() {
			r := applied()
			// Before the answers: the next entry then takes all that waits, in place of a part.
			l.mu.Lock()
			l.running--
			l.mu.Unlock()
			loop.Wake(l.wake)
			for _, s := range groups {
				s.end <- r
			}
		}()
	}
}

// ready reports whether the waiting groups may become a log entry now. While another entry
// is unanswered, the next one has to be large, because most of the cost of an entry does not
// depend on its size. The lock is held.
func (l *leader) ready() bool {
	return l.running == 0 || l.running < MaxInFlight && l.queuedBytes >= LargeBatchBytes
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

// propose passes the groups to Raft as one log entry. It returns a function that waits until the
// entry is applied.
func (l *leader) propose(groups ...*pending) (applied func() result) {
	batch := command.Batch{Stamp: l.stamp(), Groups: make([]command.Group, len(groups))}
	for i, s := range groups {
		batch.Groups[i] = s.group
	}
	data, err := command.EncodeBatch(batch)
	if err != nil {
		return func() result { return result{Status: statusInvalid, Reason: err.Error(), cause: err} }
	}
	entry := l.raft.Apply(data, EnqueueTimeout)
	return func() result { return raftResult(entry) }
}
