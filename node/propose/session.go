package propose

import (
	"container/list"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/trace"
)

// session holds the unanswered calls of one run of this node.
type session struct {
	boot     command.BootID
	logger   *slog.Logger
	maxBytes int
	maxLag   uint64

	mu      sync.Mutex
	work    sync.Cond // signals a waiting call, or the end
	nextSeq uint64
	calls   map[uint64]*call // unanswered, by number
	open    *list.List       // all unanswered calls in the order of their numbers
	waiting *list.List       // the calls without a running attempt, retries first
	bytes   int              // memory of all unanswered calls
	closed  bool

	estimate waitEstimate
}

func newSession(boot command.BootID, logger *slog.Logger) *session {
	s := &session{
		boot: boot, logger: logger, maxBytes: MaxQueuedBytes, maxLag: MaxLag,
		nextSeq: 1,
		calls:   make(map[uint64]*call),
		open:    list.New(), waiting: list.New(),
		estimate: waitEstimate{now: time.Now},
	}
	s.work.L = &s.mu
	return s
}

func (s *session) add(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.bytes+c.size+callOverhead > s.maxBytes {
		return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "too many writes are waiting on this node"}
	}
	if !s.closed && s.estimate.wait(s.waiting.Len()) > MaxQueueWait {
		return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "writes wait too long on this node: it is overloaded"}
	}
	if err := s.register(c); err != nil {
		return err
	}
	c.waiting = s.waiting.PushBack(c)
	s.work.Signal()
	return nil
}

// addInFlight accepts a call whose caller submits it, and returns the group to submit.
func (s *session) addInFlight(c *call) (command.Group, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.register(c); err != nil {
		return command.Group{}, err
	}
	c.inFlight = true
	g := s.group()
	g.Commands = []command.Command{c.Command}
	return g, nil
}

// register numbers the call. The lock is held.
func (s *session) register(c *call) error {
	if s.closed {
		return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: reasonClosing}
	}
	c.Seq = s.nextSeq
	s.nextSeq++
	s.calls[c.Seq] = c
	c.open = s.open.PushBack(c)
	s.bytes += c.size + callOverhead
	return nil
}

// dequeue removes the call from the waiting list, if it is there. The lock is held.
func (s *session) dequeue(c *call) {
	if c.waiting != nil {
		s.waiting.Remove(c.waiting)
		c.waiting = nil
	}
}

// group returns a group without commands that declares the numbers that may still be sent.
// Calls that are far behind are listed as open, up to command.MaxOpen of them: otherwise one
// slow call would hold back the floor, and the state would keep all results above it. The
// lock is held.
func (s *session) group() command.Group {
	g := command.Group{Boot: s.boot, Floor: s.nextSeq}
	for e := s.open.Front(); e != nil; e = e.Next() {
		seq := e.Value.(*call).Seq
		if len(g.Open) == command.MaxOpen || seq+s.maxLag >= s.nextSeq {
			g.Floor = seq
			break
		}
		g.Open = append(g.Open, seq)
	}
	return g
}

// awaitWork blocks until a call can be sent. It reports false once the session is closed.
func (s *session) awaitWork() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.first(s.group().Floor) == nil && !s.closed {
		s.work.Wait()
	}
	return !s.closed
}

// first returns the call to send next. It returns nil if no call waits, or if the first one
// is MaxSpan or more ahead of the floor. The lock is held.
func (s *session) first(floor uint64) *call {
	if e := s.waiting.Front(); e != nil && e.Value.(*call).Seq < floor+MaxSpan {
		return e.Value.(*call)
	}
	return nil
}

// waitEstimate estimates how long a call waits to be sent, by the newest groups.
type waitEstimate struct {
	now  func() time.Time
	last time.Time        // when the newest group was taken
	more bool             // another group was behind it
	each [2]time.Duration // for each call of the two newest groups that others were behind
}

// taken notes a group of n calls.
func (p *waitEstimate) taken(n int, more bool) {
	if n == 0 {
		return
	}
	now := p.now()
	if p.each[0], p.each[1] = p.each[1], 0; p.more {
		p.each[1] = now.Sub(p.last) / time.Duration(n)
	}
	p.last, p.more = now, more
}

// wait returns the estimated wait behind n calls. It is 0 if they may fit into one group, and
// after a single pause, as without a leader.
func (p *waitEstimate) wait(n int) time.Duration {
	if !p.more {
		return 0
	}
	return min(p.each[0], p.each[1]) * time.Duration(n)
}

// batch is a group on its way to the leader, with its calls.
type batch struct {
	calls []*call
	group command.Group
}

// traces returns the callers' spans of a batch, at most maxTraces.
func (b *batch) traces() (all []trace.Parent) {
	for _, c := range b.calls {
		if c.trace != "" && len(all) < maxTraces {
			all = append(all, c.trace)
		}
	}
	return all
}

// take removes the calls of the next group from the waiting list. The batch is empty if no
// call can be sent.
func (s *session) take() batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := batch{group: s.group()}
	size, floor := b.group.Size(), b.group.Floor
	for c := s.first(floor); c != nil && len(b.calls) < command.MaxGroupCommands; c = s.first(floor) {
		if size += c.size; len(b.calls) > 0 && size > maxGroupBytes {
			break
		}
		s.dequeue(c)
		c.inFlight = true
		b.calls = append(b.calls, c)
		b.group.Commands = append(b.group.Commands, c.Command)
	}
	more := s.first(floor) != nil
	if more {
		s.work.Signal()
	}
	s.estimate.taken(len(b.calls), more)
	return b
}

