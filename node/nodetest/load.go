package nodetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Load is a number of writers, each with one write under way at any time.
type Load struct {
	c       *Cluster
	channel string // its own
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	acked  map[string]string // entry id by request_id
	failed []string
	lost   bool          // writes whose fate is not known may be listed or not
	slow   time.Duration // the longest write
}

// loadPause is between two writes of a writer: load finds mistakes by its variety,
// and other tests need the processors.
const loadPause = 5 * time.Millisecond

// StartLoad starts writers that publish through the given nodes, each write
// through any of them.
func (c *Cluster) StartLoad(writers int, nodes ...int) *Load {
	ctx, cancel := context.WithCancel(context.Background())
	c.loads++
	l := &Load{c: c, channel: fmt.Sprintf("load-%d", c.loads), cancel: cancel, acked: map[string]string{}}
	targets := make([]*Node, len(nodes))
	for k, i := range nodes {
		targets[k] = c.Nodes[i]
	}
	for w := range writers {
		l.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.write(targets[rand.IntN(len(targets))], w, n)
				time.Sleep(loadPause)
			}
		})
	}
	return l
}

func (l *Load) write(to *Node, writer, n int) {
	p := Post{
		Agent: fmt.Sprintf("writer-%d", writer), Channel: l.channel,
		Body: fmt.Sprintf("write %d of writer %d", n, writer), RequestID: fmt.Sprintf("%s-%d-%d", l.channel, writer, n),
	}
	start := time.Now()
	a, err := to.Publish(context.Background(), p)
	took := time.Since(start)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = max(l.slow, took)
	switch {
	case err != nil:
		l.failed = append(l.failed, fmt.Sprintf("%s on node %d after %v: %v", p.RequestID, to.index, took, err))
	case a.Status != http.StatusCreated:
		l.failed = append(l.failed, fmt.Sprintf("%s on node %d after %v: status %d, %s: %s", p.RequestID, to.index, took, a.Status, a.Code, a.Message))
	default:
		l.acked[p.RequestID] = a.Entry.ID
	}
}

// Acked returns how many writes were acknowledged so far.
func (l *Load) Acked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// WaitMore waits until n more writes were acknowledged.
func (l *Load) WaitMore(n int) {
	l.c.t.Helper()
	target := l.Acked() + n
	l.c.Eventually("writes go on", func() string {
		if got := l.Acked(); got < target {
			return fmt.Sprintf("%d of %d acknowledged", got, target)
		}
		return ""
	})
}

// Stop ends the writers and fails the test when a write failed.
func (l *Load) Stop() {
	l.c.t.Helper()
	l.cancel()
	l.wg.Wait()
	for k, f := range l.failed {
		if k == 10 {
			l.c.t.Errorf("and %d more", len(l.failed)-k)
			break
		}
		l.c.t.Errorf("a client saw an error: %s", f)
	}
	l.c.t.Logf("%d writes acknowledged, the slowest took %v", len(l.acked), l.slow)
}

// Abandon ends the writers when their nodes are down. Of the writes that failed
// nobody knows whether they are in the log.
func (l *Load) Abandon() {
	l.cancel()
	l.wg.Wait()
	l.lost = true
}

// Check compares the acknowledged writes with what every running node holds:
// each is there, once, and nothing else is in the channel.
func (l *Load) Check() {
	l.c.t.Helper()
	l.c.WaitConverged()
	for _, i := range l.c.Running() {
		found := map[string]int{}
		for _, e := range l.c.All(i, url.Values{"channel": {l.channel}}) {
			found[e.ID]++
		}
		for request, id := range l.acked {
			if found[id] != 1 {
				l.c.t.Errorf("node %d: %s was acknowledged as %s, which is listed %d times", i, request, id, found[id])
			}
		}
		if !l.lost && len(l.failed) == 0 && len(found) != len(l.acked) {
			l.c.t.Errorf("node %d lists %d entries, %d were acknowledged", i, len(found), len(l.acked))
		}
	}
	ids := map[string]string{}
	for request, id := range l.acked {
		if other, dup := ids[id]; dup {
			l.c.t.Errorf("%s and %s were both acknowledged as %s", request, other, id)
		}
		ids[id] = request
	}
}
