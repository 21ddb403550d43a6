package propose

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// rounds lets concurrent strong reads share one request for the index. A caller joins the
// round that starts next, never the running one, which may have read its index before the
// caller's last write. If a round takes longer than patience, the next one starts, because
// the request of the slow one may be lost.
type rounds struct {
	run      func(context.Context) (uint64, error)
	base     context.Context // ends with the Pipeline
	patience time.Duration

	mu      sync.Mutex
	next    *round // the round that callers join, or nil
	running bool
}

// round is one shared request. Its index and error are set before done is closed.
type round struct {
	done   chan struct{}
	askers int
	index  uint64
	err    error
}

// ask returns the index of a round that began after the call.
func (r *rounds) ask(ctx context.Context) (uint64, error) {
	joined := r.join()
	select {
	case <-joined.done:
		return joined.index, joined.err
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the leader: %w", ctx.Err())
	}
}

// join returns the round that starts next, and starts the loop if it does not run.
func (r *rounds) join() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	r.next.askers++
	if !r.running {
		r.running = true
		go r.loop()
	}
	return r.next
}

// loop starts one round after another while callers join them.
func (r *rounds) loop() {
	for {
		r.mu.Lock()
		current := r.next
		r.next = nil
		r.running = current != nil
		r.mu.Unlock()
		if current == nil {
			return
		}
		go func() {
			current.index, current.err = r.run(r.base)
			close(current.done)
		}()
		select {
		case <-current.done:
		case <-time.After(r.patience):
		}
	}
}
