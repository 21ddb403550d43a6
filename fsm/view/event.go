package view

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/commons-cluster/commons/fsm/state"
)

// Event is something that has happened.
type Event struct {
	state.EventPlace
	state.Happening
	At  int64 // milliseconds since the epoch
	row uint64
}

// EventCursor goes through the events.
type EventCursor struct {
	// EventPlace is after the newest event that was read.
	state.EventPlace
	row    uint64 // where the next event is or will be
	placed bool   // row is known
}

// After returns a cursor after an event.
func (e *Event) After() EventCursor { return EventCursor{e.EventPlace, e.row, true} }

// ErrEventsGone means that events after a cursor are no longer kept.
var ErrEventsGone = errors.New("these events are kept no more")

// EventsEnd returns a cursor after all events.
func (v *View) EventsEnd() EventCursor {
	end := state.EventPlace{Index: v.at.Head.Applied, Number: 0}
	if v.at.Head.LastEvent.Index == end.Index {
		end = v.at.Head.LastEvent
	}
	return EventCursor{end, v.at.Head.EventRows, true}
}

// Events returns at most limit events after a cursor, oldest first, and advances the
// cursor; without more events, to the end of the view, unless that is older. Errors:
// ErrEventsGone.
func (v *View) Events(c *EventCursor, limit int) (events []Event, err error) {
	if c.Index > v.at.Head.Applied {
		return nil, nil
	}
	if !c.placed || c.row < v.oldestEvents() {
		if err := v.placeCursor(c); err != nil {
			return nil, err
		}
	}
	for ; c.row < v.at.Head.EventRows; c.row++ {
		row, err := v.eventRow(c.row)
		if err != nil {
			return nil, err
		}
		for i, h := range row.Events {
			at := state.EventPlace{Index: row.Index, Number: row.First + uint64(i)}
			if at.Compare(c.EventPlace) <= 0 {
				continue
			}
			if len(events) == limit {
				return events, nil
			}
			events = append(events, Event{at, h, row.At, c.row})
			c.EventPlace = at
		}
	}
	*c = v.EventsEnd()
	return events, nil
}

// oldestEvents is the number of the oldest row of events that is kept.
func (v *View) oldestEvents() uint64 {
	return v.at.Head.EventRows - min(v.at.Head.EventRows, state.MaxEventRows)
}

func (v *View) eventRow(number uint64) (state.EventRow, error) {
	row, ok, err := state.Load(v.snap, state.EventKey(number), state.Decode[state.EventRow])
	if err == nil && !ok {
		err = fmt.Errorf("%w: events %d are missing", state.ErrCorrupt, number)
	}
	return row, err
}

// placeCursor finds the row with the first event after a cursor.
func (v *View) placeCursor(c *EventCursor) (err error) {
	oldest := v.oldestEvents()
	row := func(i int) (r state.EventRow) {
		if err == nil {
			r, err = v.eventRow(oldest + uint64(i))
		}
		return r
	}
	kept := int(v.at.Head.EventRows - oldest)
	i := sort.Search(kept, func(i int) bool {
		r := row(i)
		return err != nil || r.Last().Compare(c.EventPlace) > 0
	})
	if oldest > 0 && i == 0 {
		if first := row(0); c.Compare(first.Before) < 0 {
			err = cmp.Or(err, ErrEventsGone)
		}
	}
	if err == nil {
		c.row, c.placed = oldest+uint64(i), true
	}
	return err
}

// SelectEvents returns the events about entries that match the query. This includes
// hidden entries, if the query uses no field that hiding removes.
func (v *View) SelectEvents(events []Event, q Query) ([]Event, error) {
	filters := q
	filters.Since, filters.Limit, filters.Before, filters.Work = 0, 0, 0, nil
	if filters == (Query{}) || len(events) == 0 {
		return events, nil
	}
	seqs := make([]uint64, len(events))
	for i := range events {
		seqs[i] = events[i].Entry
	}
	slices.Sort(seqs)
	listed, err := v.listed(slices.Compact(seqs), q)
	if err != nil {
		return nil, fmt.Errorf("select events: %w", err)
	}
	return slices.DeleteFunc(events, func(e Event) bool { return !listed[e.Entry] }), nil
}

// AppendEvent appends an event's JSON to dst, with its entry and job as they are in the
// view.
func (v *View) AppendEvent(dst []byte, e *Event) ([]byte, error) {
	dst = state.AppendEventID(append(dst, `{"id":"`...), v.at.Cluster.ID, e.EventPlace)
	dst = append(append(append(dst, `","event":"`...), e.Kind.String()...), `","at":`...)
	dst = state.AppendInt(dst, e.At)
	if e.Entry == 0 {
		return append(state.AppendString(append(dst, `,"profile":`...), e.Profile), '}'), nil
	}
	dst, err := v.AppendEntry(append(dst, `,"entry":`...), e.Entry)
	if err != nil {
		return dst, err
	}
	job := e.Entry
	switch e.Kind {
	case state.EventClaim, state.EventResult, state.EventRelease, state.EventExpiry:
		m, _, err := v.Meta(e.Entry)
		if err != nil {
			return dst, err
		}
		job = m.Thread
	case state.EventJob, state.EventClose:
	default:
		return append(dst, '}'), nil
	}
	stored, ok, err := v.Job(job)
	if err == nil && !ok {
		err = state.ErrMissingJob(job)
	}
	if err != nil {
		return dst, err
	}
	dst = state.AppendID(append(dst, `,"job":{"id":"`...), state.TypeJob, job)
	return append(stored.append(append(dst, '"')), "}}"...), nil
}
