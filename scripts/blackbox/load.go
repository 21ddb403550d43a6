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

// routing says which nodes clients talk to, and how many calls are under way at each, so
// that clients can stop using a node before it is killed.
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
func (r *routing) use(run *harness.Run, targets []*harness.Node) {
	r.mu.Lock()
	r.targets = targets
	r.mu.Unlock()
	harness.Must(run.Eventually(harness.CallTimeout, func() error {
		for p, count := range r.underWay {
			if n := count.Load(); n > 0 && !slices.Contains(targets, p) {
				return fmt.Errorf("%d calls still under way at %s", n, p.Name)
			}
		}
		return nil
	}))
}

// load is writers and a polling reader that work on one channel.
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

// write publishes one entry. If the nodes trust forwarding proxies, the writer has its
// own address.
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

// poll reads the channel as an agent does: entries newer than the newest seen, page by
// page, from any node that has applied the index.
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
func (l *load) waitForMore() {
	enough := enoughWrites
	if l.cluster.pace > 0 {
		enough = enoughPaced
	}
	harness.Must(l.WaitForMore(enough))
}

// end stops the load and checks every promise on every node: no error, each
// acknowledged entry there under its id, each request id once, the polling
// reader missed and repeated nothing.
func (l *load) end() {
	l.Stop()
	if !l.lenient {
		// One more round, where the last acknowledged write is applied, sees that write.
		_, index := l.Acks()
		harness.Must(l.poll(index))
	}
	if err := l.Failed(); err != nil {
		harness.Failf("a client of a living node saw an error: %w", err)
	}
	l.settle()
	acks, index := l.Acks()
	for _, p := range l.cluster.Nodes {
		entries := harness.Got(p.List(index, url.Values{"channel": {l.Channel}}))
		if err := l.Verify(entries); err != nil {
			harness.Failf("on %s: %w", p.Name, err)
		}
	}
	for _, a := range acks {
		if n := l.seen[a.ID]; !l.lenient && n != 1 {
			harness.Failf("the polling reader saw %s, acknowledged, %d times", a.ID, n)
		}
	}
	fmt.Printf("   %d writes acknowledged, %d without an answer sent again; all there, once, on every node\n", len(acks)-len(l.unknown), len(l.unknown))
}

// settle sends writes with an unknown outcome again, and a few acknowledged ones: these
// must get the entries of the first answers.
func (l *load) settle() {
	nodes := l.cluster.Nodes
	for i, requestID := range l.unknown {
		l.Acknowledged(requestID, harness.Got(nodes[i%len(nodes)].Publish(nil, l.Fields(requestID), http.StatusCreated, http.StatusOK)))
	}
	const samples = 20
	acks, _ := l.Acks()
	step := max(1, len(acks)/samples)
	for i := 0; i < len(acks); i += step {
		a := acks[i]
		answer := harness.Got(nodes[i/step%len(nodes)].Publish(nil, l.Fields(a.RequestID), http.StatusOK))
		if answer.Entry.ID != a.ID || !answer.Duplicate {
			harness.Failf("request id %s used again makes %s, was %s, duplicate %v", a.RequestID, answer.Entry.ID, a.ID, answer.Duplicate)
		}
	}
}

// The write limits of a cluster whose writers stay just below them: each writer is a
// separate sender and agent, and writes at 98 % of the allowed rate.
const (
	limitedPerMinute = 1200
	limitedBurst     = 2
	limitedPace      = time.Minute * 100 / (98 * limitedPerMinute)

	shortTransfers = 5
	longTransfers  = 20
)

// belowLimits moves leadership again and again, and restarts node after node, while
// clients write almost as much as allowed: none of their writes is rejected.
func belowLimits(b *bench) {
	c := b.newCluster("limited")
	for _, p := range c.Nodes {
		p.Flags["write-rate"] = strconv.Itoa(limitedPerMinute)
		p.Flags["write-burst"] = strconv.Itoa(limitedBurst)
		p.Flags["trusted-proxies"] = "127.0.0.1"
	}
	c.pace = limitedPace
	harness.Must(c.Start())
	c.leadershipMoves()
	rollingRestarts(c)
	c.limitHolds()
	harness.Must(c.Terminate())
}

// leadershipMoves has operators move leadership under load.
func (c *cluster) leadershipMoves() {
	transfers := shortTransfers
	if c.bench.long {
		transfers = longTransfers
	}
	l := c.startLoad("leadership-moves", false)
	defer l.Stop()
	env := []string{"COMMONS_CLUSTER_ADDR=" + c.Nodes[0].Private, "COMMONS_SECRET_FILE=" + c.Secret}
	start := time.Now()
	for range transfers {
		l.waitForMore()
		if code, out, errs := c.Run.Command(env, "raft", "transfer-leader"); code != 0 {
			harness.Failf("raft transfer-leader: exit code %d, %s%s", code, out, errs)
		}
	}
	l.waitForMore()
	fmt.Printf("   %d transfers of leadership: no write was acknowledged for %v at most\n", transfers, l.Gap(start).Round(time.Millisecond))
	l.end()
}

// limitHolds checks that the limit works: of many writes at once some are rejected.
func (c *cluster) limitHolds() {
	body := map[string]any{"agent": "writer", "body": "one of too many"}
	harness.Must(c.Run.Eventually(harness.ReadyTimeout, func() error {
		var rejected atomic.Int64
		var group sync.WaitGroup
		for i := range 10 * writers {
			p := c.Nodes[i%len(c.Nodes)]
			group.Go(func() {
				if _, err := p.Call(http.MethodPost, "/api/entries", nil, body, nil, http.StatusTooManyRequests); err == nil {
					rejected.Add(1)
				}
			})
		}
		group.Wait()
		if rejected.Load() == 0 {
			return errors.New("no limit rejects any of many writes")
		}
		return nil
	}))
}
