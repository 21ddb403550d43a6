package record

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// The clients of a run.
const (
	pinned     = 6  // recorders that talk to one node each
	Balanced   = 2  // recorders that talk to the balancer, or to each node in turn
	Lanes      = 3  // concurrent calls of a recorder
	watchers   = 3  // agents that read their home, at each node in turn
	maxRepeats = 4  // of a write that has a request_id
	maxJobs    = 12 // few, so that many clients want the same job
	pollPause  = 100 * time.Millisecond
	// onlyPublish is the part of a lane's calls, of a hundred, that publish by HTTP.
	onlyPublish = 48
)

// Crowd is all clients of a run.
type Crowd struct {
	Client *Caller
	Nodes  []*harness.Node // that are called
	Seed   uint64
	Pause  time.Duration // of each lane after each call
	Poll   time.Duration // of each reader after each call; 0 means pollPause
	Token  string        // of moderators; empty means no moderators
	From   string        // the id of the newest event before the run
	// Purge purges an entry over the private port, as an operator does.
	Purge func(id string) error
	// OnlyPublish has recorders make no other calls.
	OnlyPublish bool
	Wait        bool // one more client waits at home

	Balancer *harness.Node // nil: some recorders talk to each node in turn

	mu   sync.Mutex
	jobs []job // the newest
}

type job struct{ id, poster string }

// lane is one of a recorder's sequences of calls, under an agent's name of its own.
type lane struct {
	*Crowd
	name   string
	node   func() *harness.Node
	random *rand.Rand
	header http.Header // its address, and its key if it proves its name
	n      int         // of calls

	last  Call // the newest publication that was acknowledged
	held  job  // the newest job that it claimed
	index uint64
}

// Begin starts all clients. Call end when every node is healthy again: it stops the writers, and then
// those that watch for new entries.
func (w *Crowd) Begin(parent context.Context) (end func()) {
	var recorders, others sync.WaitGroup
	recording, stopRecording := context.WithCancel(parent)
	watching, stopWatching := context.WithCancel(parent)
	w.Poll = cmp.Or(w.Poll, pollPause)
	for r := range pinned + Balanced {
		for i := range Lanes {
			l := &lane{
				Crowd: w, name: fmt.Sprintf("recorder-%d-%d", r, i), random: rand.New(rand.NewPCG(w.Seed, uint64(r*Lanes+i))),
				header: http.Header{"X-Forwarded-For": {fmt.Sprintf("203.0.113.%d", r*Lanes+i+1)}},
			}
			turn := 0
			l.node = func() *harness.Node {
				if r < pinned {
					return w.Nodes[r%len(w.Nodes)]
				}
				if w.Balancer != nil {
					return w.Balancer
				}
				turn++
				return w.Nodes[turn%len(w.Nodes)]
			}
			recorders.Go(func() { l.work(recording) })
		}
	}
	for i := range moderators {
		if w.Token == "" {
			break
		}
		recorders.Go(func() { w.moderate(recording, i, w.Token) })
	}
	for i := range (strongReaders + 1) * len(w.Nodes) {
		how := Strong
		if i < len(w.Nodes) {
			how = Plain
		}
		recorders.Go(func() {
			w.read(recording, how, w.Nodes[i%len(w.Nodes)], rand.New(rand.NewPCG(w.Seed, uint64(2000+i))))
		})
	}
	if w.Wait {
		recorders.Go(func() { w.waitAtHome(recording, w.Nodes[0]) })
	}
	for i := range watchers {
		others.Go(func() { watch(watching, w.Nodes, i, w.Poll, 1, w.home) })
	}
	for i := range followers {
		others.Go(func() { watch(watching, w.Nodes, i, w.Poll, w.From, w.stream) })
		others.Go(func() { watch(watching, w.Nodes, i, w.Poll, 0, w.entriesSince) })
	}
	return func() {
		stopRecording()
		recorders.Wait()
		stopWatching()
		others.Wait()
	}
}

func (w *Crowd) watcher(i int) string { return fmt.Sprintf("watcher-%d", i) }

