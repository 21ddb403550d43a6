package fsm

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
)

// Events notify clients that follow the service. They are stored in a ring of rows: a
// log entry with events writes one, or several if it has very many. An event only names
// an entry, so that readers always see the entry as it may be shown now.

const (
	// maxEventRows is how many rows of events are kept: those of the newest log entries
	// that had any. maxRowEvents is how many events are in one, so that the ring holds
	// at most as many as the two multiplied, which is some 50 MB.
	maxEventRows = 1 << 15
	maxRowEvents = 256
)

// EventKind says what has happened.
type EventKind uint8

// The kinds of events. The numbers are stored.
const (
	EventEntry         EventKind = 1  // an entry was published
	EventJob           EventKind = 2  // a job was posted
	EventHelp          EventKind = 3  // a human was asked for help
	EventClaim         EventKind = 4  // a job was claimed, or its claim made longer, by the entry
	EventResult        EventKind = 5  // a job was finished by the entry
	EventRelease       EventKind = 6  // the claim that the entry made was given back
	EventExpiry        EventKind = 7  // the claim that the entry made ran out
	EventClose         EventKind = 8  // a job was withdrawn
	EventHide          EventKind = 9  // an entry was hidden
	EventUnhide        EventKind = 10 // a hidden entry is shown again
	EventHideProfile   EventKind = 11
	EventUnhideProfile EventKind = 12
)

// EventNames are the kinds' names in the interface, by kind.
var EventNames = [...]string{
	EventEntry: "entry", EventJob: "job", EventHelp: "human_request",
	EventClaim: "claim", EventResult: "result", EventRelease: "release", EventExpiry: "expiry", EventClose: "close",
	EventHide: "hide", EventUnhide: "unhide", EventHideProfile: "hide_profile", EventUnhideProfile: "unhide_profile",
}

// String returns the kind's name.
func (k EventKind) String() string { return EventNames[k] }

// entryType is the type of a new entry with an event of this kind.
func (k EventKind) entryType() EntryType {
	switch k {
	case EventJob:
		return TypeJob
	case EventHelp:
		return TypeHelp
	}
	return TypeEntry
}

// happening is an event as it is stored.
type happening struct {
	kind    EventKind
	entry   uint64 // the seq of the entry that it is about; 0: it is about a profile
	profile string // the id of that
}

// eventRow is the row of spaceEvents.
type eventRow struct {
	index  uint64     // of the log entry
	at     int64      // its instant
	first  uint64     // the number of the first event among those of the log entry, from 1
	before EventPlace // of the newest event of the row before; zero: there was none
	events []happening
}

func (r *eventRow) last() EventPlace { return EventPlace{r.index, r.first + uint64(len(r.events)) - 1} }

func (r *eventRow) append(dst []byte) []byte {
	dst = appendUints(dst, r.index, uint64(r.at), r.first, r.index-r.before.Index, r.before.Number)
	for _, h := range r.events {
		dst = binary.AppendUvarint(append(dst, byte(h.kind)), h.entry)
		if h.entry == 0 {
			dst = appendBlob(dst, h.profile)
		}
	}
	return dst
}

func decodeEventRow(row []byte) (eventRow, error) {
	r := rowReader{rest: row}
	e := eventRow{index: r.uint(), at: int64(r.uint()), first: r.uint()}
	e.before = EventPlace{e.index - r.uint(), r.uint()}
	for len(r.rest) > 0 && !r.bad {
		h := happening{kind: EventKind(r.byte()), entry: r.uint()}
		if h.entry == 0 {
			h.profile = r.text()
		}
		r.bad = r.bad || h.kind == 0 || int(h.kind) >= len(EventNames)
		e.events = append(e.events, h)
	}
	r.bad = r.bad || len(e.events) == 0
	return e, r.done("event row")
}

// happen records an event about an entry.
func (tx *txn) happen(kind EventKind, entry uint64) {
	tx.happened = append(tx.happened, happening{kind: kind, entry: entry})
}

