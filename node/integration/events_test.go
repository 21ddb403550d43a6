package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/node/nodetest"
)

// eventReader follows the stream, each time for a moment and at any node, and goes on
// from the last id that it has.
type eventReader struct {
	filter url.Values

	mu      sync.Mutex
	id      string
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
func (r *eventReader) read(nd *nodetest.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond+rand.N(time.Second))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, nd.URL()+"/api/events?"+r.filter.Encode(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", r.id)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err // the node is down, or the time was over before it answered
	}
	defer res.Body.Close()
	lines, data := bufio.NewReader(res.Body), ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // an event without its empty line is none
		}
		if text, is := strings.CutPrefix(line, "data: "); is {
			data = text
		} else if line == "\n" && data != "" {
			r.take(data)
			data = ""
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumed++
	return nil
}

// take notes one event.
func (r *eventReader) take(data string) {
	var e struct {
		ID, Event string
		Entry     struct{ ID string }
	}
	err := json.Unmarshal([]byte(data), &e)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil || e.ID == "" || e.Event == "reset":
		r.wrong = append(r.wrong, data)
	case e.Event == "entry":
		r.entries = append(r.entries, e.Entry.ID)
	}
	r.id = e.ID
}

// TestEventsAcrossAKilledLeader: readers that move from node to node are told of each
// entry once and in the order of the log, while the leader is killed and comes back.
func TestEventsAcrossAKilledLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	leader := c.WaitLeader()
	var begin struct{ LastEventID string }
	if status, err := c.Nodes[0].GetJSON("/api/events", &begin); err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	others := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == leader })
	load := c.StartLoad(3, others...)
	readers := []*eventReader{
		{id: begin.LastEventID},
		{id: begin.LastEventID, filter: url.Values{"agent": {"writer-1"}, "event": {"entry"}}},
	}
	reading, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, r := range readers {
		running.Go(func() {
			for reading.Err() == nil {
				if err := r.read(c.Nodes[rand.IntN(len(c.Nodes))]); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					time.Sleep(10 * time.Millisecond) // the node is down
				}
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
		for _, e := range slices.Backward(c.All(others[0], url.Values{"agent": r.filter["agent"]})) {
			want = append(want, e.ID)
		}
		c.Eventually("a reader has everything", func() string {
			if got := r.seen(); got < len(want) {
				return fmt.Sprintf("%d of %d", got, len(want))
			}
			return ""
		})
		r.mu.Lock()
		if !slices.Equal(r.entries, want) || len(r.wrong) > 0 {
			t.Errorf("with %v: %d entries, want %d; %q\n%v\n%v", r.filter, len(r.entries), len(want), r.wrong, r.entries, want)
		}
		t.Logf("%d entries over %d streams", len(r.entries), r.resumed)
		r.mu.Unlock()
	}
}
