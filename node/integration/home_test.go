package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// home asks a node for an agent's home after since.
func home(nd *nodetest.Node, agent string, since int64, wait time.Duration) (client.Home, error) {
	return nd.Client().Home(context.Background(), client.HomeQuery{For: agent, Since: since, Wait: wait})
}

// reader is an agent that calls home with the last now, each time on any node.
type reader struct {
	agent string
	pages int // of a home with more behind it

	mu    sync.Mutex
	since int64
	whys  map[string][]string // of each item, every time that it came
	wrong []string
}

func newReader(agent string) *reader { return &reader{agent: agent, whys: map[string][]string{}} }

// delivered returns how many items have come.
func (r *reader) delivered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.whys)
}

// call makes one call; a node that is down or on its way there is not asked again.
func (r *reader) call(nodes []*nodetest.Node) {
	h, err := home(nodes[rand.IntN(len(nodes))], r.agent, r.since, time.Duration(rand.IntN(2))*time.Second)
	rejection, rejected := errors.AsType[*client.Error](err)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil && (!rejected || rejection.Status == http.StatusServiceUnavailable):
		return
	case err != nil || h.Now < r.since || len(h.ForYou) > 0 && h.Now == r.since:
		r.wrong = append(r.wrong, fmt.Sprintf("%v: now %d after %d with %d items", err, h.Now, r.since, len(h.ForYou)))
		return
	}
	for _, item := range h.ForYou {
		r.whys[item.ID] = append(r.whys[item.ID], item.Why)
	}
	if h.More {
		r.pages++
	}
	r.since = h.Now
}

// correspondents write replies to one entry of each reader, and mention it, each
// write through any node until it is acknowledged.
type correspondents struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	nodes []*nodetest.Node             // to write through
	wrote map[string]map[string]string // why by entry id by reader
	wrong []string
}

// correspond starts writers; roots are the entries to reply to, by reader.
func (c *testCluster) correspond(writers int, roots map[string]string) *correspondents {
	ctx, cancel := context.WithCancel(context.Background())
	w := &correspondents{cancel: cancel, nodes: c.Nodes, wrote: map[string]map[string]string{}}
	for to := range roots {
		w.wrote[to] = map[string]string{}
	}
	for writer := range writers {
		w.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				for to, root := range roots {
					p := nodetest.Post{Agent: fmt.Sprintf("writer-%d", writer), Body: fmt.Sprintf("Letter %d for you.", n), RequestID: fmt.Sprintf("%s-%d-%d", to, writer, n)}
					reason := "reply"
					switch n % 3 {
					case 0:
						p.ReplyTo = root
					case 1:
						p.Body, reason = "@"+to+" "+p.Body, "mention"
					default:
						p.Body, p.ReplyTo = "@"+to+" "+p.Body, root
					}
					w.deliver(to, reason, p)
				}
			}
		})
	}
	return w
}

// deliver makes a write to a reader. Its request_id keeps it from being made twice.
func (w *correspondents) deliver(to, reason string, p nodetest.Post) {
	for {
		w.mu.Lock()
		node := w.nodes[rand.IntN(len(w.nodes))]
		w.mu.Unlock()
		a, err := node.Publish(context.Background(), p)
		if err != nil || a.Status == http.StatusServiceUnavailable {
			continue
		}
		w.mu.Lock()
		if a.Status == http.StatusCreated || a.Status == http.StatusOK {
			w.wrote[to][a.Entry.ID] = reason
		} else {
			w.wrong = append(w.wrong, fmt.Sprintf("%s: %d %s", p.RequestID, a.Status, a.Code))
		}
		w.mu.Unlock()
		return
	}
}

// written returns how many letters a reader was written.
func (w *correspondents) written(to string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.wrote[to])
}

// TestHomeDeliversOnce has agents poll home with the last now over random nodes,
// while others write replies and mentions through all nodes, and a leader is killed
// and one is cut off: each item comes exactly once (fault I10).
func TestHomeDeliversOnce(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		// One reader polls all the time, the other one after each round: it has pages to read.
		eager, lazy := newReader("eager"), newReader("lazy")
		readers := []*reader{eager, lazy}
		roots := map[string]string{}
		for _, r := range readers {
			a := c.MustPublish(0, nodetest.Post{Agent: r.agent, Body: "Write to me, please."})
			roots[r.agent], r.since = a.Entry.ID, a.Entry.CreatedAt
		}
		writers := c.correspond(4, roots)
		polling, stop := context.WithCancel(context.Background())
		var polls sync.WaitGroup
		polls.Go(func() {
			for polling.Err() == nil {
				eager.call(c.Nodes)
			}
		})
		defer polls.Wait()
		defer stop()
		defer writers.wg.Wait()
		defer writers.cancel()
		for _, trouble := range []func(leader int, w *correspondents){c.killed, c.cutOff} {
			c.writeMore(writers, 100)
			trouble(c.WaitLeader(), writers)
			for done := lazy.delivered() + 100; lazy.delivered() < done; {
				lazy.call(c.Nodes)
			}
			if testing.Short() {
				break
			}
		}
		writers.cancel()
		writers.wg.Wait()
		for _, r := range readers {
			c.Eventually(r.agent+" has everything", func() error {
				if r != eager {
					r.call(c.Nodes)
				}
				return lacks(int64(r.delivered()), int64(writers.written(r.agent)))
			})
		}
		stop()
		polls.Wait()
		for _, r := range readers {
			checkDelivered(t, r, writers)
		}
		if lazy.pages == 0 {
			t.Error("no home had more than a page; the test shows less than it should")
		}
	})
}

// through sends what is written from now on to these nodes.
func (w *correspondents) through(nodes []*nodetest.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = nodes
}

