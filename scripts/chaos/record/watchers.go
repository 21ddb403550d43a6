package record

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// poll asks a node for the news since a time or an id, for watcher i. It returns the argument
// of the next request, and the number of new items.
type poll[T comparable] func(ctx context.Context, i int, node *harness.Node, since T) (next T, news int)

// watch polls each node in turn, with a pause after each poll, and continues at each where the one before ended.
func watch[T comparable](ctx context.Context, nodes []*harness.Node, i int, pause time.Duration, since T, poll poll[T]) {
	for n := i; ctx.Err() == nil; n++ {
		since, _ = poll(ctx, i, nodes[n%len(nodes)], since)
		harness.Pause(ctx, pause)
	}
	// After the faults: read the rest.
	rested := context.WithoutCancel(ctx)
	for n, empty := i, 0; empty < len(nodes); n++ {
		next, news := poll(rested, i, nodes[n%len(nodes)], since)
		if next == since {
			harness.Pause(rested, pollPause) // no answer
		}
		empty++
		if news > 0 {
			empty = 0
		}
		since = next
	}
}

// home reads an agent's home.
func (w *Crowd) home(ctx context.Context, i int, node *harness.Node, since int64) (next int64, news int) {
	c := Call{Client: w.watcher(i), Surface: "http", Kind: Home, Agent: w.watcher(i)}
	query := url.Values{"for": {w.watcher(i)}, "since": {strconv.FormatInt(since, 10)}}
	answer := w.Client.do(ctx, &c, node, request{http.MethodGet, "/api/home?" + query.Encode(), nil, http.Header{}})
	now, ok := answer["now"].(float64)
	if c.Outcome != Done || !ok {
		return since, 0
	}
	return int64(now), len(c.Seen)
}

const (
	// homeWait is longer than the balancer allows for calls that do not wait.
	homeWait = 25 * time.Second
	// homePatience is longer than the balancer allows one node for a call that waits. The
	// balancer repeats the call of a killed node, and the next node may be paused meanwhile.
	homePatience = 80 * time.Second
)

// waitAtHome waits for news that do not come.
func (w *Crowd) waitAtHome(ctx context.Context, node *harness.Node) {
	patient, name := *w.Client, "waiter"
	patient.http = &http.Client{Timeout: homePatience, Transport: w.Client.http.Transport}
	query := url.Values{"for": {name}, "wait": {strconv.Itoa(int(homeWait.Seconds()))}}
	for ctx.Err() == nil {
		c := Call{Client: name, Surface: "http", Kind: Home, Agent: name}
		patient.do(ctx, &c, node, request{http.MethodGet, "/api/home?" + query.Encode(), nil, http.Header{}})
		harness.Pause(ctx, pollPause)
	}
}

// entriesSince reads the entries that are newer than the newest seen, page by page, and
// records their ids oldest first.
func (w *Crowd) entriesSince(ctx context.Context, i int, node *harness.Node, since int64) (next int64, news int) {
	c := w.observe(fmt.Sprintf("poller-%d", i), Poll, node, func(c *Call, from *client.Client) {
		entries, err := harness.Collect(from.Entries(context.WithoutCancel(ctx), client.EntryQuery{Since: since, Limit: 100}))
		if err != nil {
			c.Outcome, c.Error = Unknown, err.Error()
		}
		for _, e := range slices.Backward(entries) {
			c.Seen, since = append(c.Seen, e.ID), max(since, e.CreatedAt)
		}
	})
	return since, len(c.Seen)
}

const (
	strongReaders = 2 // at each node, beside one whose reads are not strong
	// strongTimeout is short, so that a stopped node finds fresh requests when it
	// continues, and answers them before it notices that it was stopped.
	strongTimeout = 1500 * time.Millisecond
	strongLimit   = 20 // entries, of which some are moderated later
)

// read repeatedly asks one node for the newest entries.
func (w *Crowd) read(ctx context.Context, how Kind, node *harness.Node, random *rand.Rand) {
	quick := *w.Client
	quick.http = &http.Client{Timeout: strongTimeout, Transport: w.Client.http.Transport}
	name := "reader-of-" + node.Name
	path := fmt.Sprintf("/api/entries?limit=%d", strongLimit)
	if how == Strong {
		path += "&consistency=strong"
	}
	for ctx.Err() == nil {
		c := Call{Client: name, Surface: "http", Kind: how, Agent: name}
		quick.do(ctx, &c, node, request{http.MethodGet, path, nil, http.Header{}})
		harness.Pause(ctx, w.Poll/2+time.Duration(random.Int64N(int64(w.Poll))))
	}
}

const (
	followers = 2 // clients that read the stream of events, at each node in turn
	// followFor is how long a stream is read before its reader goes to another node.
	followFor = time.Second
	// followed are the events of new entries.
	followed = "entry,job,human_request,claim,result"
)

// stream reads the stream of one node for a moment, for watcher i, after the last id that it
// has. It returns the id to continue from, and how many entries it received.
func (w *Crowd) stream(ctx context.Context, i int, node *harness.Node, id string) (next string, news int) {
	ctx, stop := context.WithTimeout(ctx, followFor)
	defer stop()
	c := w.observe(fmt.Sprintf("streamer-%d", i), Follow, node, func(c *Call, from *client.Client) {
		for event, err := range from.Events(ctx, client.EventQuery{Events: followed, After: id}) {
			gap, isGap := errors.AsType[*client.GapError](err)
			switch {
			case isGap:
				c.Code = gap.Error()
			case err != nil && ctx.Err() == nil:
				c.Outcome, c.Error = Unknown, err.Error()
			case err == nil:
				c.Seen, id = append(c.Seen, event.Entry.ID), event.ID
			}
		}
	})
	return id, len(c.Seen)
}

// observe makes a call, or several, at a node by package client, and records them as one.
func (w *Crowd) observe(name string, kind Kind, node *harness.Node, call func(c *Call, from *client.Client)) *Call {
	from := harness.Got(client.New(client.Config{URLs: []string{node.URL}, HTTP: w.Client.http, Patience: -1}))
	c := &Call{Client: name, Surface: "http", Kind: kind, Agent: name, Node: node.Name, Begin: time.Since(w.Client.start), Outcome: Done}
	call(c, from)
	c.End = time.Since(w.Client.start)
	w.Client.history.add(c)
	return c
}