// putEvents writes the events of the log entry that is being applied.
func (tx *txn) putEvents() {
	for first := 0; first < len(tx.happened); first += maxRowEvents {
		row := eventRow{
			index: tx.head.applied, at: tx.now, first: uint64(first) + 1, before: tx.head.lastEvent,
			events: tx.happened[first:min(first+maxRowEvents, len(tx.happened))],
		}
		tx.set(eventKey(tx.head.eventRows), row.append(nil))
		tx.head.eventRows++
		tx.head.lastEvent = row.last()
	}
	tx.happened = tx.happened[:0]
}

// EventPlace is a position in the sequence of events: after the event with this number
// of the log entry with this index, or after all events up to that log entry.
type EventPlace struct{ Index, Number uint64 }

func (p EventPlace) compare(q EventPlace) int {
	return cmp.Or(cmp.Compare(p.Index, q.Index), cmp.Compare(p.Number, q.Number))
}

// maxEventIDBytes bounds the id of an event.
const maxEventIDBytes = command.MaxClusterIDBytes + 2*(1+20)

// FormatEventID returns the id of the event at a place in a cluster's events.
func FormatEventID(cluster string, p EventPlace) string {
	return string(appendEventID(nil, cluster, p))
}

func appendEventID(dst []byte, cluster string, p EventPlace) []byte {
	dst = strconv.AppendUint(append(append(dst, cluster...), '-'), p.Index, 10)
	return strconv.AppendUint(append(dst, '-'), p.Number, 10)
}

