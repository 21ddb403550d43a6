package propose

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
)

// leader does the work of the leader: it has a queue of groups, local and forwarded
// ones, and one goroutine that merges, stamps and applies them.
type leader struct {
	stamp   func() int64 // of the next batch
	limiter Limiter
	assess  Assess
	fits    Fits

	inFlight chan entry
	wake     chan struct{}
	done     chan struct{} // closed by close

	mu          sync.Mutex
	raft        Raft
	state       State
	term        uint64 // in which this node leads; 0: it does not
	newest      uint64 // term that it ever led in
	queue       []*pending
	queuedBytes int
	running     int        // log entries on their way
	urgent      []*pending // commands of the node itself, led or not
	closed      bool
}

// pending is a group that waits for its log entry.
type pending struct {
	ctx   context.Context // nobody waits for the answer once it has ended
	group command.Group
	size  int
	end   chan result // holds one
}

// entry is a log entry on its way.
type entry struct {
	future raft.ApplyFuture
	groups []*pending
}

func newLeader(stamp func() int64, limiter Limiter, assess Assess, fits Fits) *leader {
	return &leader{
		stamp: stamp, limiter: limiter, assess: assess, fits: fits,
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

// lead sets the term in which this node leads; 0: it does not. Groups that waited for
// another term are rejected. A late call for an older term is ignored: it would stop
// the leader of the newer term.
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

// leads reports whether this node leads as far as it knows, and in the term set by
// lead. The lock is held.
func (l *leader) leads() bool {
	return l.term != 0 && l.raft.CurrentTerm() == l.term
}

// leadingTerm returns the term in which this node leads; 0 when it does not.
func (l *leader) leadingTerm() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.leads() {
		return 0
	}
	return l.term
}

// reject returns why a group of this size cannot be taken now. The lock is held.
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

// submit has a group applied and returns when it is applied, or ctx ends. Every payload
// of the group was validated on this node: when it was encoded or decoded.
func (l *leader) submit(ctx context.Context, g command.Group) result {
	size := g.Size()
	l.mu.Lock()
	r, rejected := l.reject(size)
	l.mu.Unlock()
	if rejected {
		return r
	}
	g, over := l.admit(g)
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
	r.Charged, r.Rejected = true, over
	return r
}

// submitUrgent is submit for a command of the node itself: without limits, and also
// while the node does not lead yet.
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
		return result{Status: statusUnknown, Reason: "nobody waited for the log any longer", cause: ctx.Err()}
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

// admit checks the rate limits and the budget for each command that no leader has
// charged yet, and returns the group without the commands over a limit. Commands of a
// node itself have no sender and no limit. Whether a command was charged is taken from
// its node: nodes trust each other.
func (l *leader) admit(g command.Group) (command.Group, []rejection) {
	if l.limiter == nil && l.fits == nil {
		return g, nil
	}
	var over []rejection
	admitted := make([]command.Command, 0, len(g.Commands))
	for i, c := range g.Commands {
		if !c.From.Charged && c.From != (command.Sender{}) {
			if r, ok := l.charge(c); !ok {
				r.Position = i
				over = append(over, r)
				continue
			}
		}
		admitted = append(admitted, c)
	}
	g.Commands = admitted
	return g, over
}

// charge checks the rate limits and the budget for a command. A repeated command is
// free.
func (l *leader) charge(c command.Command) (r rejection, ok bool) {
	var standing command.Standing
	if l.assess != nil {
		var repeated bool
		if standing, repeated = l.assess(c.Payload); repeated {
			return r, true
		}
	}
	if l.limiter != nil {
		if ok, r.RetryAfter = l.limiter.Admit(c.From, standing); !ok {
			return r, false
		}
	}
	r = rejection{OverBudget: l.fits != nil && !l.fits(c.Payload, standing, len(c.Data))}
	return r, !r.OverBudget
}

// apply is the one goroutine that stamps batches and hands them to Raft, in
// order.
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

// finished makes room for the next log entry.
func (l *leader) finished() {
	l.mu.Lock()
	l.running--
	l.mu.Unlock()
	l.poke()
}

// ready reports whether what waits may become a log entry now. While one is on its way,
// the next is to be large: most of what an entry costs does not depend on its size. The
// lock is held.
func (l *leader) ready() bool {
	return l.running == 0 || l.running < MaxInFlight && (len(l.urgent) > 0 || l.queuedBytes >= LargeBatchBytes)
}

// next blocks until groups wait that may be sent, and returns those that fit into one
// batch; nil once closed.
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

// pack takes the next groups out of the queue. The lock is held.
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
			continue // withdrawn, or asked again elsewhere
		}
		bytes += s.size
		groups = append(groups, s)
	}
	l.queue = slices.Delete(l.queue, 0, taken)
	return groups
}

// propose makes the groups one log entry; false when that failed before Raft.
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
// unanswered when it is shut down; the goroutine ends with the process then.
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
