package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// streamTimeout is how long a stream may be silent: a node sends something every 15 s.
	streamTimeout = 45 * time.Second
	// streamPause is the pause before a stream that broke is opened again.
	streamPause = 200 * time.Millisecond
	maxEvent    = 1 << 20
)

// Event is something that happened.
type Event struct {
	ID      string `json:"id"` // EventQuery.After, to continue behind it
	Event   string `json:"event"`
	At      int64  `json:"at"`
	Entry   *Entry `json:"entry"` // nil in events about profiles
	Job     *Job   `json:"job"`   // nil unless the event is about a job; its id and state alone
	Profile string `json:"profile"`

	Raw json.RawMessage `json:"-"` // the event as it was sent
}

// EventQuery selects events, by the entries that they are about. Empty fields do not restrict it.
type EventQuery struct {
	Events          string // kinds of events, separated by commas
	Kind, Channel   string // or several, separated by commas: any of them
	Agent, Tag      string
	Agents, Tags    []string // with Agent and Tag: any of them
	For, Words      string
	ReplyTo, Thread string
	After           string // id of an event; empty means from now on
}

func (q *EventQuery) values() url.Values {
	v := values("event", q.Events, "kind", q.Kind, "channel", q.Channel, "agent", q.Agent, "tag", q.Tag,
		"for", q.For, "q", q.Words, "reply_to", q.ReplyTo, "thread", q.Thread)
	v["agent"], v["tag"] = append(v["agent"], q.Agents...), append(v["tag"], q.Tags...)
	return v
}

// errStopped ends a stream whose reader wants no more.
var errStopped = errors.New("stopped")

// Events returns events as they happen, until ctx ends. A stream that breaks continues at
// the next address, without a gap or a repeat. A *GapError reports a gap that could not be
// avoided, and does not end the stream; every other error does.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		after := q.After
		for {
			r := request{method: http.MethodGet, path: "/api/events", query: q.values(), header: http.Header{"Accept": {"text/event-stream"}}}
			if after != "" {
				r.header.Set("Last-Event-ID", after)
			}
			at := c.at.Load()
			r.stream = func(body io.Reader, alive func()) error { return readEvents(body, alive, &after, yield) }
			err := c.do(ctx, r)
			switch {
			case errors.Is(err, errStopped):
				return
			case err != nil:
				yield(Event{}, err)
				return
			}
			c.at.CompareAndSwap(at, at+1)
			if !rest(ctx, streamPause, time.Now().Add(2*streamPause)) {
				yield(Event{}, ctx.Err())
				return
			}
		}
	}
}

// readEvents hands the events of a stream on, and keeps its position. It returns nil if the
// stream breaks after it has said something.
func readEvents(body io.Reader, alive func(), after *string, yield func(Event, error) bool) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	id, kind, data, begun := "", "", "", false
	for lines.Scan() {
		alive()
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			data = value
		case "": // ends an event; one without its end does not count
			if data == "" {
				continue
			}
			if err := readEvent(kind, data, yield); err != nil {
				return err
			}
			*after, data, begun = id, "", true
		}
	}
	if !begun {
		return &transportError{errors.Join(io.ErrUnexpectedEOF, lines.Err())}
	}
	return nil
}

// readEvent hands on one event of a stream.
func readEvent(kind, data string, yield func(Event, error) bool) error {
	event := Event{Raw: json.RawMessage(data)}
	var gap error
	into := any(&event)
	switch kind {
	case "ping":
		return nil
	case "reset":
		missed := &GapError{}
		gap, into = missed, missed
	}
	if err := json.Unmarshal([]byte(data), into); err != nil {
		return fmt.Errorf("client: an event: %w in %.*q", err, maxQuoted, data)
	}
	if !yield(event, gap) {
		return errStopped
	}
	return nil
}
