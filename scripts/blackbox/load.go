package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The load: closed loops that publish entries of about a kilobyte.
const (
	writers      = 8
	loadPadding  = 900
	enoughWrites = 200 // to see before and after each event
	enoughPaced  = 50  // the same, where writers pause
)

// routing says which nodes clients talk to, and how many calls are under way at
// each, so that a node can be left before it is killed.
type routing struct {
	mu       sync.RWMutex
	targets  []*process
	underWay map[*process]*atomic.Int64
	turn     atomic.Int64
}

func newRouting(nodes []*process) *routing {
	r := &routing{targets: nodes, underWay: map[*process]*atomic.Int64{}}
	for _, p := range nodes {
		r.underWay[p] = &atomic.Int64{}
	}
	return r
}

// with makes one call to one of the targets.
func (r *routing) with(do func(*process) error) error {
	r.mu.RLock()
	target := r.targets[int(r.turn.Add(1))%len(r.targets)]
	count := r.underWay[target]
	count.Add(1)
	r.mu.RUnlock()
	defer count.Add(-1)
	return do(target)
}

// use changes the targets and waits until no call is under way elsewhere.
func (r *routing) use(b *bench, targets []*process) error {
	r.mu.Lock()
	r.targets = targets
	r.mu.Unlock()
	return b.eventually(callTimeout, func() error {
		for p, count := range r.underWay {
			if n := count.Load(); n > 0 && !slices.Contains(targets, p) {
				return fmt.Errorf("%d calls still under way at %s", n, p.name)
			}
		}
		return nil
	})
}

// ack is an acknowledged publication.
type ack struct {
	requestID string
	id        string
	at        time.Time
}

// load is writers, and a reader that polls, at work on one channel.
type load struct {
	cluster *cluster
	channel string
	cancel  context.CancelFunc
	group   sync.WaitGroup
	lenient bool // errors are expected: every node may be down

	mu      sync.Mutex
	acks    []ack
	unknown []string // request ids without an acknowledgement
	index   uint64   // highest of the answers
	errs    []error
	seen    map[string]int // ids that the reader has seen
}

// startLoad begins to publish to a channel through the routing's targets.
func (c *cluster) startLoad(channel string, lenient bool) *load {
	ctx, cancel := context.WithCancel(c.bench.ctx)
	l := &load{cluster: c, channel: channel, cancel: cancel, lenient: lenient, seen: map[string]int{}}
	for i := range writers {
		l.group.Go(func() { l.write(ctx, i) })
	}
	if !lenient {
		l.group.Go(func() { l.poll(ctx) })
	}
	return l
}

func (l *load) write(ctx context.Context, writer int) {
	for n := 0; ctx.Err() == nil; n++ {
		requestID := fmt.Sprintf("%s-%d-%d", l.channel, writer, n)
		err := l.cluster.route.with(func(p *process) error { return l.publish(p, writer, requestID) })
		if err == nil {
			time.Sleep(l.cluster.pace)
			continue
		}
		l.mu.Lock()
		l.unknown = append(l.unknown, requestID)
		if !l.lenient {
			l.errs = append(l.errs, err)
		}
		l.mu.Unlock()
		if !l.lenient {
			return
		}
		time.Sleep(pollEvery)
	}
}

// fields are those of a publication. The name of its agent is its writer's.
func (l *load) fields(requestID string) map[string]any {
	return map[string]any{
		"agent": requestID[:strings.LastIndexByte(requestID, '-')], "channel": l.channel, "request_id": requestID,
		"body": requestID + " " + padding[:loadPadding],
	}
}

// publish publishes from an address that is the writer's own, where the nodes trust
// who forwards.
func (l *load) publish(p *process, writer int, requestID string) error {
	body, err := json.Marshal(l.fields(requestID))
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json"}, "X-Forwarded-For": {fmt.Sprintf("192.0.2.%d", writer+1)}}
	answer, err := p.publishWith(header, body, http.StatusCreated)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = append(l.acks, ack{requestID, answer.Entry.ID, time.Now()})
	l.index = max(l.index, answer.index)
	return nil
}

// poll reads the channel as an agent does: what is newer than the newest seen,
// page by page, from any node.
func (l *load) poll(ctx context.Context) {
	since := int64(0)
	for last := false; ; {
		var entries []entry
		err := l.cluster.route.with(func(p *process) (err error) {
			entries, err = p.list(0, url.Values{"channel": {l.channel}, "since": {strconv.FormatInt(since, 10)}})
			return err
		})
		l.mu.Lock()
		if err != nil {
			l.errs = append(l.errs, fmt.Errorf("polling: %w", err))
		}
		for _, e := range entries {
			l.seen[e.ID]++
			since = max(since, e.CreatedAt)
		}
		l.mu.Unlock()
		if err != nil || last {
			return
		}
		// One more round after the end sees what was acknowledged last.
		last = ctx.Err() != nil
		time.Sleep(pollEvery)
	}
}

