package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// The load: closed loops that publish and read through the balancer.
const (
	writers      = 8
	readers      = 4
	enoughWrites = 200 // to call it normal service
	channel      = "compose"
	pageSize     = 100
	loadPause    = 10 * time.Millisecond // leaves the processors to the nodes
	retryPause   = 200 * time.Millisecond
	homeWait     = 25 * time.Second
	settleTime   = 60 * time.Second // within which a repeated publication must be answered
)

// load publishes and reads while it runs, and keeps what was acknowledged.
type load struct {
	p      *project
	round  int // publications of different runs have different request ids
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu    sync.Mutex
	acks  map[string]string // entry id by request id
	cut   []error           // calls that a node took with it
	fatal []error           // what no client may see
	gap   time.Duration     // the longest that a client waited for what it wanted
	reads int
}

func newLoad(p *project) *load {
	return &load{p: p, cancel: func() {}, acks: map[string]string{}}
}

// start begins to publish and to read.
func (l *load) start() {
	ctx, cancel := context.WithCancel(l.p.ctx)
	l.cancel = cancel
	l.round++
	for i := range writers {
		prefix := fmt.Sprintf("load-%d-%d", l.round, i)
		l.group.Go(func() {
			l.repeat(ctx, func(n int) error { return l.publish(fmt.Sprintf("%s-%d", prefix, n)) })
		})
	}
	for range readers {
		l.group.Go(func() { l.repeat(ctx, l.read) })
	}
	l.group.Go(func() { l.repeat(ctx, func(int) error { return l.waitAtHome(ctx) }) })
}

// stop ends the load once what is under way is answered.
func (l *load) stop() {
	l.cancel()
	l.group.Wait()
}

// repeat runs a step of a client again and again until the load ends or the step fails.
func (l *load) repeat(ctx context.Context, step func(n int) error) {
	for n := 0; ctx.Err() == nil; n++ {
		if err := step(n); err != nil && ctx.Err() == nil {
			l.mu.Lock()
			l.fatal = append(l.fatal, err)
			l.mu.Unlock()
			return
		}
		time.Sleep(loadPause)
	}
}

// read lists the newest entries, every other time as they are at the leader. A
// read may never fail: there is always a node that can answer it.
func (l *load) read(n int) error {
	query := url.Values{"channel": {channel}, "limit": {"1"}}
	if n%2 == 1 {
		query.Set("consistency", "strong")
	}
	start := time.Now()
	if err := callOnce(l.p.ctx, l.p.url+"/api/entries?"+query.Encode()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	l.gap = max(l.gap, time.Since(start))
	return nil
}

// waitAtHome waits for longer than the balancer lets a call take that does not wait.
func (l *load) waitAtHome(ctx context.Context) error {
	query := url.Values{"for": {"nobody-writes-to-me"}, "wait": {strconv.Itoa(int(homeWait.Seconds()))}}
	return callOnce(ctx, l.p.url+"/api/home?"+query.Encode())
}

// publish publishes one entry. Where the node that has it is lost on the way, it
// is published again under its request id, as an agent would.
func (l *load) publish(requestID string) error {
	fields := map[string]any{"agent": "composer", "channel": channel, "request_id": requestID, "body": "body of " + requestID}
	start := time.Now()
	want := []int{http.StatusCreated}
	for {
		var answer struct{ Entry struct{ ID string } }
		err := call(l.p.ctx, http.MethodPost, l.p.url+"/api/entries", fields, &answer, want...)
		if err == nil {
			l.mu.Lock()
			l.acks[requestID] = answer.Entry.ID
			l.gap = max(l.gap, time.Since(start))
			l.mu.Unlock()
			return nil
		}
		if !lostOnTheWay(err) || time.Since(start) > settleTime {
			return err
		}
		l.mu.Lock()
		l.cut = append(l.cut, err)
		l.mu.Unlock()
		want = []int{http.StatusCreated, http.StatusOK}
		time.Sleep(retryPause)
	}
}

// lostOnTheWay reports whether a call may have been done, or not: the node that
// had it is gone. On a connection that had served others before, the balancer
// closes without a word, as HTTP wants it.
func lostOnTheWay(err error) bool {
	if r, answered := errors.AsType[*refusal](err); answered {
		return r.code == "outcome_unknown"
	}
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acks)
}

// waitForMore waits for enough acknowledgements to call it normal service.
func (l *load) waitForMore() error {
	from := l.count()
	return l.p.eventually(readyTimeout, func() error {
		if err := l.failed(); err != nil {
			return err
		}
		if got := l.count() - from; got < enoughWrites {
			return fmt.Errorf("%d of %d publications acknowledged", got, enoughWrites)
		}
		return nil
	})
}

func (l *load) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.fatal...)
}

// cutShort allows so many calls to have been lost with a node since it was last
// asked: those that were under way there.
func (l *load) cutShort(allowed int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	cut := l.cut
	l.cut = nil
	if len(cut) > allowed {
		return fmt.Errorf("%d calls were lost, %d could be: %w", len(cut), allowed, errors.Join(cut...))
	}
	fmt.Printf("   %d publications acknowledged in all, %d sent again\n", len(l.acks), len(cut))
	return nil
}

// withoutGap wants no client to have waited longer than limit since this was last
// asked.
func (l *load) withoutGap(limit time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	gap := l.gap
	l.gap = 0
	fmt.Printf("   %d reads in all, none failed; nobody waited longer than %v\n", l.reads, gap.Round(time.Millisecond))
	if gap > limit {
		return fmt.Errorf("a client waited for %v, and %v is the most", gap.Round(time.Millisecond), limit)
	}
	return nil
}

// verify reads every entry of the load from one node and compares them with what
// was acknowledged: each there, under its id, once.
func (l *load) verify(base string) error {
	type entry struct{ ID, Body string }
	byBody := map[string][]string{}
	query := url.Values{"channel": {channel}, "limit": {strconv.Itoa(pageSize)}, "consistency": {"strong"}}
	for {
		var page struct {
			Entries    []entry
			NextCursor *string
		}
		if err := call(l.p.ctx, http.MethodGet, base+"/api/entries?"+query.Encode(), nil, &page, http.StatusOK); err != nil {
			return err
		}
		for _, e := range page.Entries {
			byBody[e.Body] = append(byBody[e.Body], e.ID)
		}
		if page.NextCursor == nil {
			break
		}
		query.Set("cursor", *page.NextCursor)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for requestID, id := range l.acks {
		if ids := byBody["body of "+requestID]; len(ids) != 1 || ids[0] != id {
			return fmt.Errorf("%s was acknowledged as %s; its entries are %v", requestID, id, ids)
		}
	}
	if len(byBody) != len(l.acks) {
		return fmt.Errorf("%d entries, %d acknowledged", len(byBody), len(l.acks))
	}
	return nil
}
