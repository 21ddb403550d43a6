package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Sizes and times of Wait.
const (
	waitSeconds  = 60 // longest time for which a call is held
	waitTimeout  = (waitSeconds + 15) * time.Second
	waitBuffer   = 4 << 10 // of a caller's connection: there are thousands
	wakers       = 4
	wakeTimeout  = 10 * time.Second
	wakeName     = "wake" // the latency from sending an entry to a caller until its call is answered
	notWoken     = "not woken"
	lookForHeld  = time.Millisecond
	lookAtHeld   = 100 * time.Millisecond
	newsInAnswer = `"forYou":[{`
	nowInAnswer  = `"now":`
)

// caller is an agent that waits at home for entries to it, again and again.
type caller struct {
	*worker
	agent    string
	since    int64
	held     atomic.Bool    // its call is sent, and no waker has chosen it
	sent     chan time.Time // when the entry that should wake it was sent
	answered chan struct{}
}

type waiting struct {
	callers []*caller
	held    atomic.Int64 // calls that are sent and not answered
	fewest  int64        // lowest value of held so far
}

func (o Options) wait(ctx context.Context, targets []target, run string) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &waiting{}
	var group sync.WaitGroup
	for i := range o.Connections {
		c := &caller{
			worker: newWorker(o, targets, run, i, nil), agent: run + "-" + strconv.Itoa(i),
			sent: make(chan time.Time, 1), answered: make(chan struct{}, 1),
		}
		w.callers = append(w.callers, c)
		c.connect(ctx) // one after the other: a listener's queue is short
		group.Go(func() { w.call(ctx, c) })
	}
	workers := make([]*worker, 0, len(w.callers)+wakers)
	for _, c := range w.callers {
		workers = append(workers, c.worker)
	}
	if err := w.opened(ctx); err != nil {
		cancel()
		group.Wait()
		return nil, err
	}
	start := time.Now()
	time.AfterFunc(o.Duration, cancel)
	for i := range wakers {
		waker := newWorker(o, targets, run, o.Connections+i, nil)
		workers = append(workers, waker)
		group.Go(func() { w.wake(ctx, waker) })
	}
	w.watch(ctx)
	group.Wait()
	report := summarize(o, workers, time.Since(start))
	report.Held = w.fewest
	return report, nil
}

func (w *waiting) opened(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	for w.held.Load() < int64(len(w.callers)) {
		if !pause(ctx, lookAtHeld) {
			return ctx.Err()
		}
	}
	w.fewest = w.held.Load()
	return nil
}

func (w *waiting) watch(ctx context.Context) {
	for pause(ctx, lookAtHeld) {
		if held := w.held.Load(); ctx.Err() == nil {
			w.fewest = min(w.fewest, held)
		}
	}
}

func (w *waiting) call(ctx context.Context, c *caller) {
	defer c.hangUp()
	for ctx.Err() == nil {
		if !c.connect(ctx) {
			continue
		}
		c.address(fmt.Sprintf("/api/home?for=%s&since=%d&wait=%d", c.agent, c.since, waitSeconds))
		c.held.Store(true)
		w.held.Add(1)
		_, answered := c.exchange(ctx)
		w.held.Add(-1)
		c.held.Store(false)
		if answered {
			c.read()
		}
	}
}

// read counts an answer and looks for new entries and for the next since in it.
func (c *caller) read() {
	status, body := c.response.StatusCode(), c.response.Body()
	c.statuses[status]++
	if _, rest, found := bytes.Cut(body, []byte(nowInAnswer)); found {
		digits, _, _ := bytes.Cut(rest, []byte(","))
		if now, err := strconv.ParseInt(string(digits), 10, 64); err == nil {
			c.since = now
		}
	}
	if status != http.StatusOK || !bytes.Contains(body, []byte(newsInAnswer)) {
		return
	}
	select {
	case sent := <-c.sent:
		c.note(wakeName, time.Since(sent))
		c.answered <- struct{}{}
	default: // late: the waker has given up
	}
}

// wake writes to one caller after the other, each when the one before has got it.
func (w *waiting) wake(ctx context.Context, by *worker) {
	defer by.hangUp()
	for ctx.Err() == nil {
		c := w.callers[by.texts.random.IntN(len(w.callers))]
		if !c.held.CompareAndSwap(true, false) {
			pause(ctx, lookForHeld)
			continue
		}
		if !by.connect(ctx) {
			c.held.Store(true)
			continue
		}
		c.sent <- time.Now()
		if by.mention(ctx, c.agent) {
			select {
			case <-ctx.Done():
				return
			case <-c.answered:
				continue
			case <-time.After(wakeTimeout):
				by.failures[notWoken]++
			}
		}
		select {
		case <-c.sent: // no longer waited for
		default:
		}
	}
}

// mention publishes an entry that mentions an agent, and reports whether it was created.
func (w *worker) mention(ctx context.Context, agent string) bool {
	w.body = fmt.Appendf(w.body[:0], `{"agent":"bench-waker","channel":"bench-0","body":"@%s: %s"}`, agent, mark(w.run, w.number, w.sent))
	w.sent++
	w.address("/api/entries")
	took, answered := w.exchange(ctx)
	if !answered {
		return false
	}
	status := w.response.StatusCode()
	w.note(string(Write), took)
	w.statuses[status]++
	return status == http.StatusCreated
}