// update updates each call of the batch with the result of an attempt. Calls to be retried
// go before newer ones, in their order.
func (s *session) update(b batch, r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rejected := len(r.Rejected)
	for i, c := range slices.Backward(b.calls) {
		var over *rejection
		if rejected > 0 && r.Rejected[rejected-1].Position == i {
			rejected--
			over = &r.Rejected[rejected]
		}
		if c.answered {
			continue
		}
		c.inFlight = false
		s.updateCall(c, r, over)
	}
}

// updateCall updates one call with the result of an attempt. over is the call's rejection by
// the limits, or nil. The lock is held.
func (s *session) updateCall(c *call, r result, over *rejection) {
	// If the answer is lost, the write may have been charged. A write that is never charged
	// is better than one that is rejected because it was charged twice.
	if over == nil && (r.Charged || r.Status == statusUnknown) {
		c.From.Charged = true
	}
	switch {
	case over != nil && over.OverBudget && !c.uncertain():
		c.result = command.Result{Outcome: command.OutcomeRejected, Problems: []command.Problem{command.ProblemOverBudget}}
		s.finish(c, nil)
		return
	case over != nil && !c.uncertain():
		s.finish(c, &command.RateLimited{RetryAfter: over.RetryAfter})
		return
	case over != nil:
		// It was charged before, so the rejection by this leader is wrong.
	case r.Status == statusApplied:
		c.handed, c.confirmed = true, true
		if c.applied {
			s.finish(c, nil)
		}
		return
	case r.Status == statusUnknown:
		c.handed = true
	case r.Status == statusNotEnqueued:
	case !c.uncertain():
		s.finish(c, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: r.Reason, Cause: r.cause})
		return
	}
	switch {
	case s.closed:
		s.finish(c, unavailable(c, reasonClosing, nil))
	case c.expired:
		s.finish(c, unavailable(c, r.Reason, r.cause))
	default:
		c.waiting = s.waiting.PushFront(c)
		s.work.Signal()
	}
}

// finish answers a call with an error, or with its result if err is nil. The lock is held.
func (s *session) finish(c *call, err error) {
	s.dequeue(c)
	s.open.Remove(c.open)
	if s.waiting.Len() > 0 {
		s.work.Signal() // the floor may rise
	}
	delete(s.calls, c.Seq)
	s.bytes -= c.size + callOverhead
	c.err = err
	c.answered = true
	close(c.done)
}

// abandon answers a call whose caller stops waiting, unless it is answered already. The call
// is not retried.
func (s *session) abandon(c *call, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.answered {
		s.finish(c, unavailable(c, reason, nil))
	}
}

// expire abandons a call, unless a running attempt alone decides its outcome: then the call
// is answered when that attempt ends.
func (s *session) expire(c *call, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.answered && c.inFlight && !c.handed && !c.applied {
		c.expired = true
	} else if !c.answered {
		s.finish(c, unavailable(c, reason, nil))
	}
}

// unavailable returns the error of an abandoned call. The lock is held.
func unavailable(c *call, reason string, cause error) error {
	if c.uncertain() {
		return &command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: reason, Cause: cause}
	}
	return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: reason, Cause: cause}
}

// Applied records the result of a command that the local state machine has applied.
func (s *session) Applied(boot command.BootID, seq uint64, r command.Result, index uint64) {
	if boot != s.boot {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.calls[seq]; ok {
		s.deliver(c, r, index)
	}
}

// deliver records the result of a call on this node. The lock is held.
func (s *session) deliver(c *call, r command.Result, index uint64) {
	if c.applied {
		return
	}
	if r.Outcome == command.OutcomeDropped {
		s.logger.Error("an unanswered command was dropped as answered", "boot", s.boot, "seq", c.Seq, "index", index)
		return
	}
	c.applied, c.result, c.index = true, r, index
	if c.confirmed {
		s.finish(c, nil)
	}
}

// recheck delivers the results of unanswered calls that a view holds.
func (s *session) recheck(v View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	results := v.Results(s.boot)
	for seq, c := range s.calls {
		if r, ok := results[seq]; ok {
			s.deliver(c, r, v.Index())
		}
	}
}

const reasonClosing = "this node is shutting down" // the public reason of calls that Close ends

func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for e := s.open.Front(); e != nil; e = s.open.Front() {
		c := e.Value.(*call)
		s.finish(c, unavailable(c, reasonClosing, nil))
	}
	s.work.Broadcast()
}

// call is one command from its acceptance to its answer. The session's lock guards all
// fields but done. result, index and err may be read without the lock once done is closed.
type call struct {
	command.Command               // From.Charged is also set if the charge is unknown
	size            int           // upper bound of the command's bytes in a group
	done            chan struct{} // closed by finish
	trace           trace.Parent  // the caller's span, or ""

	open    *list.Element // in session.open
	waiting *list.Element // in session.waiting, or nil

	inFlight  bool // an attempt is running
	handed    bool // an attempt may have reached the log
	applied   bool // this node's state machine has applied it
	confirmed bool // the leader's state machine has applied it
	expired   bool // it is not retried
	answered  bool

	result command.Result
	index  uint64
	err    error
}

func newCall(from command.Sender, payload command.Payload, data []byte) *call {
	return &call{
		Command: command.Command{Payload: payload, Data: data, From: from},
		size:    len(data) + command.CommandBytes, done: make(chan struct{}),
	}
}

// uncertain reports whether the command may be in the log, now or later. The session's
// lock is held.
func (c *call) uncertain() bool { return c.handed || c.inFlight || c.applied }
