package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/node/nodetest"
)

// eventReader follows the stream, each time for a moment and at any node, and goes on
// from the last id that it has.
type eventReader struct {
	query client.EventQuery

	mu      sync.Mutex
	entries []string // of the events entry
	resumed int
	wrong   []string
}

// seen returns how many entries it was told of.
func (r *eventReader) seen() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entries)
}

// read follows the stream of one node.
func (r *eventReader) read(nd *nodetest.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond+rand.N(time.Second))
	defer cancel()
	for e, err := range nd.Client().Events(ctx, r.query) {
		_, gap := errors.AsType[*client.GapError](err)
		if err != nil && !gap {
			break // the node is down, or the time is over
		}
		r.mu.Lock()
		switch {
		case gap || e.ID == "":
			r.wrong = append(r.wrong, fmt.Sprint(e, err))
		case e.Event == "entry":
			r.entries = append(r.entries, e.Entry.ID)
		}
		r.query.After = e.ID
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumed++
}

// TestEventsAcrossAKilledLeader: readers that move from node to node are told of each
// entry once and in the order of the log, while the leader is killed and comes back.
func TestEventsAcrossAKilledLeader(t *testing.T) {
	nodetest.Virtual(t, func(t *testing.T) {
		c := newCluster(t, 3)
		leader := c.WaitLeader()
		var begin struct{ LastEventID string }
		if status, err := c.Nodes[0].GetJSON("/api/events", &begin); err != nil || status != http.StatusOK {
			t.Fatal(status, err)
		}
		others := c.Others(leader)
		load := c.StartLoad(3, others...)
		readers := []*eventReader{
			{query: client.EventQuery{After: begin.LastEventID}},
			{query: client.EventQuery{After: begin.LastEventID, Agent: "load-1-1-1", Events: "entry"}},
		}
		reading, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		for _, r := range readers {
			running.Go(func() {
				for reading.Err() == nil {
					r.read(c.Nodes[rand.IntN(len(c.Nodes))])
				}
			})
		}
		defer running.Wait()
		defer stop()
		load.WaitMore(100)
		c.Kill(leader)
		load.WaitMore(100)
		c.Start(leader)
		load.WaitMore(100)
		load.Stop()
		load.Check()
		for _, r := range readers {
			var want []string
			for _, e := range slices.Backward(c.All(others[0], client.EntryQuery{Agent: r.query.Agent})) {
				want = append(want, e.ID)
			}
			c.Eventually("a reader has everything", func() error {
				got := r.seen()
				return nodetest.ErrorIf(got < len(want), "%d of %d", got, len(want))
			})
			r.mu.Lock()
			if !slices.Equal(r.entries, want) || len(r.wrong) > 0 {
				t.Errorf("agent %q: %d entries, want %d; %q\n%v\n%v", r.query.Agent, len(r.entries), len(want), r.wrong, r.entries, want)
			}
			t.Logf("%d entries over %d streams", len(r.entries), r.resumed)
			r.mu.Unlock()
		}
	})
}
