package propose

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"

	"github.com/commons-cluster/commons/internal/await"
	_ "github.com/commons-cluster/commons/internal/longtest" // fewer checks of rapid
)

// Whatever happens to leaders, links and answers: a command has at most one effect, the one
// that was reported to its caller, and no effect if it was reported as not enqueued. It is
// charged to the limits at most once, and is not rejected afterwards. A strong read covers
// all writes that were acknowledged before it.
func TestAnyTrouble(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		tr := &trouble{
			seed:  rapid.Uint64().Draw(rt, "seed"),
			limit: rapid.SampledFrom([]int{0, 0, 5}).Draw(rt, "reject one in"),
			lossy: rapid.IntRange(0, 40).Draw(rt, "percent of requests in trouble"),
		}
		steps := rapid.SliceOfN(rapid.SampledFrom(troubles), 3, 15).Draw(rt, "steps")
		tr.run(t, rt, steps)
	})
}

// trouble is one run of clients and of faults in the cluster.
type trouble struct {
	seed  uint64
	limit int
	lossy int

	c     *fakeCluster
	rt    *rapid.T
	acked atomic.Uint64 // the largest acknowledged index
	mu    sync.Mutex
	rand  *rand.Rand
	paid  map[string]int // how often a text was charged
	ended []attempt
	fails []string
	leads running
}

// attempt is a finished call of Propose.
type attempt struct {
	text string
	outcome
}

// The names of the faults, each a step of nemesis.
var troubles = []string{
	"elect", "elect", "elect", "partition", "elect without lead", "stall", "go on", "hold", "release", "snapshot", "calm",
}

func (tr *trouble) failf(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.fails = append(tr.fails, fmt.Sprintf(format, args...))
}

func (tr *trouble) intn(n int) int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.rand.IntN(n)
}

func (tr *trouble) run(t *testing.T, rt *rapid.T, steps []string) {
	t.Helper()
	tr.rand = rand.New(rand.NewPCG(tr.seed, 1))
	tr.rt, tr.paid = rt, map[string]int{}
	tr.c = newTunedCluster(t, 3, func(tm *timing) {
		tm.propose, tm.readIndex, tm.attempt = 150*time.Millisecond, 150*time.Millisecond, 30*time.Millisecond
		tm.minBackoff, tm.maxBackoff = time.Millisecond, 4*time.Millisecond
		tm.leadWait, tm.confirm = 10*time.Millisecond, 10*time.Millisecond
	}, func(cfg *Config) {
		cfg.Limiter = limitFunc(tr.admit)
	})
	c := tr.c
	defer c.close()
	for _, n := range c.nodes {
		n.session.mu.Lock()
		n.session.maxLag = 2 // so that many calls are listed as open
		n.session.mu.Unlock()
	}
	c.survivors = func(n int) int { return tr.intn(n + 1) }
	c.net.decide(tr.fate)
	c.nodes[0].set(func(n *fakeNode) { n.blind = true })

	var clients sync.WaitGroup
	for i := range 9 {
		clients.Go(func() { tr.client(i) })
	}
	for _, s := range steps {
		tr.step(s)
		time.Sleep(time.Duration(tr.intn(12)) * time.Millisecond)
	}
	c.net.decide(nil)
	for _, n := range c.nodes {
		n.set(func(n *fakeNode) { n.stalled, n.held = false, false })
	}
	tr.elect("node-0")
	clients.Wait()
	c.net.late.Wait()
	tr.leads.Wait()
	tr.check(t)
}

