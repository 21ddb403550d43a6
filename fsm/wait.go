package fsm

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
)

// waiters lets any number of goroutines wait for an index. Telling them costs
// the apply goroutine one look at the smallest index that is waited for.
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