// count is how many publications are acknowledged.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acks)
}

// waitForMore waits for enough acknowledgements to call it normal service.
func (l *load) waitForMore() error {
	from, enough := l.count(), enoughWrites
	if l.cluster.pace > 0 {
		enough = enoughPaced
	}
	return l.cluster.bench.eventually(readyTimeout, func() error {
		if err := l.failed(); err != nil {
			return err
		}
		if got := l.count() - from; got < enough {
			return fmt.Errorf("%d of %d writes acknowledged", got, enough)
		}
		return nil
	})
}

func (l *load) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}

// gap is the longest time without an acknowledgement since a moment.
func (l *load) gap(since time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var longest time.Duration
	last := since
	for _, a := range l.acks {
		if a.at.After(since) {
			longest = max(longest, a.at.Sub(last))
			last = a.at
		}
	}
	return longest
}

// end stops the load and checks every promise on every node: no error, each
// acknowledged entry there under its id, each request id once, the polling
// reader missed and repeated nothing.
func (l *load) end() error {
	l.cancel()
	l.group.Wait()
	if err := l.failed(); err != nil {
		return fmt.Errorf("a client of a living node saw an error: %w", err)
	}
	if err := l.settle(); err != nil {
		return err
	}
	for _, p := range l.cluster.nodes {
		entries, err := p.list(l.index, url.Values{"channel": {l.channel}})
		if err != nil {
			return err
		}
		if err := l.verify(entries); err != nil {
			return fmt.Errorf("on %s: %w", p.name, err)
		}
	}
	for _, a := range l.acks {
		if n := l.seen[a.id]; !l.lenient && n != 1 {
			return fmt.Errorf("the polling reader saw %s, acknowledged, %d times", a.id, n)
		}
	}
	fmt.Printf("   %d writes acknowledged, %d without an answer sent again; all there, once, on every node\n", len(l.acks)-len(l.unknown), len(l.unknown))
	return nil
}

// settle sends again, on another node, what nobody knows the outcome of, and a
// few known ones: the answers must be the first ones.
func (l *load) settle() error {
	nodes := l.cluster.nodes
	for i, requestID := range l.unknown {
		fields := l.fields(requestID)
		p := nodes[i%len(nodes)]
		answer, err := p.publishJSON(http.StatusCreated, fields)
		if err != nil {
			answer, err = p.publishJSON(http.StatusOK, fields)
		}
		if err != nil {
			return fmt.Errorf("sent again: %w", err)
		}
		l.acks = append(l.acks, ack{requestID, answer.Entry.ID, time.Now()})
		l.index = max(l.index, answer.index)
	}
	const samples = 20
	step := max(1, len(l.acks)/samples)
	for i := 0; i < len(l.acks); i += step {
		a := l.acks[i]
		answer, err := nodes[i/step%len(nodes)].publishJSON(http.StatusOK, l.fields(a.requestID))
		if err != nil {
			return fmt.Errorf("request id used again: %w", err)
		}
		if answer.Entry.ID != a.id || !answer.Duplicate {
			return fmt.Errorf("request id %s used again makes %s, was %s, duplicate %v", a.requestID, answer.Entry.ID, a.id, answer.Duplicate)
		}
	}
	return nil
}

// verify compares what a node has with what was acknowledged.
func (l *load) verify(entries []entry) error {
	byBody := map[string]int{}
	byID := map[string]string{}
	for i, e := range entries {
		byBody[e.Body]++
		byID[e.ID] = e.Body
		if i > 0 && e.CreatedAt > entries[i-1].CreatedAt {
			return fmt.Errorf("%s is older than %s and stands before it", entries[i-1].ID, e.ID)
		}
	}
	for _, a := range l.acks {
		body := l.fields(a.requestID)["body"].(string)
		if byID[a.id] != body {
			return fmt.Errorf("%s was acknowledged for %s and is lost (the entry of that id has body %.40q)", a.id, a.requestID, byID[a.id])
		}
		if n := byBody[body]; n != 1 {
			return fmt.Errorf("%d entries for request id %s", n, a.requestID)
		}
	}
	if len(entries) != len(l.acks) {
		return fmt.Errorf("%d entries, %d acknowledged", len(entries), len(l.acks))
	}
	return nil
}
