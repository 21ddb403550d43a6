package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// homeAnswer is what the tests look at of home.
type homeAnswer struct {
	Now    int64
	More   bool
	ForYou []struct{ ID, Why string }
	Code   string // of the Error object
}

// home asks a node for an agent's home after since; wait is in seconds.
func home(nd *nodetest.Node, agent string, since int64, wait int) (h homeAnswer, status int, err error) {
	query := url.Values{"for": {agent}, "since": {strconv.FormatInt(since, 10)}, "wait": {strconv.Itoa(wait)}}
	status, err = nd.GetJSON("/api/home?"+query.Encode(), &h)
	return h, status, err
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
	h, status, err := home(nodes[rand.IntN(len(nodes))], r.agent, r.since, rand.IntN(2))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil || status == http.StatusServiceUnavailable:
		return
	case status != http.StatusOK || h.Now < r.since || len(h.ForYou) > 0 && h.Now == r.since:
		r.wrong = append(r.wrong, fmt.Sprintf("%d %s: now %d after %d with %d items", status, h.Code, h.Now, r.since, len(h.ForYou)))
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

// letter is a write to a reader. Its request_id keeps it from being made twice.
type letter struct {
	Agent     string `json:"agent"`
	Body      string `json:"body"`
	ReplyTo   string `json:"reply_to,omitempty"`
	RequestID string `json:"request_id"`
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
					p := letter{Agent: fmt.Sprintf("writer-%d", writer), Body: fmt.Sprintf("Letter %d for you.", n), RequestID: fmt.Sprintf("%s-%d-%d", to, writer, n)}
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

func (w *correspondents) deliver(to, reason string, p letter) {
	for {
		w.mu.Lock()
		node := w.nodes[rand.IntN(len(w.nodes))]
		w.mu.Unlock()
		var a nodetest.Answer
		status, err := node.PostJSON("/api/entries", p, &a)
		if err != nil || status == http.StatusServiceUnavailable {
			continue
		}
		w.note(to, reason, p.RequestID, status, a)
		return
	}
}

// note keeps what a write was answered.
func (w *correspondents) note(to, reason, request string, status int, a nodetest.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if status != http.StatusCreated && status != http.StatusOK {
		w.wrong = append(w.wrong, fmt.Sprintf("%s: %d %s", request, status, a.Code))
		return
	}
	w.wrote[to][a.Entry.ID] = reason
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
		c.Eventually(r.agent+" has everything", func() string {
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
	c.Start(i)
	c.WaitReady(i)
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
	c.Eventually("letters are written", func() string { return lacks(int64(w.written("lazy")), int64(before+n)) })
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
	c.Eventually("the clock is compared", func() string {
		_, metrics, err := c.Nodes[i].GetText("/metrics")
		if err != nil {
			return err.Error()
		}
		if strings.Contains(metrics, "commons_clock_correction_seconds 0\n") {
			return "no correction"
		}
		return ""
	})
}

// TestHomeWithASkewedClock asks a node whose clock is five minutes behind: by the
// voters' clocks a since of another node is none of the future. It waits as long as
// it is asked to, and cut off from the others it hands out no earlier instant, with
// which an item would come twice.
func TestHomeWithASkewedClock(t *testing.T) {
	t.Parallel()
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
	if got := <-answer; got != a.Entry.ID {
		t.Errorf("waiting at the node: %q, want %s", got, a.Entry.ID)
	}

	c.WaitLeader()
	c.Isolate(skewed)
	c.WaitLeader(other, 1)
	c.MustPublish(other, nodetest.Post{Body: "This is for @ada, too."})
	h, status, err := home(c.Nodes[other], "ada", since, 0)
	if err != nil || status != http.StatusOK || len(h.ForYou) != 2 {
		t.Fatalf("%d %+v %v", status, h, err)
	}
	behind, status, err := home(c.Nodes[skewed], "ada", h.Now, 0)
	if err != nil || status != http.StatusOK || behind.Now != h.Now || len(behind.ForYou) != 0 {
		t.Errorf("cut off, after %d: %d %+v %v", h.Now, status, behind, err)
	}
	c.Heal()
	c.WaitReady()
}

// waitAt has an agent wait at a node for what comes after an instant. It returns
// once the call is held; the answer comes on the channel.
func (c *testCluster) waitAt(i int, agent string, since int64) <-chan string {
	c.t.Helper()
	answer := make(chan string, 1)
	go func() {
		// The client gives up before the server would answer by itself.
		h, status, err := home(c.Nodes[i], agent, since, 60)
		if err != nil || status != http.StatusOK {
			answer <- fmt.Sprintf("%d %s %v", status, h.Code, err)
			return
		}
		var ids []string
		for _, item := range h.ForYou {
			ids = append(ids, item.ID)
		}
		answer <- strings.Join(ids, " ")
	}()
	c.Eventually(fmt.Sprintf("%s waits at node %d", agent, i), func() string {
		_, metrics, err := c.Nodes[i].GetText("/metrics")
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(metrics, "commons_http_requests_in_flight 2\n") { // it, and this question
			return "nobody waits"
		}
		return ""
	})
	return answer
}

// TestHomeWaitsOnEveryNode holds that a call that waits on any node is woken by
// what was written on another one, also while the leader changes.
func TestHomeWaitsOnEveryNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	since := c.MustPublish(0, nodetest.Post{Body: "Before anybody waits."}).Entry.CreatedAt
	c.WaitConverged()
	for i := range c.Nodes {
		agent := fmt.Sprintf("waiter-%d", i)
		answer := c.waitAt(i, agent, since)
		c.MustPublish((i+1)%len(c.Nodes), nodetest.Post{Body: "This is for somebody else."})
		a := c.MustPublish((i+2)%len(c.Nodes), nodetest.Post{Body: "This is for @" + agent})
		if got := <-answer; got != a.Entry.ID {
			t.Errorf("waiting at node %d: %q, want %s", i, got, a.Entry.ID)
		}
	}
	leader := c.WaitLeader()
	at, from := (leader+1)%len(c.Nodes), (leader+2)%len(c.Nodes)
	answer := c.waitAt(at, "patient", since)
	c.Kill(leader)
	a := c.MustPublish(from, nodetest.Post{Body: "Are you still there, @patient?"})
	if got := <-answer; got != a.Entry.ID {
		t.Errorf("waiting through a change of leader: %q, want %s", got, a.Entry.ID)
	}
}
