package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
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
	targets  []*harness.Node
	underWay map[*harness.Node]*atomic.Int64
	turn     atomic.Int64
}

func newRouting(nodes []*harness.Node) *routing {
	r := &routing{targets: nodes, underWay: map[*harness.Node]*atomic.Int64{}}
	for _, p := range nodes {
		r.underWay[p] = &atomic.Int64{}
	}
	return r
}

// with makes one call to one of the targets.
func (r *routing) with(do func(*harness.Node) error) error {
	r.mu.RLock()
	target := r.targets[int(r.turn.Add(1))%len(r.targets)]
	count := r.underWay[target]
	count.Add(1)
	r.mu.RUnlock()
	defer count.Add(-1)
	return do(target)
}

// use changes the targets and waits until no call is under way elsewhere.
func (r *routing) use(run *harness.Run, targets []*harness.Node) error {
	r.mu.Lock()
	r.targets = targets
	r.mu.Unlock()
	return run.Eventually(harness.CallTimeout, func() error {
		for p, count := range r.underWay {
			if n := count.Load(); n > 0 && !slices.Contains(targets, p) {
				return fmt.Errorf("%d calls still under way at %s", n, p.Name)
			}
		}
		return nil
	})
}

// load is writers, and a reader that polls, at work on one channel.
type load struct {
	*harness.Load
	cluster *cluster
	lenient bool // errors are expected: every node may be down

	seen  map[string]int // ids that the reader has seen
	since int64          // the newest of them is of this time

	mu      sync.Mutex
	unknown []string // request ids without an acknowledgement
}

// startLoad begins to publish to a channel through the routing's targets.
func (c *cluster) startLoad(channel string, lenient bool) *load {
	l := &load{Load: harness.NewLoad(c.Run.Ctx, channel), cluster: c, lenient: lenient, seen: map[string]int{}}
	l.Padding = loadPadding
	l.Start(writers, c.pace, l.write)
	if !lenient {
		l.Go(harness.PollEvery, func(context.Context, int) error { return l.poll(0) })
	}
	return l
}

// write publishes one entry from an address that is the writer's own, where the
// nodes trust who forwards.
func (l *load) write(writer int, requestID string) error {
	body, err := json.Marshal(l.Fields(requestID))
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json"}, "X-Forwarded-For": {fmt.Sprintf("192.0.2.%d", writer+1)}}
	var answer harness.Published
	err = l.cluster.route.with(func(p *harness.Node) (err error) {
		answer, err = p.Publish(header, body, http.StatusCreated)
		return err
	})
	if err == nil {
		l.Acknowledged(requestID, answer)
		return nil
	}
	l.mu.Lock()
	l.unknown = append(l.unknown, requestID)
	l.mu.Unlock()
	if !l.lenient {
		return err
	}
	time.Sleep(harness.PollEvery)
	return nil
}

// poll reads the channel as an agent does: what is newer than the newest seen,
// page by page, from any node that has applied the index.
func (l *load) poll(index uint64) error {
	var entries []harness.Entry
	query := url.Values{"channel": {l.Channel}, "since": {strconv.FormatInt(l.since, 10)}}
	err := l.cluster.route.with(func(p *harness.Node) (err error) {
		entries, err = p.List(index, query)
		return err
	})
	if err != nil {
		return fmt.Errorf("polling: %w", err)
	}
	for _, e := range entries {
		l.seen[e.ID]++
		l.since = max(l.since, e.CreatedAt)
	}
	return nil
}

// waitForMore waits for enough acknowledgements to call it normal service.
func (l *load) waitForMore() error {
	if l.cluster.pace > 0 {
		return l.WaitForMore(enoughPaced)
	}
	return l.WaitForMore(enoughWrites)
}

// end stops the load and checks every promise on every node: no error, each
// acknowledged entry there under its id, each request id once, the polling
// reader missed and repeated nothing.
func (l *load) end() error {
	l.Stop()
	if !l.lenient {
		// One more round, where what was acknowledged last is applied, sees that.
		_, index := l.Acks()
		if err := l.poll(index); err != nil {
			return err
		}
	}
	if err := l.Failed(); err != nil {
		return fmt.Errorf("a client of a living node saw an error: %w", err)
	}
	if err := l.settle(); err != nil {
		return err
	}
	acks, index := l.Acks()
	for _, p := range l.cluster.Nodes {
		entries, err := p.List(index, url.Values{"channel": {l.Channel}})
		if err != nil {
			return err
		}
		if err := l.Verify(entries); err != nil {
			return fmt.Errorf("on %s: %w", p.Name, err)
		}
	}
	for _, a := range acks {
		if n := l.seen[a.ID]; !l.lenient && n != 1 {
			return fmt.Errorf("the polling reader saw %s, acknowledged, %d times", a.ID, n)
		}
	}
	fmt.Printf("   %d writes acknowledged, %d without an answer sent again; all there, once, on every node\n", len(acks)-len(l.unknown), len(l.unknown))
	return nil
}

// settle sends again, on another node, what nobody knows the outcome of, and a
// few known ones: the answers must be the first ones.
func (l *load) settle() error {
	nodes := l.cluster.Nodes
	for i, requestID := range l.unknown {
		answer, err := nodes[i%len(nodes)].Publish(nil, l.Fields(requestID), http.StatusCreated, http.StatusOK)
		if err != nil {
			return fmt.Errorf("sent again: %w", err)
		}
		l.Acknowledged(requestID, answer)
	}
	const samples = 20
	acks, _ := l.Acks()
	step := max(1, len(acks)/samples)
	for i := 0; i < len(acks); i += step {
		a := acks[i]
		answer, err := nodes[i/step%len(nodes)].Publish(nil, l.Fields(a.RequestID), http.StatusOK)
		if err != nil {
			return fmt.Errorf("request id used again: %w", err)
		}
		if answer.Entry.ID != a.ID || !answer.Duplicate {
			return fmt.Errorf("request id %s used again makes %s, was %s, duplicate %v", a.RequestID, answer.Entry.ID, a.ID, answer.Duplicate)
		}
	}
	return nil
}
