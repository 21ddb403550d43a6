package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// eventParams are the parameters of GET /api/events: the filters are those of lists.
var eventParams = []string{
	"event", "kind", "channel", "agent", "for", "q", "reply_to", "thread", "tag",
	"last_event_id", "wait", "limit", "consistency", "min_index",
}

const (
	// headerLastEventID is the place from which a client continues.
	headerLastEventID = "Last-Event-ID"
	// maxEventID is the longest id of an event that is looked at, in code points.
	maxEventID = 128
	// lookEvents is how many events one look at the state goes through, and pollLooks
	// how many looks a poll takes.
	lookEvents = 256
	pollLooks  = 16
)

// follower goes through the events that a client asks for.
type follower struct {
	*listing
	kinds []bool // by fsm.EventKind; nil: all
	// cluster and cursor are the place after which the client continues; cluster is "" if
	// it gave none.
	cluster string
	cursor  fsm.EventCursor
	begun   bool
	more    bool // there may be more than the last look found
	stream  bool
	wait    time.Duration
}

// lost says why a client cannot continue where it was.
type lost struct{ reason, message string }

var (
	lostCluster = lost{"other_cluster", "The id that you continue from is of another cluster."}
	lostPlace   = lost{"too_old", "The events after the id that you continue from are no longer kept."}
)

// whatToDo is the end of the message that a client gets then.
const whatToDo = " Read what you need by GET /api/entries and GET /api/jobs, and continue from the id of this event."

// getEvents serves GET /api/events: a poll, or a stream of server-sent events.
func getEvents(c *call) (task, error) {
	f := &follower{}
	l, err := c.listing(eventParams, func(l *listing) { f.read(c, l) })
	if err != nil {
		return task{}, err
	}
	f.listing = l
	if f.stream {
		return task{fresh: l.fresh, run: func() error { return c.follow(f) }}, nil
	}
	view := c.srv.backend.View()
	defer view.Release()
	if f.cluster == view.ClusterID() {
		l.fresh.minIndex = max(l.fresh.minIndex, f.cursor.Index)
	}
	return task{fresh: l.fresh, run: func() error { return c.pollEvents(f) }}, nil
}

// read reads the parameters.
func (f *follower) read(c *call, l *listing) {
	l.readNames()
	l.thread, l.replyTo = l.id("thread"), l.id("reply_to")
	l.query.Q = l.text("q", command.MaxSearch)
	l.query.Limit = l.number("limit", command.MaxList, command.DefaultList)
	f.readKinds(l)
	f.wait = l.wait()
	// Only a client that asks for it gets an answer without an end: a tool that fetches a
	// page does not ask.
	f.stream = c.rctx != nil && strings.Contains(c.header(fiber.HeaderAccept), contentEvents)
	l.looks = !f.stream // which waits until it may
	// A browser that reconnects sends the header, and the old parameter.
	field, id := headerLastEventID, c.header(headerLastEventID)
	if id == "" {
		field, id = "last_event_id", l.text("last_event_id", maxEventID)
	}
	if id == "" {
		return
	}
	cluster, place, ok := fsm.ParseEventID(id)
	if !ok {
		l.problems.Add(field, "is not the id of an event: leave it out to begin with the present")
	}
	f.cluster, f.cursor = cluster, fsm.EventsAfter(place)
}

// readKinds reads which events the client wants.
func (f *follower) readKinds(l *listing) {
	s := l.text("event", maxEventID)
	if s == "" {
		return
	}
	f.kinds = make([]bool, len(fsm.EventNames))
	for name := range strings.SplitSeq(s, ",") {
		kind := slices.Index(fsm.EventNames[:], word(name))
		if kind <= 0 {
			l.problems.Add("event", "must be one or more of these, separated by commas: %s", strings.Join(fsm.EventNames[1:], ", "))
			return
		}
		f.kinds[kind] = true
	}
}

// look returns the next events that the client wants, at most limit, or why it cannot
// continue where it was: then it continues from now.
func (f *follower) look(view *fsm.View, limit int) (events []fsm.Event, why *lost, err error) {
	f.more = false
	if !f.begun {
		f.begun = true
		if f.cluster != "" && f.cluster != view.ClusterID() {
			why = &lostCluster
		}
		if f.cluster == "" || why != nil {
			f.cursor = view.EventsEnd()
			return nil, why, nil
		}
	}
	events, err = view.Events(&f.cursor, lookEvents)
	if errors.Is(err, fsm.ErrEventsGone) {
		f.cursor = view.EventsEnd()
		return nil, &lostPlace, nil
	}
	if err != nil {
		return nil, nil, err
	}
	f.more = len(events) == lookEvents
	*f.query.Work += len(events)
	if f.kinds != nil {
		events = slices.DeleteFunc(events, func(e fsm.Event) bool { return !f.kinds[e.Kind] })
	}
	if !f.resolve(view) {
		return nil, nil, nil
	}
	if events, err = view.SelectEvents(events, f.query); err != nil {
		return nil, nil, err
	}
	if len(events) > limit {
		events = events[:limit]
		f.back(&events[limit-1])
	}
	return events, nil, nil
}

// back makes the client continue after an event that look returned.
func (f *follower) back(e *fsm.Event) { f.cursor, f.more = e.After(), true }

// id is the place that the client has reached.
func (f *follower) id(view *fsm.View) string {
	return fsm.FormatEventID(view.ClusterID(), f.cursor.EventPlace)
}

// pollEvents answers with what has happened since the client's id, once there is
// something or the time is over.
func (c *call) pollEvents(f *follower) error {
	events, why, err := c.awaitEvents(f)
	if err != nil {
		return err
	}
	done, err := c.build(len(events))
	if err != nil {
		return err
	}
	defer done()
	view := c.read()
	return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = append(c.beginNotes(dst), `"events":[`...)
		for i := range events {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = view.AppendEvent(dst, &events[i]); err != nil {
				return nil, fmt.Errorf("show an event: %w", err)
			}
		}
		rest := wire.Object{{"lastEventId", f.id(view)}, {"more", f.more}}
		if why != nil {
			rest = rest.With("reset", wire.Object{{"reason", why.reason}, {"message", why.message + whatToDo}})
		}
		return append(append(dst, "],"...), rest.AppendJSON(nil)[1:]...), nil
	})
}

// awaitEvents looks for events, and waits for some where the client wants that. The
// view of the call is the one that they were found in.
func (c *call) awaitEvents(f *follower) (events []fsm.Event, why *lost, err error) {
	defer c.srv.news.join()()
	ctx, done := c.wait(f.wait)
	defer done()
	gone, unwatch := c.watchClient()
	defer unwatch()
	for {
		wake := c.srv.news.next()
		for range pollLooks {
			found, reset, err := f.look(c.reread(), f.query.Limit-len(events))
			if err != nil {
				return nil, nil, fmt.Errorf("look for events: %w", err)
			}
			events, why = append(events, found...), reset
			if !f.more || len(events) == f.query.Limit {
				break
			}
		}
		if len(events) > 0 || why != nil || f.more || ctx.Err() != nil {
			return events, why, nil
		}
		c.release()
		select {
		case <-wake:
		case <-gone:
			return nil, nil, nil
		case <-ctx.Done():
			return nil, nil, nil
		}
	}
}
