package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	pinned     = 6  // recorders that talk to one node each
	balanced   = 2  // recorders that talk to the balancer, or to each node in turn
	lanes      = 3  // concurrent calls of a recorder
	watchers   = 3  // agents that read their home, at each node in turn
	maxRepeats = 4  // of a write that has a request_id
	maxJobs    = 12 // few, so that many clients want the same job
	pollPause  = 100 * time.Millisecond
)

// crowd is all clients of a run.
type crowd struct {
	client *client
	nodes  []*harness.Node // that are called
	seed   uint64
	pause  time.Duration // of each lane after each call
	token  string        // of moderators
	prefix string        // of agents' names
	from   string        // the id of the newest event before the run

	balancer *harness.Node // nil: some recorders talk to each node in turn

	recording, watching         sync.WaitGroup
	stopRecording, stopWatching context.CancelFunc

	mu   sync.Mutex
	jobs []job // the newest
}

type job struct{ id, poster string }

// lane is one of a recorder's sequences of calls, under an agent's name of its own.
type lane struct {
	*crowd
	name   string
	node   func() *harness.Node
	random *rand.Rand
	header http.Header // its address, and its key if it proves its name
	n      int         // of calls

	last  call // the newest publication that was acknowledged
	index uint64
}

// begin starts all clients; end stops them.
func (w *crowd) begin(parent context.Context) {
	recording, stopRecording := context.WithCancel(parent)
	watching, stopWatching := context.WithCancel(parent)
	w.stopRecording, w.stopWatching = stopRecording, stopWatching
	for r := range pinned + balanced {
		for i := range lanes {
			l := &lane{
				crowd: w, name: fmt.Sprintf("%srecorder-%d-%d", w.prefix, r, i), random: rand.New(rand.NewPCG(w.seed, uint64(r*lanes+i))),
				header: http.Header{"X-Forwarded-For": {fmt.Sprintf("203.0.113.%d", r*lanes+i+1)}},
			}
			turn := 0
			l.node = func() *harness.Node {
				if r < pinned {
					return w.nodes[r%len(w.nodes)]
				}
				if w.balancer != nil {
					return w.balancer
				}
				turn++
				return w.nodes[turn%len(w.nodes)]
			}
			w.recording.Go(func() { l.work(recording) })
		}
	}
	for i := range moderators {
		w.recording.Go(func() { w.moderate(recording, i, w.token) })
	}
	for i := range (strongReaders + 1) * len(w.nodes) {
		how := strong
		if i < len(w.nodes) {
			how = plain
		}
		w.recording.Go(func() {
			w.read(recording, how, w.nodes[i%len(w.nodes)], rand.New(rand.NewPCG(w.seed, uint64(2000+i))))
		})
	}
	for i := range watchers {
		w.watching.Go(func() { w.watch(watching, i) })
	}
	for i := range followers {
		w.watching.Go(func() { w.follow(watching, i) })
	}
}

// end lets all clients finish: first the writers, then those that watch for new entries.
// It is called when every node is healthy again.
func (w *crowd) end() {
	w.stopRecording()
	w.recording.Wait()
	w.stopWatching()
	w.watching.Wait()
}

func (w *crowd) watcher(i int) string { return fmt.Sprintf("%swatcher-%d", w.prefix, i) }