// admit is the limiter of every node. Each text has a sender of its own.
func (tr *trouble) admit(from command.Sender) (bool, time.Duration) {
	if tr.limit > 0 && tr.intn(tr.limit) == 0 {
		return false, time.Second
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.paid[from.Fingerprint]++
	return true, 0
}

// fate draws the fate of a request.
func (tr *trouble) fate(string, string, *http.Request) fate {
	if tr.intn(100) >= tr.lossy {
		return arrives
	}
	return []fate{rejected, lostAnswer, lostBefore, late}[tr.intn(4)]
}

// elect makes a node the leader and lets it lead as soon as it can.
func (tr *trouble) elect(id string, unaware ...string) {
	leader := tr.c.elect(id, unaware...)
	term := leader.CurrentTerm()
	tr.leads.Go(func() {
		deadline := time.Now().Add(10 * time.Second)
		for leader.CurrentTerm() == term && time.Now().Before(deadline) {
			if err := leader.establish(); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func (tr *trouble) step(name string) {
	c := tr.c
	node := c.nodes[tr.intn(3)]
	switch name {
	case "elect":
		tr.elect(node.id)
	case "partition":
		var old []string
		c.mu.Lock()
		for _, n := range c.nodes {
			if n.leading && n != node {
				old = append(old, n.id)
			}
		}
		c.mu.Unlock()
		tr.elect(node.id, old...)
	case "elect without lead":
		c.elect(node.id)
	case "stall":
		for _, n := range c.nodes {
			n.set(func(n *fakeNode) { n.stalled = true })
		}
	case "go on":
		for _, n := range c.nodes {
			n.set(func(n *fakeNode) { n.stalled = false })
		}
	case "hold":
		node.set(func(n *fakeNode) { n.held = true })
	case "release":
		for _, n := range c.nodes {
			n.set(func(n *fakeNode) { n.held = false })
		}
	case "snapshot":
		from := c.nodes[tr.intn(3)]
		if from != node && from.sm.Applied() > node.sm.Applied() {
			node.sm.install(from.sm)
			node.Recheck(node.sm.View())
		}
	case "calm":
		time.Sleep(15 * time.Millisecond)
	}
}

// client publishes and reads in turn, on changing nodes.
func (tr *trouble) client(i int) {
	for j := range 12 {
		n := tr.c.nodes[tr.intn(3)]
		if tr.intn(4) == 0 {
			before := tr.acked.Load()
			if index, err := n.ReadIndex(context.Background()); err == nil && index < before {
				tr.failf("a strong read on %s got %d after %d was acknowledged", n.id, index, before)
			}
			continue
		}
		text := fmt.Sprintf("text %d of client %d", j, i)
		r, index, err := n.Propose(context.Background(), command.Sender{Fingerprint: text}, entryOf(text))
		if err == nil {
			if n.sm.Applied() < index || n.sm.count(text) != 1 {
				tr.failf("%s answered %q at %d before it applied it", n.id, text, index)
			}
			for {
				seen := tr.acked.Load()
				if index <= seen || tr.acked.CompareAndSwap(seen, index) {
					break
				}
			}
		}
		tr.mu.Lock()
		tr.ended = append(tr.ended, attempt{text, outcome{r, index, err}})
		tr.mu.Unlock()
	}
}

// check compares the reported results with the effects of the commands.
func (tr *trouble) check(t *testing.T) {
	t.Helper()
	last := tr.c.nodes[0]
	_, _, err := last.publish("the last text")
	for range 20 {
		if u, late := errors.AsType[*command.Unavailable](err); !late || u.Code != command.CodeNotEnqueued { // on a busy machine
			break
		}
		_, _, err = last.publish("the last text")
	}
	if err != nil && tr.limit == 0 {
		tr.failf("after all is well: %v", err)
	}
	for _, n := range tr.c.nodes {
		await.Eventually(t, n.id+" applies everything", func() bool { return n.sm.Applied() == n.CommitIndex() })
	}
	kinds := map[string]int{}
	for _, a := range tr.ended {
		effects := last.sm.count(a.text)
		var u *command.Unavailable
		var limited *command.RateLimited
		if paid := tr.paid[a.text]; paid > 1 || paid > 0 && errors.As(a.err, &limited) {
			tr.failf("%q was charged %d times and ended in %v", a.text, paid, a.err)
		}
		switch {
		case a.err == nil:
			kinds["acknowledged"]++
			if effects != 1 || a.result.Outcome != command.OutcomeDone || last.sm.entries[a.result.Entry-1] != a.text {
				tr.failf("%q acknowledged as %+v has %d effects", a.text, a.result, effects)
			}
		case errors.As(a.err, &limited), errors.As(a.err, &u) && u.Code == command.CodeNotEnqueued:
			kinds["certainly not"]++
			if effects != 0 {
				tr.failf("%q showed up after %v", a.text, a.err)
			}
		case errors.As(a.err, &u) && u.Code == command.CodeOutcomeUnknown:
			kinds["unknown"]++
			if effects > 1 {
				tr.failf("%q has %d effects", a.text, effects)
			}
		default:
			tr.failf("%q: %v", a.text, a.err)
		}
	}
	for _, n := range tr.c.nodes {
		n.c.mu.Lock()
		pending := n.maxPending
		n.c.mu.Unlock()
		if pending > MaxInFlight+1 { // and one of a leader that does not lead yet
			tr.failf("%s had %d log entries in flight", n.id, pending)
		}
		if s := n.Stats(); s.Open != 0 || s.OpenBytes != 0 || s.Waiting != 0 {
			tr.failf("%s keeps answered commands: %+v", n.id, s)
		}
	}
	for kind, n := range kinds {
		tr.rt.Logf("%s: %d", kind, n)
	}
	for _, f := range tr.fails {
		t.Log(f) // rapid keeps only reproducible runs
		tr.rt.Error(f)
	}
}