// ParseEventID parses the id of an event. It accepts only what FormatEventID returns,
// and does not check whether the event exists.
func ParseEventID(id string) (cluster string, p EventPlace, ok bool) {
	if len(id) > maxEventIDBytes {
		return "", p, false
	}
	rest, number, isID := cutLast(id)
	cluster, logIndex, hasCluster := cutLast(rest)
	if !isID || !hasCluster || cluster == "" {
		return "", p, false
	}
	var err, err2 error
	p.Index, err = strconv.ParseUint(logIndex, 10, 64)
	p.Number, err2 = strconv.ParseUint(number, 10, 64)
	return cluster, p, err == nil && err2 == nil && FormatEventID(cluster, p) == id
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// Event is something that has happened.
type Event struct {
	EventPlace
	At      int64 // milliseconds since the epoch
	Kind    EventKind
	Entry   uint64 // the seq of the entry that it is about; 0: it is about a profile
	Profile string // the id of that

	row uint64
}

// EventCursor goes through the events.
type EventCursor struct {
	// EventPlace is after the newest event that was read.
	EventPlace
	row    uint64 // where the next event is or will be
	placed bool   // row is known
}

// EventsAfter returns a cursor at a place.
func EventsAfter(p EventPlace) EventCursor { return EventCursor{EventPlace: p} }

// After returns a cursor after an event.
func (e *Event) After() EventCursor { return EventCursor{e.EventPlace, e.row, true} }

// ErrEventsGone means that events after a cursor are no longer kept.
var ErrEventsGone = errors.New("these events are kept no more")

// EventsEnd returns a cursor after all events.
func (v *View) EventsEnd() EventCursor {
	end := EventPlace{v.head.applied, 0}
	if v.head.lastEvent.Index == end.Index {
		end = v.head.lastEvent
	}
	return EventCursor{end, v.head.eventRows, true}
}

// Events returns the events after a cursor, oldest first and at most limit, and
// advances the cursor; if there are no more, to the end of the view. A view that is
// older than the cursor returns nothing. Errors: ErrEventsGone.
func (v *View) Events(c *EventCursor, limit int) (events []Event, err error) {
	if c.Index > v.head.applied {
		return nil, nil
	}
	if !c.placed || c.row < v.oldestEvents() {
		if err := v.placeCursor(c); err != nil {
			return nil, err
		}
	}
	for ; c.row < v.head.eventRows; c.row++ {
		row, err := v.eventRow(c.row)
		if err != nil {
			return nil, err
		}
		for i, h := range row.events {
			at := EventPlace{row.index, row.first + uint64(i)}
			if at.compare(c.EventPlace) <= 0 {
				continue
			}
			if len(events) == limit {
				return events, nil
			}
			events = append(events, Event{EventPlace: at, At: row.at, Kind: h.kind, Entry: h.entry, Profile: h.profile, row: c.row})
			c.EventPlace = at
		}
	}
	*c = v.EventsEnd()
	return events, nil
}

// oldestEvents is the number of the oldest row of events that is kept.
func (v *View) oldestEvents() uint64 { return v.head.eventRows - min(v.head.eventRows, maxEventRows) }

func (v *View) eventRow(number uint64) (eventRow, error) {
	row, ok, err := load(v.snap, eventKey(number), decodeEventRow)
	if err == nil && !ok {
		err = fmt.Errorf("%w: events %d are missing", ErrCorrupt, number)
	}
	return row, err
}

// placeCursor finds the row with the first event after a cursor.
func (v *View) placeCursor(c *EventCursor) (err error) {
	oldest := v.oldestEvents()
	row := func(i int) (r eventRow) {
		if err == nil {
			r, err = v.eventRow(oldest + uint64(i))
		}
		return r
	}
	kept := int(v.head.eventRows - oldest)
	i := sort.Search(kept, func(i int) bool {
		r := row(i)
		return err != nil || r.last().compare(c.EventPlace) > 0
	})
	if oldest > 0 && i == 0 {
		if first := row(0); c.compare(first.before) < 0 {
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

// listed returns which of the given entries, in their order, match a query.
func (v *View) listed(seqs []uint64, q Query) (map[uint64]bool, error) {
	q.Since = -1
	search := index.Query{Work: q.Work}
	listed := make(map[uint64]bool)
	if some, err := v.translate(q, &search); err != nil || !some {
		return listed, err
	}
	find := v.search
	if q.namesNothingHidden() {
		find = v.searchAll
	}
	for len(seqs) > 0 {
		n := 1 // as many as follow one another
		for n < len(seqs) && seqs[n] == seqs[0]+uint64(n) {
			n++
		}
		search.Min, search.Before, search.Limit = seqs[0], seqs[n-1]+1, n
		found, _, err := find(search)
		if err != nil {
			return nil, err
		}
		for _, seq := range found {
			listed[seq] = true
		}
		seqs = seqs[n:]
	}
	return listed, nil
}

// AppendEvent appends an event's JSON to dst, with its entry as lists show it, and the
// state of the job that it is about: both as they are in the view.
func (v *View) AppendEvent(dst []byte, e *Event) ([]byte, error) {
	dst = appendEventID(append(dst, `{"id":"`...), v.cluster.id, e.EventPlace)
	dst = append(append(append(dst, `","event":"`...), e.Kind.String()...), `","at":`...)
	dst = appendInt(dst, e.At)
	if e.Entry == 0 {
		return append(appendString(append(dst, `,"profile":`...), e.Profile), '}'), nil
	}
	dst, err := v.AppendEntry(append(dst, `,"entry":`...), e.Entry)
	if err != nil {
		return dst, err
	}
	job := e.Entry
	switch e.Kind {
	case EventClaim, EventResult, EventRelease, EventExpiry:
		m, _, err := v.Meta(e.Entry)
		if err != nil {
			return dst, err
		}
		job = m.Parent
	case EventJob, EventClose:
	default:
		return append(dst, '}'), nil
	}
	state, ok, err := v.Job(job)
	if err == nil && !ok {
		err = errMissingJob(job)
	}
	if err != nil {
		return dst, err
	}
	dst = appendID(append(dst, `,"job":{"id":"`...), TypeJob, job)
	return append(state.append(append(dst, '"')), "}}"...), nil
}