// work calls until ctx ends. Every second lane proves its name.
func (l *lane) work(ctx context.Context) {
	if l.random.IntN(2) == 0 {
		l.register(ctx)
	}
	for ctx.Err() == nil {
		l.n++
		switch p := l.random.IntN(100); {
		case p < 33:
			l.publish(ctx, "http", true, "")
		case p < 48:
			l.publish(ctx, "http", false, "")
		case p < 53:
			l.publish(ctx, "mcp", true, "")
		case p < 57:
			l.publish(ctx, "a2a", true, "")
		case p < 60:
			l.publish(ctx, "get", true, "")
		case p < 64:
			l.publish(ctx, "http", true, l.last.ID)
		case p < 88:
			l.job(ctx)
		default:
			l.list(ctx)
		}
		rest(ctx, l.pause)
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// register registers the lane's name with a key. If it gets no answer, the lane works
// without a key.
func (l *lane) register(ctx context.Context) {
	var answer struct {
		EditKey string `json:"edit_key"`
	}
	caller := &harness.Client{Client: l.client.http}
	body := map[string]string{"id": l.name, "description": "records what it is told"}
	if _, err := caller.Call(ctx, http.MethodPost, l.node().URL+"/api/agents", l.header, body, &answer, http.StatusCreated); err == nil {
		l.header.Set("Authorization", "Bearer "+answer.EditKey)
	}
}

// publish publishes an entry. A write with an unknown outcome is repeated under its
// request_id, if it has one.
func (l *lane) publish(ctx context.Context, surface string, repeat bool, supersedes string) {
	text := fmt.Sprintf("%s says number %d", l.name, l.n)
	if l.random.IntN(5) == 0 {
		text += " @" + l.watcher(l.random.IntN(watchers))
	}
	sent := call{Client: l.name, Surface: surface, Kind: publish, Agent: l.name, Text: text, Supersedes: supersedes}
	if repeat {
		sent.RequestID = fmt.Sprintf("%s-%d", l.name, l.n)
	}
	for range maxRepeats {
		c := sent
		l.client.do(ctx, &c, l.node(), publication(&c, l.header))
		if c.Outcome == done {
			l.last, l.index = c, max(l.index, c.Index)
		}
		if !repeat || c.Outcome == done || c.Outcome == rejected || ctx.Err() != nil {
			return
		}
		rest(ctx, pollPause)
	}
}

// job posts a job, or acts on a job that another lane has posted.
func (l *lane) job(ctx context.Context) {
	c := call{Client: l.name, Surface: "http", Agent: l.name}
	jobs := l.others()
	if len(jobs) == 0 || l.random.IntN(20) == 0 {
		c.Kind, c.Text = post, fmt.Sprintf("%s has work, number %d", l.name, l.n)
		l.client.do(ctx, &c, l.node(), l.act(&c, map[string]string{"action": "post", "title": c.Text, "body": c.Text}))
		if c.Outcome == done {
			l.mu.Lock()
			l.jobs = append(l.jobs[max(0, len(l.jobs)+1-maxJobs):], job{c.ID, l.name})
			l.mu.Unlock()
		}
		return
	}
	c.Job = jobs[l.random.IntN(len(jobs))].id
	switch p := l.random.IntN(20); {
	case p < 7:
		c.Kind = claim
		l.client.do(ctx, &c, l.node(), l.act(&c, map[string]string{"action": "claim", "job_id": c.Job}))
	case p < 11:
		c.Kind = release
		l.client.do(ctx, &c, l.node(), l.act(&c, map[string]string{"action": "release", "job_id": c.Job}))
	case p < 12:
		c.Kind, c.Text = result, fmt.Sprintf("%s has done number %d", l.name, l.n)
		l.client.do(ctx, &c, l.node(), l.act(&c, map[string]string{"action": "result", "job_id": c.Job, "result": c.Text}))
	default:
		c.Kind = look
		l.client.do(ctx, &c, l.node(), request{http.MethodGet, "/api/jobs/" + c.Job + "?consistency=strong", nil, l.header})
	}
}

// others returns jobs that other lanes have posted.
func (l *lane) others() []job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.jobs), func(j job) bool { return j.poster == l.name })
}

func (l *lane) act(c *call, fields map[string]string) request {
	fields["agent"] = c.Agent
	return request{http.MethodPost, "/api/jobs", fields, l.header}
}

// list reads the lane's own newest entries, at least at the index that it has seen.
func (l *lane) list(ctx context.Context) {
	c := call{Client: l.name, Surface: "http", Kind: list, Agent: l.name, MinIndex: l.index, Expect: l.last.ID}
	query := url.Values{"agent": {l.name}, "limit": {"100"}}
	l.client.doSeen(ctx, &c, l.node(), request{http.MethodGet, "/api/entries?" + query.Encode(), nil, l.header}, "entries")
	l.index = max(l.index, c.Index)
}

// watch reads an agent's home from each node in turn, with the time of the previous
// answer.
func (w *crowd) watch(ctx context.Context, i int) {
	since := int64(1)
	for n := i; ctx.Err() == nil; n++ {
		since, _ = w.poll(ctx, i, w.nodes[n%len(w.nodes)], since)
		rest(ctx, pollPause)
	}
	// After the faults: read the rest.
	rested := context.WithoutCancel(ctx)
	for n, empty := i, 0; empty < len(w.nodes); n++ {
		next, news := w.poll(rested, i, w.nodes[n%len(w.nodes)], since)
		if next == since {
			rest(rested, pollPause) // no answer
		}
		empty++
		if news > 0 {
			empty = 0
		}
		since = next
	}
}

// poll returns the time for the next request, and the number of new items.
func (w *crowd) poll(ctx context.Context, i int, node *harness.Node, since int64) (next int64, news int) {
	c := call{Client: w.watcher(i), Surface: "http", Kind: home, Agent: w.watcher(i)}
	query := url.Values{"for": {w.watcher(i)}, "since": {strconv.FormatInt(since, 10)}}
	answer := w.client.doSeen(ctx, &c, node, request{http.MethodGet, "/api/home?" + query.Encode(), nil, http.Header{}}, "forYou")
	now, ok := answer["now"].(float64)
	if c.Outcome != done || !ok {
		return since, 0
	}
	return int64(now), len(c.Seen)
}
