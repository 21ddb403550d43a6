package resource

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
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
	// See follower.each and follower.looks. With a phrase to look for they are less.
	lookEvents = 256
	pollLooks  = 16
)

// follower goes through the events that a client asks for.
type follower struct {
	*read.Params
	kinds []bool // by state.EventKind; nil means all
	// cluster and cursor are the place after which the client continues. Without a place,
	// cluster is "".
	cluster string
	cursor  view.EventCursor
	begun   bool
	more    bool // there may be more than the last look found
	stream  bool
	wait    time.Duration
	// each is how many events one look at the state goes through, looks how many looks a
	// poll takes.
	each, looks int
}

// lost is the reason why a client cannot continue from its place.
type lost struct{ reason, message string }

var (
	lostCluster = lost{"other_cluster", "The id that you continue from is of another cluster."}
	lostPlace   = lost{"too_old", "The events after the id that you continue from are no longer kept."}
)

// whatToDo ends the message of lost.
const whatToDo = " Read what you need by GET /api/entries and GET /api/jobs, and continue from the id of this event."

// getEvents serves GET /api/events: a poll, or a stream of server-sent events.
func getEvents(c *op.Call) (op.Task, error) {
	f := &follower{}
	l, err := read.Parse(c, eventParams, func(l *read.Params) { f.read(c, l) })
	if err != nil {
		return op.Task{}, err
	}
	f.Params = l
	if f.stream {
		return op.Task{Fresh: l.Fresh, Run: func() error { return c.Follow(f) }}, nil
	}
	view := c.Env.Backend.View()
	defer view.Release()
	if f.cluster == view.ClusterID() {
		l.Fresh.MinIndex = max(l.Fresh.MinIndex, f.cursor.Index)
	}
	return op.Task{Fresh: l.Fresh, Run: func() error { return pollEvents(c, f) }}, nil
}

func (f *follower) read(c *op.Call, l *read.Params) {
	l.ReadNames()
	l.Thread, l.ReplyTo = l.ID("thread"), l.ID("reply_to")
	l.Query.Q = l.Text("q", command.MaxSearch)
	if f.each, f.looks = lookEvents, pollLooks; len(text.ParseQuery(l.Query.Q).Phrases) > 0 {
		f.each, f.looks = command.MaxPhrased, 1
	}
	l.Query.Limit = l.Number("limit", command.MaxList, command.DefaultList)
	f.readKinds(l)
	f.wait = l.Wait()
	// Only a client that asks for it gets an endless answer.
	f.stream = !c.Inner && strings.Contains(c.Header(op.HeaderAccept), op.ContentEvents)
	l.Looks = !f.stream // which waits until it may
	// A browser that reconnects sends the header, and the old parameter.
	field, id := headerLastEventID, c.Header(headerLastEventID)
	if id == "" {
		field, id = "last_event_id", l.Text("last_event_id", maxEventID)
	}
	if id == "" {
		return
	}
	cluster, place, ok := state.ParseEventID(id)
	if !ok {
		l.Problems.Add(field, "is not the id of an event: leave it out to begin with the present")
	}
	f.cluster, f.cursor = cluster, view.EventCursor{EventPlace: place}
}

func (f *follower) readKinds(l *read.Params) {
	s := l.Text("event", maxEventID)
	if s == "" {
		return
	}
	f.kinds = make([]bool, len(state.EventNames))
	names, is := wire.ReadTexts(s)
	if !is {
		names = strings.Split(s, ",")
	}
	for _, name := range names {
		kind := slices.Index(state.EventNames[:], wire.Word(name))
		if kind <= 0 {
			l.Problems.Add("event", "must be one or more of these, separated by commas: %s", strings.Join(state.EventNames[1:], ", "))
			return
		}
		f.kinds[kind] = true
	}
}

