package fsm

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// waiters lets goroutines wait for an index. Apply looks at the lowest of these only.
type waiters struct {
	applied atomic.Uint64
	mu      sync.Mutex
	waiting []*waiter // by index
	closed  bool
}

type waiter struct {
	index uint64
	ready chan struct{}
}

// wait waits until advance was called with index or more.
func (w *waiters) wait(ctx context.Context, index uint64) error {
	if w.applied.Load() >= index {
		return nil
	}
	me := &waiter{index: index, ready: make(chan struct{})}
	w.mu.Lock()
	if w.applied.Load() >= index || w.closed {
		close(me.ready)
	} else {
		at, _ := slices.BinarySearchFunc(w.waiting, index, func(o *waiter, index uint64) int { return cmp.Compare(o.index, index) })
		w.waiting = slices.Insert(w.waiting, at, me)
	}
	w.mu.Unlock()

	select {
	case <-me.ready:
	case <-ctx.Done():
		w.mu.Lock()
		w.waiting = slices.DeleteFunc(w.waiting, func(o *waiter) bool { return o == me })
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

// advance wakes all who wait for index or less. A lower index than before is ignored.
func (w *waiters) advance(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if index <= w.applied.Load() {
		return
	}
	w.applied.Store(index)
	w.wake(index)
}

// wake wakes those who wait for index or less. The caller holds mu.
func (w *waiters) wake(index uint64) {
	n := 0
	for ; n < len(w.waiting) && w.waiting[n].index <= index; n++ {
		close(w.waiting[n].ready)
	}
	w.waiting = slices.Delete(w.waiting, 0, n)
}

// close wakes all; those whose index was not reached get ErrClosed.
func (w *waiters) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.wake(math.MaxUint64)
}

// watchers are woken when a change that concerns their agent was applied.
type watchers struct {
	count atomic.Int64
	mu    sync.Mutex
	by    map[string]map[chan struct{}]bool
}

// Watch returns a channel that gets a value when a change was applied that concerns one of the
// keys, after the view that holds it was published; and also when the whole state was replaced
// or closed. A key is that of an agent (text.Fold), of opened jobs (state.WatchJobs), or of
// another change. Watch first and look at a view afterwards, so that no change is missed. The
// caller calls stop when done.
func (m *Machine) Watch(keys ...string) (wake <-chan struct{}, stop func()) {
	w := make(chan struct{}, 1)
	ws := &m.watchers
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.by == nil {
		ws.by = make(map[string]map[chan struct{}]bool)
	}
	for _, key := range keys {
		if ws.by[key] == nil {
			ws.by[key] = make(map[chan struct{}]bool)
		}
		ws.by[key][w] = true
	}
	ws.count.Add(1)
	return w, sync.OnceFunc(func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		for _, key := range keys {
			delete(ws.by[key], w)
			if len(ws.by[key]) == 0 {
				delete(ws.by, key)
			}
		}
		ws.count.Add(-1)
	})
}

// notify wakes the watchers of all agents that the entries concern, and of other keys.
func (ws *watchers) notify(added []apply.Indexed, others ...string) {
	if ws.count.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for i := range added {
		for _, name := range added[i].Entry.Inbox {
			wakeAll(ws.by[name])
		}
	}
	for _, name := range others {
		wakeAll(ws.by[name])
	}
}

// notifyOpened wakes the watchers of jobs that became open.
func (m *Machine) notifyOpened(jobs []uint64) {
	if len(jobs) == 0 || m.watchers.count.Load() == 0 {
		return
	}
	v := m.View()
	defer v.Release()
	keys := []string{state.WatchJobs}
	for _, job := range jobs {
		tags, _ := v.Tags(job) // an unreadable job wakes those who watch all
		for _, tag := range tags {
			keys = append(keys, state.WatchJobs+text.FoldTag(tag))
		}
	}
	m.watchers.notify(nil, keys...)
}

// The keys of watchers of other changes. No agent has such a key.
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

func (ws *watchers) notifyAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, set := range ws.by {
		wakeAll(set)
	}
}

func wakeAll(set map[chan struct{}]bool) {
	for wake := range set {
		select {
		case wake <- struct{}{}:
		default: // it is woken already
		}
	}
}

// jobWaiters wait for a job that they can take, in order of arrival. Each job that becomes open
// wakes one of them, so that not all propose to take it.
type jobWaiters struct {
	mu    sync.Mutex
	queue []chan struct{} // each has room for one value: the waiter is woken
}

// WatchJobs returns a channel that gets a value when a job was opened, after the view that
// holds it was published. Watch first and look at a view afterwards. A waiter that was woken
// and takes no job calls pass, which wakes the next one; stop ends the waiting.
func (m *Machine) WatchJobs() (wake <-chan struct{}, pass, stop func()) {
	ws, me := &m.jobWaiters, make(chan struct{}, 1)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.queue = append(ws.queue, me)
	pass = func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		ws.wakeFrom(slices.Index(ws.queue, me)+1, 1)
	}
	return me, pass, sync.OnceFunc(func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		at := slices.Index(ws.queue, me)
		ws.queue = slices.Delete(ws.queue, at, at+1)
		select {
		case <-me: // it leaves without looking
			ws.wakeFrom(at, 1)
		default:
		}
	})
}

// wake wakes the first n waiters that are not woken yet.
func (ws *jobWaiters) wake(n int) {
	if n == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.wakeFrom(0, n)
}

// wakeFrom wakes the first n waiters from a place on that are not woken yet. The caller holds mu.
func (ws *jobWaiters) wakeFrom(at, n int) {
	for _, w := range ws.queue[at:] {
		if n == 0 {
			return
		}
		select {
		case w <- struct{}{}:
			n--
		default: // it is woken already
		}
	}
}

// ErrPassed is returned by ViewAt for an index that is behind the state.
var ErrPassed = errors.New("the state is past that index")

// captures are the views that callers wait for, each of one index.
type captures struct {
	mu   sync.Mutex
	open []*capture
}

type capture struct {
	index uint64
	view  chan *view.View // gets one value: nil if the index was passed
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

// next returns the number of entries up to the first index that a caller waits for, or of
// all entries.
func (c *captures) next(entries []apply.LogEntry) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(entries)
	for _, one := range c.open {
		after := slices.IndexFunc(entries[:n], func(e apply.LogEntry) bool { return e.Index > one.index })
		if after > 0 {
			n = after
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
func (m *Machine) ViewAt(ctx context.Context, index uint64) (*view.View, error) {
	c, one := &m.captures, &capture{index: index, view: make(chan *view.View, 1)}
	c.mu.Lock()
	c.open = append(c.open, one)
	c.mu.Unlock()
	defer c.drop(one)
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
		if v != nil {
			return v, nil
		}
		return nil, ErrPassed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
