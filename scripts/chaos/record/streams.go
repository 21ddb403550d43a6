package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

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
