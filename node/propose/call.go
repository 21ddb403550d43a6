package propose

import (
	"github.com/commons-cluster/commons/fsm/command"
)

// call is one command from its acceptance to its answer. The session's lock
// guards everything below done; what the answer consists of may be read without
// it once done is closed.
type call struct {
	seq  uint64
	body command.Payload
	from command.Sender
	size int // encoded bytes, an upper bound
	done chan struct{}

	queued    bool // in the session's waiting list
	inFlight  bool // an attempt is under way
	handed    bool // an attempt may have reached the log
	charged   bool // to the rate limits, or nobody knows
	applied   bool // by this node's state machine
	confirmed bool // by the leader's state machine
	expired   bool // not to be sent again
	answered  bool

	result command.Result
	index  uint64
	err    error

	links [numLists]links
}

// uncertain reports whether the command may show up in the log after all. The
// session's lock is held.
func (c *call) uncertain() bool { return c.handed || c.inFlight || c.applied }

// member is what the leader must know about a command beside the command.
type member struct {
	command.Sender
	// Charged says that an earlier attempt was charged to the rate limits, by this
	// leader or another one, whatever became of it.
	Charged bool
}

// The lists a call can be in at once.
const (
	listOpen    = iota // every unanswered call, by seq
	listWaiting        // those that wait for a sender
	numLists
)

type links struct{ prev, next *call }

// list is a doubly linked list through the calls themselves: a call leaves it in
// constant time wherever it stands.
type list struct {
	which      int
	head, tail *call
}

func (l *list) pushBack(c *call) {
	c.links[l.which] = links{prev: l.tail}
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.links[l.which].next = c
	}
	l.tail = c
}

func (l *list) pushFront(c *call) {
	c.links[l.which] = links{next: l.head}
	if l.head == nil {
		l.tail = c
	} else {
		l.head.links[l.which].prev = c
	}
	l.head = c
}

func (l *list) remove(c *call) {
	at := c.links[l.which]
	if at.prev == nil {
		l.head = at.next
	} else {
		at.prev.links[l.which].next = at.next
	}
	if at.next == nil {
		l.tail = at.prev
	} else {
		at.next.links[l.which].prev = at.prev
	}
	c.links[l.which] = links{}
}

func (l *list) next(c *call) *call { return c.links[l.which].next }
