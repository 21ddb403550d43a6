package guard

import (
	"container/list"
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// waits are waiting calls, arriving requests or streams, the oldest of each address first. If there
// are too many, the oldest of the address with the most end early. Such a call gets the same
// response as one whose wait timed out.
type waits struct {
	holdings
	most   int
	shedOf prometheus.Counter
	count  int
	queues map[netip.Prefix]*list.List // by Client.narrow
}

func (w *waits) init(address, most int, shed prometheus.Counter) {
	w.shares, w.most, w.shedOf = newShares(address), most, shed
	w.queues = make(map[netip.Prefix]*list.List)
}

// held returns how many there are.
func (w *waits) held() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// Wait is one call that waits, or one request that arrives.
type Wait struct {
	waits  *waits
	client Client
	weight int           // the number of calls that it counts as
	place  *list.Element // nil if it left the queue
	end    func()
}

// waitBytes of a request that is held while its call waits count as one more call.
const waitBytes = 2 << 10

// Wait counts a call that waits and holds a request of so many bytes. The caller calls
// Done when the wait is over; end is called when the call should answer at once. It must
// not block.
func (g *Guard) Wait(client Client, bytes int, end func()) *Wait {
	return g.waits.begin(client, false, 1+bytes/waitBytes, end)
}

// begin counts one more. An exempt address has no bound of its own.
func (w *waits) begin(client Client, exempt bool, weight int, end func()) *Wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !exempt && !w.shares.fits(client, weight) && w.shed(w.fullest(client, weight)) {
	}
	for w.count+weight > w.most && w.shed(w.shares.heaviest()) {
	}
	queue := w.queues[client.narrow]
	if queue == nil {
		queue = list.New()
		w.queues[client.narrow] = queue
	}
	wait := &Wait{waits: w, client: client, weight: weight, end: end}
	wait.place = queue.PushBack(wait)
	w.shares.add(client, weight)
	w.count += weight
	return wait
}

// fullest returns the address that gives way for a client over its bound: the client's
// own if that is over its bound, else the one with the most in its /48.
func (w *waits) fullest(client Client, weight int) netip.Prefix {
	most := client.narrow
	if w.shares.held[most]+weight > w.shares.bound {
		return most
	}
	for p, queue := range w.queues {
		if client.wide.Contains(p.Addr()) && (w.queues[most] == nil || queue.Len() > w.queues[most].Len()) {
			most = p
		}
	}
	return most
}

// shed ends the oldest waits of an address, and reports whether there were any.
func (w *waits) shed(address netip.Prefix) bool {
	queue := w.queues[address]
	if queue == nil {
		return false
	}
	for range batch(queue.Len()) {
		wait, _ := queue.Front().Value.(*Wait)
		w.remove(wait)
		wait.end()
		w.shedOf.Inc()
	}
	return true
}

func (w *waits) remove(wait *Wait) {
	queue := w.queues[wait.client.narrow]
	queue.Remove(wait.place)
	wait.place = nil
	if queue.Len() == 0 {
		delete(w.queues, wait.client.narrow)
	}
	w.shares.add(wait.client, -wait.weight)
	w.count -= wait.weight
}

// Done ends the wait.
func (w *Wait) Done() {
	w.waits.mu.Lock()
	defer w.waits.mu.Unlock()
	if w.place != nil {
		w.waits.remove(w)
	}
}

// buildsPerCPU is the number of lists, and of pages, made at once for each processor: more would only
// hold more memory.
const buildsPerCPU = 2

// turns bounds work that runs at the same time. If more is wanted, addresses take turns, so
// that an address that wants much delays only itself.
type turns struct {
	mu      sync.Mutex
	free    int
	lines   *list.List // of *line, whose turn is next in front
	waiting map[netip.Prefix]*list.Element
}

// line holds the calls of one address that wait for their turn.
type line struct {
	address netip.Prefix
	waiters []chan struct{}
}

func (b *turns) init(most int) {
	b.free, b.lines, b.waiting = most, list.New(), make(map[netip.Prefix]*list.Element)
}

// Build waits for the turn of a client to have a list made, for so long at most and until
// ctx ends; then it returns false. Else the caller calls done when the list is made.
func (g *Guard) Build(ctx context.Context, most time.Duration, client Client) (done func(), ok bool) {
	return g.builds.take(ctx, most, client)
}

// MakePage waits as Build does, for the turn of a client to have a page made, with all its lists.
func (g *Guard) MakePage(ctx context.Context, most time.Duration, client Client) (done func(), ok bool) {
	return g.pages.take(ctx, most, client)
}

func (b *turns) take(ctx context.Context, most time.Duration, client Client) (done func(), ok bool) {
	b.mu.Lock()
	if b.free > 0 {
		b.free--
		b.mu.Unlock()
		return b.done, true
	}
	turn := make(chan struct{})
	at := b.waiting[client.narrow]
	if at == nil {
		at = b.lines.PushBack(&line{address: client.narrow})
		b.waiting[client.narrow] = at
	}
	of, _ := at.Value.(*line)
	of.waiters = append(of.waiters, turn)
	b.mu.Unlock()
	over := time.NewTimer(most)
	defer over.Stop()
	select {
	case <-turn:
		return b.done, true
	case <-over.C:
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
func (b *turns) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.lines.Front()
	if next == nil {
		b.free++
		return
	}
	of, _ := next.Value.(*line)
	close(of.waiters[0])
	of.waiters = of.waiters[1:]
	b.lines.MoveToBack(next)
	b.dropEmpty(of)
}

func (b *turns) dropEmpty(of *line) {
	if at := b.waiting[of.address]; len(of.waiters) == 0 && at != nil && at.Value == of {
		b.lines.Remove(at)
		delete(b.waiting, of.address)
	}
}

// Stream counts a stream of events that holds so many bytes of its request, as waits are
// counted. It returns false if the client's address has as many as it may. If the node
// has, the oldest of the address with the most end: end is called, and must not block.
// The place is free again when the connection closes.
func (g *Guard) Stream(conn *Conn, client Client, bytes int, end func()) bool {
	w, weight := &g.streams, 1+bytes/waitBytes
	w.mu.Lock()
	fits := w.shares.fits(client, weight)
	w.mu.Unlock()
	if !fits {
		g.metrics.rejected.WithLabelValues("streams").Inc()
		return false
	}
	conn.stream.Store(w.begin(client, false, weight, end))
	return true
}

// Send writes all of p, or fails if the client does not read it in time.
func (c *Conn) Send(p []byte, within time.Duration) error {
	c.final = time.Now().Add(within)
	var over net.Conn = c
	if c.secure != nil {
		over = c.secure
	}
	_, err := over.Write(p)
	if timeout, is := err.(net.Error); is && timeout.Timeout() { //nolint:errorlint // as it is returned
		c.guard.metrics.closed.WithLabelValues("unread").Inc()
	}
	return err
}
