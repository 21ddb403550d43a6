package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	followers = 2 // clients that read the stream of events, at each node in turn
	// followFor is how long a stream is read before its reader goes to another node.
	followFor = time.Second
	// followed are the events of new entries.
	followed = "/api/events?event=entry,job,human_request,claim,result"
)

func (w *crowd) streamer(i int) string { return fmt.Sprintf("%sstreamer-%d", w.prefix, i) }

// follow reads the stream from the beginning of the run. It reads each node for a moment
// and continues at the next node after the last id that it has.
func (w *crowd) follow(ctx context.Context, i int) {
	id := w.from
	for n := i; ctx.Err() == nil; n++ {
		id, _ = w.stream(ctx, i, w.nodes[n%len(w.nodes)], id)
		rest(ctx, w.pause)
	}
	// After the faults: read the rest.
	rested := context.WithoutCancel(ctx)
	for n, empty := i, 0; empty < len(w.nodes); n++ {
		next, news := w.stream(rested, i, w.nodes[n%len(w.nodes)], id)
		empty++
		if news > 0 {
			empty = 0
		}
		id = next
	}
}

// stream reads the stream of one node. It returns the id to continue from, and how many
// entries it received.
func (w *crowd) stream(ctx context.Context, i int, node *harness.Node, id string) (next string, news int) {
	ctx, stop := context.WithTimeout(ctx, followFor)
	defer stop()
	c := call{Client: w.streamer(i), Surface: "http", Kind: follow, Agent: w.streamer(i), Node: node.Name, Begin: time.Since(w.client.start), Outcome: unknown}
	defer func() {
		c.End = time.Since(w.client.start)
		w.client.history.add(&c)
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, node.URL+followed, http.NoBody)
	if err != nil {
		panic(err) // we made this value ourselves
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", id)
	res, err := w.client.http.Do(req)
	if err != nil {
		c.Error = err.Error()
		return id, 0
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		c.Error = res.Status
		return id, 0
	}
	c.Outcome = done
	lines, data := bufio.NewReader(res.Body), ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return id, len(c.Seen) // an event without its empty line does not count
		}
		if text, is := strings.CutPrefix(line, "data: "); is {
			data = text
		} else if line == "\n" && data != "" {
			id = c.take(data)
			data = ""
		}
	}
}

// take records one event and returns its id.
func (c *call) take(data string) string {
	var e struct {
		ID, Event string
		Entry     struct{ ID string }
	}
	switch err := json.Unmarshal([]byte(data), &e); {
	case err != nil || e.Event == "reset":
		c.Code = data
	case e.Event != "ping":
		c.Seen = append(c.Seen, e.Entry.ID)
	}
	return e.ID
}

// checkFollow: each follower received each entry once, in order. Entries that moderators
// work with are left out: they may come as stubs.
func checkFollow(v *verdict, calls []call, f *final) {
	moderated := moderatedIDs(calls)
	entries := slices.DeleteFunc(slices.Clone(f.state()), func(e entry) bool { return moderated[e.ID] })
	streams := grouped(calls, func(c *call) string {
		if c.Kind != follow {
			return ""
		}
		return c.Client
	})
	for name, read := range streams {
		at := 0
		for _, c := range read {
			if c.Code != "" {
				v.add(name+" could not go on: "+c.Code, c)
			}
			for _, id := range c.Seen {
				if moderated[id] {
					continue
				}
				if at >= len(entries) || entries[at].ID != id {
					v.add(fmt.Sprintf("%s was told of %s as number %d", name, id, at+1), c)
					return
				}
				at++
			}
		}
		if v.Looked += at; at < len(entries) {
			v.add(fmt.Sprintf("%s was told of %d of %d entries", name, at, len(entries)), read[len(read)-1])
		}
	}
}
