package fsm

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// waiters lets any number of goroutines wait for an index. It costs the apply
// goroutine one look at the smallest index that is waited for.
type waiters struct {
	applied atomic.Uint64
	mu      sync.Mutex
	heap    waiterHeap
	closed  bool
}

type waiter struct {
	index uint64
	pos   int // in the heap; -1 when it is not in it
	ready chan struct{}
}

// wait waits until advance was called with index or more.
func (w *waiters) wait(ctx context.Context, index uint64) error {
	if w.applied.Load() >= index {
		return nil
	}
	me := &waiter{index: index, ready: make(chan struct{})}
	w.mu.Lock()
	switch {
	case w.applied.Load() >= index:
		w.mu.Unlock()
		return nil
	case w.closed:
		w.mu.Unlock()
		return ErrClosed
	}
	heap.Push(&w.heap, me)
	w.mu.Unlock()

	select {
	case <-me.ready:
	case <-ctx.Done():
		w.mu.Lock()
		if me.pos >= 0 {
			heap.Remove(&w.heap, me.pos)
		}
		w.mu.Unlock()
	}
	switch {
	case w.applied.Load() >= index:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return ErrClosed
}

// advance wakes everybody who waits for index or less. An index that goes back
// is ignored.
func (w *waiters) advance(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if index <= w.applied.Load() {
		return
	}
	w.applied.Store(index)
	for len(w.heap) > 0 && w.heap[0].index <= index {
		close(heap.Pop(&w.heap).(*waiter).ready)
	}
}

// close wakes everybody; those whose index was not reached get ErrClosed.
func (w *waiters) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for len(w.heap) > 0 {
		close(heap.Pop(&w.heap).(*waiter).ready)
	}
}

// waiterHeap implements heap.Interface: the smallest index first.
type waiterHeap []*waiter

func (h waiterHeap) Len() int           { return len(h) }
func (h waiterHeap) Less(i, j int) bool { return h[i].index < h[j].index }
func (h waiterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h *waiterHeap) Push(x any) {
	w := x.(*waiter)
	w.pos = len(*h)
	*h = append(*h, w)
}

func (h *waiterHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.pos = -1
	return w
}

// watchers are woken when something for their agent was applied. Without any it costs
// the apply goroutine one look at a number.
type watchers struct {
	count atomic.Int64
	mu    sync.Mutex
	by    map[string]map[*watcher]struct{}
}

type watcher struct{ wake chan struct{} }

// Watch returns a channel that gets a value when something that concerns the agent
// (text.Fold) was applied, after the view that holds it was published; and also
// when the whole state was replaced or closed. Watch first and look at a view
// afterwards: then nothing is missed. The caller calls stop when done.
func (m *Machine) Watch(agentKey string) (wake <-chan struct{}, stop func()) {
	w := &watcher{wake: make(chan struct{}, 1)}
	ws := &m.watchers
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.by == nil {
		ws.by = make(map[string]map[*watcher]struct{})
	}
	if ws.by[agentKey] == nil {
		ws.by[agentKey] = make(map[*watcher]struct{})
	}
	ws.by[agentKey][w] = struct{}{}
	ws.count.Add(1)
	return w.wake, sync.OnceFunc(func() { ws.remove(agentKey, w) })
}

func (ws *watchers) remove(agentKey string, w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.by[agentKey], w)
	if len(ws.by[agentKey]) == 0 {
		delete(ws.by, agentKey)
	}
	ws.count.Add(-1)
}

// notify wakes the watchers of all agents that the entries concern, and of the given
// others.
func (ws *watchers) notify(added []indexed, others []string) {
	if ws.count.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for i := range added {
		for _, name := range added[i].entry.inbox {
			wakeAll(ws.by[name])
		}
	}
	for _, name := range others {
		wakeAll(ws.by[name])
	}
}

// The keys of those who watch something else: no agent has one of them.
const (
	watchDeliveries = ""
	watchEvents     = "\n"
)

// WatchDeliveries is Watch for changes of any agent's deliveries.
func (m *Machine) WatchDeliveries() (wake <-chan struct{}, stop func()) {
	return m.Watch(watchDeliveries)
}

// WatchEvents is Watch for events; see View.Events.
func (m *Machine) WatchEvents() (wake <-chan struct{}, stop func()) { return m.Watch(watchEvents) }

// notifyOthers wakes those who watch something else than an agent.
func (ws *watchers) notifyOthers(key string) {
	if ws.count.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	wakeAll(ws.by[key])
}

// notifyAll wakes everybody.
func (ws *watchers) notifyAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, set := range ws.by {
		wakeAll(set)
	}
}

func wakeAll(set map[*watcher]struct{}) {
	for w := range set {
		select {
		case w.wake <- struct{}{}:
		default: // it is woken already
		}
	}
}

// ErrPassed is returned by ViewAt for an index that is behind the state.
var ErrPassed = errors.New("the state is past that index")

// captures are the views that somebody waits for, each of one index.
type captures struct {
	mu   sync.Mutex
	open []*capture
}

type capture struct {
	index uint64
	view  chan *View // gets one value; nil when the index was passed
}

func (c *captures) add(index uint64) *capture {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := &capture{index: index, view: make(chan *View, 1)}
	c.open = append(c.open, one)
	return one
}

// drop removes a capture, and releases the view that it got.
func (c *captures) drop(one *capture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(o *capture) bool { return o == one })
	select {
	case v := <-one.view:
		if v != nil {
			v.Release()
		}
	default:
	}
}

// next returns how many of the entries come up to the first index that is waited
// for: all when none is among them.
func (c *captures) next(entries []logEntry) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(entries)
	for _, one := range c.open {
		at, _ := slices.BinarySearchFunc(entries[:n], one.index, func(e logEntry, index uint64) int {
			if e.index <= index {
				return -1
			}
			return 1
		})
		if at > 0 {
			n = at
		}
	}
	return n
}

// serve answers those whose index is reached. It is called by the goroutine that
// applies, between two entries.
func (c *captures) serve(m *Machine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) == 0 {
		return
	}
	applied := m.Applied()
	c.open = slices.DeleteFunc(c.open, func(one *capture) bool {
		switch {
		case one.index > applied:
			return false
		case one.index == applied:
			one.view <- m.View()
		default:
			one.view <- nil
		}
		return true
	})
}

// ViewAt returns the view of exactly one index, once that is applied: states of
// two nodes can be compared there. The caller releases it. Errors: ErrPassed, also
// for an index without a view, which belongs to neither a command nor a configuration;
// and ctx's error.
func (m *Machine) ViewAt(ctx context.Context, index uint64) (*View, error) {
	one := m.captures.add(index)
	defer m.captures.drop(one)
	if m.Applied() >= index {
		v := m.View()
		if v.Index() == index {
			return v, nil
		}
		v.Release()
		return nil, ErrPassed
	}
	select {
	case v := <-one.view:
		if v == nil {
			return nil, ErrPassed
		}
		return v, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
