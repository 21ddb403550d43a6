package guard

import (
	"container/list"
	"context"
	"net/netip"
	"runtime"
	"slices"
	"sync"
)

// buildsPerCPU is how many lists are made at once for each processor: more would
// only hold more memory.
const buildsPerCPU = 2

// builds are the lists that are being made. Where more are wanted, addresses take
// turns, so that one that wants many waits for itself.
type builds struct {
	mu      sync.Mutex
	free    int
	turns   *list.List // of *line, whose turn is next in front
	waiting map[netip.Prefix]*list.Element
}

// line is what of one address waits.
type line struct {
	address netip.Prefix
	waiters []chan struct{}
}

func (b *builds) init() {
	b.free, b.turns, b.waiting = buildsPerCPU*runtime.GOMAXPROCS(0), list.New(), make(map[netip.Prefix]*list.Element)
}

// Build waits for the turn of a client to have a list made, until ctx ends; then it
// returns false. Else the caller calls done when the list is made.
func (g *Guard) Build(ctx context.Context, client Client) (done func(), ok bool) {
	b := &g.builds
	b.mu.Lock()
	if b.free > 0 {
		b.free--
		b.mu.Unlock()
		return b.done, true
	}
	turn := make(chan struct{})
	at := b.waiting[client.narrow]
	if at == nil {
		at = b.turns.PushBack(&line{address: client.narrow})
		b.waiting[client.narrow] = at
	}
	of, _ := at.Value.(*line)
	of.waiters = append(of.waiters, turn)
	b.mu.Unlock()
	select {
	case <-turn:
		return b.done, true
	case <-ctx.Done():
	}
	b.mu.Lock()
	i := slices.Index(of.waiters, turn)
	if i >= 0 {
		of.waiters = slices.Delete(of.waiters, i, i+1)
		b.dropEmpty(of)
	}
	b.mu.Unlock()
	if i < 0 {
		b.done() // it was its turn just now
	}
	return nil, false
}

// done lets the next one have its turn.
func (b *builds) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.turns.Front()
	if next == nil {
		b.free++
		return
	}
	of, _ := next.Value.(*line)
	close(of.waiters[0])
	of.waiters = of.waiters[1:]
	b.turns.MoveToBack(next)
	b.dropEmpty(of)
}

func (b *builds) dropEmpty(of *line) {
	if at := b.waiting[of.address]; len(of.waiters) == 0 && at != nil && at.Value == of {
		b.turns.Remove(at)
		delete(b.waiting, of.address)
	}
}
