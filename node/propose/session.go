package propose

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/commons-cluster/commons/fsm/command"
)

// session holds the unanswered commands of one run of this node.
type session struct {
	boot     command.BootID
	logger   *slog.Logger
	maxBytes int
	maxLag   uint64

	mu      sync.Mutex
	work    sync.Cond // there is something to take, or closed
	nextSeq uint64
	calls   map[uint64]*call
	open    list // all unanswered calls, by seq
	waiting list // those that wait for a sender, retries first
	queued  int  // number of waiting calls
	bytes   int  // of all open calls
	closed  bool
}

func newSession(boot command.BootID, logger *slog.Logger) *session {
	s := &session{
		boot: boot, logger: logger, maxBytes: MaxQueuedBytes, maxLag: MaxLag,
		nextSeq: 1,
		calls:   make(map[uint64]*call),
		open:    list{which: listOpen}, waiting: list{which: listWaiting},
	}
	s.work.L = &s.mu
	return s
}

// add takes a command in and lets it wait for a sender.
func (s *session) add(from command.Sender, body command.Payload, size int) (*call, error) {
	c := &call{body: body, from: from, size: size, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: reasonClosing}
	case s.bytes+size+callOverhead > s.maxBytes:
		return nil, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: "too many writes are waiting on this node"}
	}
	s.register(c)
	s.enqueue(c, (*list).pushBack)
	return c, nil
}

// addInFlight takes a command in that its caller brings to the leader's queue
// itself, and returns the group to bring.
func (s *session) addInFlight(body command.Payload, size int) (*call, command.Group, error) {
	c := &call{body: body, size: size, done: make(chan struct{}), inFlight: true}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, command.Group{}, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: reasonClosing}
	}
	s.register(c)
	g := s.group()
	g.Commands = []command.Command{{Seq: c.seq, Payload: body}}
	return c, g, nil
}

// register gives the call its number. The lock is held.
func (s *session) register(c *call) {
	c.seq = s.nextSeq
	s.nextSeq++
	s.calls[c.seq] = c
	s.open.pushBack(c)
	s.bytes += c.size + callOverhead
}

// enqueue lets the call wait for a sender. The lock is held.
func (s *session) enqueue(c *call, push func(*list, *call)) {
	push(&s.waiting, c)
	c.queued = true
	s.queued++
	s.work.Signal()
}

// dequeue takes the call out of the waiting list. The lock is held.
func (s *session) dequeue(c *call) {
	s.waiting.remove(c)
	c.queued = false
	s.queued--
}

// group returns a group without commands, which declares what may still be sent.
// A call that is far behind is listed by itself, as long as there is room: else one
// that takes long would hold the floor, and all results above it. The lock is held.
func (s *session) group() command.Group {
	g := command.Group{Boot: s.boot, Floor: s.nextSeq}
	for c := s.open.head; c != nil; c = s.open.next(c) {
		if len(g.Open) == command.MaxOpen || c.seq+s.maxLag >= s.nextSeq {
			g.Floor = c.seq
			break
		}
		g.Open = append(g.Open, c.seq)
	}
	return g
}

// awaitWork blocks until a call waits for a sender; false once closed.
func (s *session) awaitWork() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.first(s.group().Floor) == nil && !s.closed {
		s.work.Wait()
	}
	return !s.closed
}

// first returns the call that is to be sent next; nil when there is none, or
// when it is too far ahead of the floor. The lock is held.
func (s *session) first(floor uint64) *call {
	c := s.waiting.head
	if c == nil || c.seq >= floor+MaxSpan {
		return nil
	}
	return c
}

// parcel is a group on its way to the leader.
type parcel struct {
	calls   []*call
	group   command.Group
	members []member
	size    int
}

// take returns the waiting calls that fit into one group, oldest first; none
// when nothing waits.
func (s *session) take() parcel {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := parcel{group: s.group()}
	p.size = len(p.group.Open) * openBytes
	floor := p.group.Floor
	for c := s.first(floor); c != nil && len(p.calls) < command.MaxGroupCommands; c = s.first(floor) {
		if len(p.calls) > 0 && p.size+c.size > maxGroupBytes {
			break
		}
		s.dequeue(c)
		c.inFlight = true
		p.size += c.size
		p.calls = append(p.calls, c)
		p.members = append(p.members, member{Sender: c.from, Charged: c.charged})
		p.group.Commands = append(p.group.Commands, command.Command{Seq: c.seq, Payload: c.body})
	}
	if s.first(floor) != nil {
		s.work.Signal()
	}
	return p
}