// work calls until ctx ends. Every second lane proves its name.
func (l *lane) work(ctx context.Context) {
	if l.random.IntN(2) == 0 {
		l.register(ctx)
	}
	for ctx.Err() == nil {
		l.n++
		p := l.random.IntN(100)
		if l.OnlyPublish {
			p %= onlyPublish
		}
		switch {
		case p < 30:
			l.publish(ctx, "http", true, "")
		case p < 33 && l.last.RequestID != "":
			c := l.last
			l.Client.do(ctx, &c, l.node(), publication(&c, l.header))
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
		harness.Pause(ctx, l.Pause)
	}
}

// register registers the lane's name with a key. If it gets no answer, the lane works
// without a key.
func (l *lane) register(ctx context.Context) {
	c := harness.Got(client.New(client.Config{URLs: []string{l.node().URL}, HTTP: l.Client.http, Header: l.header, Patience: -1}))
	if answer, err := c.Register(ctx, client.NewProfile{ID: l.name, Description: "records what it is told", Protected: new(false)}); err == nil {
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
	sent := Call{Client: l.name, Surface: surface, Kind: Publish, Agent: l.name, Text: text, Supersedes: supersedes}
	if repeat {
		sent.RequestID = fmt.Sprintf("%s-%d", l.name, l.n)
	}
	for range maxRepeats {
		c, node := sent, l.node()
		c.Resent = node == l.Balancer && (surface == "get" || repeat)
		l.Client.do(ctx, &c, node, publication(&c, l.header))
		if c.Outcome == Done {
			l.last, l.index = c, max(l.index, c.Index)
		}
		if !repeat || c.Outcome == Done || c.Outcome == Rejected || ctx.Err() != nil {
			return
		}
		harness.Pause(ctx, pollPause)
	}
}

// job posts a job, or acts on one.
func (l *lane) job(ctx context.Context) {
	c := Call{Client: l.name, Surface: "http", Agent: l.name}
	l.mu.Lock()
	jobs := slices.Clone(l.jobs)
	l.mu.Unlock()
	own := slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return j.poster != l.name })
	others := slices.DeleteFunc(jobs, func(j job) bool { return j.poster == l.name })
	switch p := l.random.IntN(20); {
	case len(others) == 0 || p == 0:
		l.post(ctx, &c)
	case p == 1 && len(own) > 0:
		c.Kind, c.Job, c.Keyed = Close, own[l.random.IntN(len(own))].id, l.header.Get("Authorization") != ""
		l.act(ctx, &c, map[string]any{"job_id": c.Job})
	default:
		j := others[l.random.IntN(len(others))]
		if l.held.id != "" && l.random.IntN(2) == 0 {
			j = l.held
		}
		if l.workOn(ctx, &c, j); (c.Kind == Claim || c.Kind == Take) && c.Outcome == Done && c.Job != "" {
			l.held = job{c.Job, j.poster}
		}
	}
}

// post posts a job.
func (l *lane) post(ctx context.Context, c *Call) {
	c.Kind, c.Text = Post, fmt.Sprintf("%s has work, number %d", l.name, l.n)
	l.act(ctx, c, map[string]any{"title": c.Text, "body": c.Text})
	if c.Outcome == Done {
		l.mu.Lock()
		l.jobs = append(l.jobs[max(0, len(l.jobs)+1-maxJobs):], job{c.ID, l.name})
		l.mu.Unlock()
	}
}

// workOn acts on a job that another lane has posted.
func (l *lane) workOn(ctx context.Context, c *Call, j job) {
	c.Job = j.id
	switch p := l.random.IntN(20); {
	case p < 5:
		c.Kind = Claim
		l.act(ctx, c, map[string]any{"job_id": c.Job})
	case p < 7:
		c.Kind, c.Job, c.Poster = Take, "", j.poster
		l.act(ctx, c, map[string]any{"next": map[string]any{"poster": c.Poster}})
	case p < 10:
		c.Kind = Release
		l.act(ctx, c, map[string]any{"job_id": c.Job})
	case p < 13:
		c.Kind, c.Text = Result, fmt.Sprintf("%s has done number %d", l.name, l.n)
		l.act(ctx, c, map[string]any{"job_id": c.Job, "result": c.Text})
	default:
		c.Kind = Look
		l.Client.do(ctx, c, l.node(), request{http.MethodGet, "/api/jobs/" + c.Job + "?consistency=strong", nil, l.header})
	}
}

// act makes a call of the job board. Its action has the name of the call's kind, but for Take.
func (l *lane) act(ctx context.Context, c *Call, fields map[string]any) {
	action := c.Kind
	if action == Take {
		action = Claim
	}
	fields["agent"], fields["action"] = c.Agent, string(action)
	l.Client.do(ctx, c, l.node(), request{http.MethodPost, "/api/jobs", fields, l.header})
}

// list reads the lane's own newest entries, at least at the index that it has seen.
func (l *lane) list(ctx context.Context) {
	c := Call{Client: l.name, Surface: "http", Kind: List, Agent: l.name, MinIndex: l.index, Expect: l.last.ID}
	query := url.Values{"agent": {l.name}, "limit": {"100"}}
	l.Client.do(ctx, &c, l.node(), request{http.MethodGet, "/api/entries?" + query.Encode(), nil, l.header})
	l.index = max(l.index, c.Index)
}
