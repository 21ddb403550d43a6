package guard

import (
	"container/list"
	"net/netip"
)

// waits are the calls that wait, the oldest of each address first. Where there are
// too many, the oldest of the address with the most end early: a call that waited in
// vain gets the same answer.
type waits struct {
	full
	count  int
	queues map[netip.Prefix]*list.List // by Client.narrow
}

func (w *waits) init(g *Guard) {
	w.guard, w.shares = g, newShares(g.limits.AddressWaits)
	w.queues = make(map[netip.Prefix]*list.List)
}

// Wait is one call that waits.
type Wait struct {
	waits  *waits
	client Client
	place  *list.Element // nil: out of the queue
	end    func()
}

// Wait counts a call that waits. The caller calls Done when the wait is over; end is
// called when the call should answer at once. It must not block.
func (g *Guard) Wait(client Client, end func()) *Wait {
	w := &g.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.shares.fits(client, 1):
		w.shed(w.fullest(client))
	case w.count >= g.limits.waits():
		w.shed(w.shares.heaviest())
	}
	queue := w.queues[client.narrow]
	if queue == nil {
		queue = list.New()
		w.queues[client.narrow] = queue
	}
	wait := &Wait{waits: w, client: client, end: end}
	wait.place = queue.PushBack(wait)
	w.shares.add(client, 1)
	w.count++
	return wait
}

// fullest returns the address that gives way for a client over its bound: its own,
// or that with the most of its /48.
func (w *waits) fullest(client Client) netip.Prefix {
	most := client.narrow
	if w.shares.held[most] >= w.shares.bound {
		return most
	}
	for p, queue := range w.queues {
		if client.wide.Contains(p.Addr()) && (w.queues[most] == nil || queue.Len() > w.queues[most].Len()) {
			most = p
		}
	}
	return most
}

// shed ends the oldest waits of an address.
func (w *waits) shed(address netip.Prefix) {
	queue := w.queues[address]
	if queue == nil {
		return
	}
	for range batch(queue.Len()) {
		wait, _ := queue.Front().Value.(*Wait)
		w.remove(wait)
		wait.end()
		w.guard.metrics.shedWaits.Inc()
	}
}

func (w *waits) remove(wait *Wait) {
	queue := w.queues[wait.client.narrow]
	queue.Remove(wait.place)
	wait.place = nil
	if queue.Len() == 0 {
		delete(w.queues, wait.client.narrow)
	}
	w.shares.add(wait.client, -1)
	w.count--
}

// Done ends the wait.
func (w *Wait) Done() {
	w.waits.mu.Lock()
	defer w.waits.mu.Unlock()
	if w.place != nil {
		w.waits.remove(w)
	}
}