// settle draws the consequences of an attempt for each call of the parcel.
// Calls that go on waiting do so ahead of newer ones, in their order.
func (s *session) settle(p parcel, v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := len(v.refused)
	for i, c := range slices.Backward(p.calls) {
		var over *refusal
		if refused > 0 && v.refused[refused-1].pos == i {
			refused--
			over = &v.refused[refused]
		}
		if c.answered {
			continue
		}
		c.inFlight = false
		s.settleCall(c, v, over)
	}
}

// settleCall is settle for one call. The lock is held.
func (s *session) settleCall(c *call, v verdict, over *refusal) {
	// When the answer is lost, nobody knows: better a write that was never charged
	// than one that is refused because it was charged twice.
	if over == nil && (v.charged || v.status == statusUnknown) {
		c.charged = true
	}
	switch {
	case over != nil && !c.uncertain():
		s.finish(c, &command.RateLimited{RetryAfter: over.retryAfter})
		return
	case over != nil:
		// It was charged before, so this leader is mistaken.
	case v.status == statusApplied:
		c.handed, c.confirmed = true, true
		if c.applied {
			s.finish(c, nil)
		}
		return
	case v.status == statusUnknown:
		c.handed = true
	case v.status == statusNotEnqueued:
	case !c.uncertain():
		s.finish(c, &command.Unavailable{Code: command.CodeNotEnqueued, Reason: v.reason})
		return
	}
	switch {
	case s.closed:
		s.finish(c, unavailable(c, reasonClosing))
	case c.expired:
		s.finish(c, unavailable(c, v.reason))
	default:
		s.enqueue(c, (*list).pushFront)
	}
}

// finish answers a call; a nil err means its result. The lock is held.
func (s *session) finish(c *call, err error) {
	if c.queued {
		s.dequeue(c)
	}
	s.open.remove(c)
	if s.waiting.head != nil {
		s.work.Signal() // the floor may rise
	}
	delete(s.calls, c.seq)
	s.bytes -= c.size + callOverhead
	c.err = err
	c.answered = true
	close(c.done)
}

// abandon answers a call whose caller waits no longer, unless it was answered
// just now. From here on nothing sends it again.
func (s *session) abandon(c *call, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.answered {
		s.finish(c, unavailable(c, reason))
	}
}

// expire is abandon for a caller that can wait for the end of an attempt under
// way, when all depends on that one.
func (s *session) expire(c *call, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.answered && c.inFlight && !c.handed && !c.applied {
		c.expired = true
	} else if !c.answered {
		s.finish(c, unavailable(c, reason))
	}
}

// unavailable is the answer to a call that is given up. The lock is held.
func unavailable(c *call, reason string) error {
	if c.uncertain() {
		return &command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: reason}
	}
	return &command.Unavailable{Code: command.CodeNotEnqueued, Reason: reason}
}

// Applied is part of fsm.Observer.
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

// deliver notes what became of a call here. The lock is held.
func (s *session) deliver(c *call, r command.Result, index uint64) {
	if c.applied {
		return
	}
	if r.Outcome == command.OutcomeDropped {
		s.logger.Error("an unanswered command was dropped as answered", "boot", s.boot, "seq", c.seq, "index", index)
		return
	}
	c.applied, c.result, c.index = true, r, index
	if c.confirmed {
		s.finish(c, nil)
	}
}

// recheck looks up one call in a view.
func (s *session) recheck(c *call, v Results) {
	r, ok := v.Result(s.boot, c.seq)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.answered {
		s.deliver(c, r, v.Index())
	}
}

// unapplied returns the unanswered calls that this node has not applied.
func (s *session) unapplied() []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []*call
	for c := s.open.head; c != nil; c = s.open.next(c) {
		if !c.applied {
			calls = append(calls, c)
		}
	}
	return calls
}

// missing reports whether the leader has applied the call and this node has not
// said so yet.
func (s *session) missing(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !c.answered && c.confirmed && !c.applied
}

const reasonClosing = "this node is shutting down"

// close answers everything and refuses what comes later.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := s.open.head; c != nil; c = s.open.head {
		s.finish(c, unavailable(c, reasonClosing))
	}
	s.work.Broadcast()
}