// next returns the next matching events, at most limit. If the client cannot continue from its
// place, next returns the reason and continues from now.
func (f *follower) next(v *view.View, limit int) (events []view.Event, why *lost, err error) {
	f.more = false
	if !f.begun {
		f.begun = true
		if f.cluster != "" && f.cluster != v.ClusterID() {
			why = &lostCluster
		}
		if f.cluster == "" || why != nil {
			f.cursor = v.EventsEnd()
			return nil, why, nil
		}
	}
	events, err = v.Events(&f.cursor, f.each)
	if errors.Is(err, view.ErrEventsGone) {
		f.cursor = v.EventsEnd()
		return nil, &lostPlace, nil
	}
	if err != nil {
		return nil, nil, err
	}
	f.more = len(events) == f.each
	*f.Query.Work += len(events)
	if f.kinds != nil {
		events = slices.DeleteFunc(events, func(e view.Event) bool { return !f.kinds[e.Kind] })
	}
	if !f.Resolve(v) {
		return nil, nil, nil
	}
	if events, err = v.SelectEvents(events, f.Query); err != nil {
		return nil, nil, err
	}
	if len(events) > limit {
		events = events[:limit]
		f.back(&events[limit-1])
	}
	return events, nil, nil
}

// back continues after an event that next returned.
func (f *follower) back(e *view.Event) { f.cursor, f.more = e.After(), true }

// id returns the id of the client's place.
func (f *follower) id(view *view.View) string {
	return state.FormatEventID(view.ClusterID(), f.cursor.EventPlace)
}

// pollEvents answers with the events after the client's place, once there are some or the time is
// over.
func pollEvents(c *op.Call, f *follower) error {
	events, why, err := awaitEvents(c, f)
	if err != nil {
		return err
	}
	done, err := c.Build(len(events))
	if err != nil {
		return err
	}
	defer done()
	view := c.View()
	return c.Answer(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = append(read.BeginNotes(c, dst), `"events":[`...)
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

// awaitEvents looks for events, and waits for some if the client asks for it. The call's view is
// the one with the events.
func awaitEvents(c *op.Call, f *follower) (events []view.Event, why *lost, err error) {
	defer c.Env.News.Join()()
	err = c.AwaitNews(f.wait, c.Env.News.Next, func() (bool, error) {
		c.Work++ // also a look at nothing
		for range f.looks {
			found, reset, err := f.next(c.NewestView(), f.Query.Limit-len(events))
			if err != nil {
				return false, fmt.Errorf("look for events: %w", err)
			}
			events, why = append(events, found...), reset
			if !f.more || len(events) == f.Query.Limit {
				break
			}
		}
		return len(events) > 0 || why != nil || f.more, nil
	})
	return events, why, err
}

// streamPiece is the approximate size of the piece of a stream that is sent at once, in bytes.
const streamPiece = 16 << 10

// AppendEvents appends the next events, as many as fit into a piece.
func (f *follower) AppendEvents(dst []byte, view *view.View, tell bool) ([]byte, error) {
	events, why, err := f.next(view, lookEvents)
	if err != nil {
		return dst, err
	}
	for i := range events {
		e := &events[i]
		dst = beginEvent(dst, state.FormatEventID(view.ClusterID(), e.EventPlace), e.Kind.String())
		if dst, err = view.AppendEvent(dst, e); err != nil {
			return dst, err
		}
		dst = append(dst, "\n\n"...)
		if len(dst) >= streamPiece && i+1 < len(events) {
			f.back(e)
			return dst, nil
		}
	}
	id := f.id(view)
	switch {
	case why != nil:
		dst = beginEvent(dst, id, "reset")
		dst = wire.Object{{"id", id}, {"event", "reset"}, {"reason", why.reason}, {"message", why.message + whatToDo}}.AppendJSON(dst)
		dst = append(dst, "\n\n"...)
	case tell && len(events) == 0:
		dst = beginEvent(dst, id, "ping")
		dst = append(wire.Object{{"id", id}, {"event", "ping"}}.AppendJSON(dst), "\n\n"...)
	}
	return dst, nil
}

// beginEvent appends the lines before the data of an event, and the beginning of the
// data.
func beginEvent(dst []byte, id, event string) []byte {
	return append(append(append(append(append(dst, "id: "...), id...), "\nevent: "...), event...), "\ndata: "...)
}

func (f *follower) HasMore() bool       { return f.more }
func (f *follower) CountWork(work *int) { f.Query.Work = work }