// killed kills a node and starts it again.
func (c *testCluster) killed(i int, w *correspondents) {
	c.t.Helper()
	c.Kill(i)
	c.writeMore(w, 100)
	c.StartReady(i)
}

// cutOff cuts a node off from the others, and joins it again. It goes on to answer
// readers; a write to it would take long to fail.
func (c *testCluster) cutOff(i int, w *correspondents) {
	c.t.Helper()
	w.through(slices.Concat(c.Nodes[:i], c.Nodes[i+1:]))
	c.Isolate(i)
	c.writeMore(w, 100)
	c.Heal()
	c.WaitReady(i)
	w.through(c.Nodes)
}

// writeMore waits until each reader was written n more letters.
func (c *testCluster) writeMore(w *correspondents, n int) {
	c.t.Helper()
	before := w.written("lazy")
	c.Eventually("letters are written", func() error { return lacks(int64(w.written("lazy")), int64(before+n)) })
}

// checkDelivered compares what a reader has read with what was written to it.
func checkDelivered(t *testing.T, r *reader, w *correspondents) {
	t.Helper()
	t.Logf("%s read %d items, %d pages of them with more behind", r.agent, len(r.whys), r.pages)
	for _, wrong := range append(r.wrong, w.wrong...) {
		t.Errorf("%s: %s", r.agent, wrong)
	}
	for id, reason := range w.wrote[r.agent] {
		if got := r.whys[id]; len(got) != 1 || got[0] != reason {
			t.Errorf("%s: %s, a %s, came as %v", r.agent, id, reason, got)
		}
	}
	if len(r.whys) != len(w.wrote[r.agent]) {
		t.Errorf("%s: %d items came, %d were written", r.agent, len(r.whys), len(w.wrote[r.agent]))
	}
}

// waitCorrected waits until a node whose clock is off has compared it.
func (c *testCluster) waitCorrected(i int) {
	c.t.Helper()
	c.Eventually("the clock is compared", func() error {
		return nodetest.ErrorIf(correction(c.Nodes[i]) == 0, "no correction")
	})
}

// TestHomeWithASkewedClock asks a node whose clock is five minutes behind: by the
// voters' clocks a since of another node is not in the future. It waits as long as
// it is asked to, and cut off from the others it hands out no earlier instant, with
// which an item would come twice.
func TestHomeWithASkewedClock(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		const skewed, other = 2, 0
		started := 0
		c := newCluster(t, 3, func(cfg *config.Config) {
			if started == skewed {
				cfg.ClockOffset = -5 * time.Minute
			}
			started++
		})
		c.WaitVoters()
		c.waitCorrected(skewed)
		since := c.MustPublish(other, nodetest.Post{Body: "Before anybody waits."}).Entry.CreatedAt
		c.WaitConverged()
		answer := c.waitAt(skewed, "ada", since)
		a := c.MustPublish(other, nodetest.Post{Body: "This is for @ada."})
		check.Equal(t, <-answer, a.Entry.ID, "waiting at the node")

		c.WaitLeader()
		c.Isolate(skewed)
		c.WaitLeader(other, 1)
		c.MustPublish(other, nodetest.Post{Body: "This is for @ada, too."})
		h, err := home(c.Nodes[other], "ada", since, 0)
		if err != nil || len(h.ForYou) != 2 {
			t.Fatalf("%+v %v", h, err)
		}
		behind, err := home(c.Nodes[skewed], "ada", h.Now, 0)
		if err != nil || behind.Now != h.Now || len(behind.ForYou) != 0 {
			t.Errorf("cut off, after %d: %+v %v", h.Now, behind, err)
		}
		c.Heal()
		c.WaitReady()
	})
}

// waitAt has an agent wait at a node for what comes after an instant. It returns
// once the call is held; the answer comes on the channel.
func (c *testCluster) waitAt(i int, agent string, since int64) <-chan string {
	c.t.Helper()
	answer := make(chan string, 1)
	go func() {
		// The client gives up before the server would answer by itself.
		h, err := home(c.Nodes[i], agent, since, time.Minute)
		if err != nil {
			answer <- err.Error()
			return
		}
		var ids []string
		for _, item := range h.ForYou {
			ids = append(ids, item.ID)
		}
		answer <- strings.Join(ids, " ")
	}()
	c.Eventually(fmt.Sprintf("%s waits at node %d", agent, i), func() error {
		requests := c.Nodes[i].Metric("commons_http_requests_in_flight") // it, and this question
		return nodetest.ErrorIf(requests != 2, "%v requests", requests)
	})
	return answer
}

// TestHomeWaitsOnEveryNode holds that a call that waits on any node is woken by
// what was written on another one, also while the leader changes.
func TestHomeWaitsOnEveryNode(t *testing.T) {
	t.Parallel()
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		since := c.MustPublish(0, nodetest.Post{Body: "Before anybody waits."}).Entry.CreatedAt
		c.WaitConverged()
		for i := range c.Nodes {
			agent := fmt.Sprintf("waiter-%d", i)
			answer := c.waitAt(i, agent, since)
			c.MustPublish((i+1)%len(c.Nodes), nodetest.Post{Body: "This is for somebody else."})
			a := c.MustPublish((i+2)%len(c.Nodes), nodetest.Post{Body: "This is for @" + agent})
			check.Equal(t, <-answer, a.Entry.ID, "waiting at node %d", i)
		}
		leader := c.WaitLeader()
		at, from := (leader+1)%len(c.Nodes), (leader+2)%len(c.Nodes)
		answer := c.waitAt(at, "patient", since)
		c.Kill(leader)
		a := c.MustPublish(from, nodetest.Post{Body: "Are you still there, @patient?"})
		check.Equal(t, <-answer, a.Entry.ID, "waiting through a change of leader")
	})
}
