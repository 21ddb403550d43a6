package state

import (
	"encoding/binary"
)

// Events notify clients that follow the service. They are stored in a ring of rows: a log
// entry with events writes one, or several if it has very many. An event only names an entry,
// so that readers see it as it may be shown now. The id of an event consists of cluster, log
// index and a number within the log entry; a binary search finds it in the ring of any node.

const (
	// MaxEventRows bounds the rows of events. With MaxRowEvents in each, they take 50 MB.
	MaxEventRows = 1 << 15
	// MaxRowEvents bounds the events of a row.
	MaxRowEvents = 256
)

// EventKind is the kind of an event.
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

// EntryType returns the type of a new entry with an event of this kind.
func (k EventKind) EntryType() EntryType {
	switch k {
	case EventJob:
		return TypeJob
	case EventHelp:
		return TypeHelp
	}
	return TypeEntry
}

// Happening is an event as it is stored.
type Happening struct {
	Kind    EventKind
	Entry   uint64 // the seq of its entry; 0 if it is about a profile
	Profile string // the id of that profile
}

// EventRow is the row of SpaceEvents.
type EventRow struct {
	Index  uint64     // of the log entry
	At     int64      // its instant
	First  uint64     // the number of the first event among those of the log entry, from 1
	Before EventPlace // of the newest event of the row before; zero in the first row
	Events []Happening
}

// Last returns the place of the row's last event.
func (r *EventRow) Last() EventPlace { return EventPlace{r.Index, r.First + uint64(len(r.Events)) - 1} }

// Fields implements Row.
func (r *EventRow) Fields(c *Codec) {
	since := r.Index - r.Before.Index
	c.Fields(&r.Index, &r.At, &r.First, &since, &r.Before.Number)
	r.Before.Index = r.Index - since
	List(c, &r.Events, func(h *Happening) {
		c.Fields((*byte)(&h.Kind), &h.Entry)
		if h.Entry == 0 {
			c.Fields(&h.Profile)
		}
		c.Check(h.Kind > 0 && int(h.Kind) < len(EventNames))
	})
	c.Check(len(r.Events) > 0)
}

// EventKey is the key of the row of events with this number, in the ring.
func EventKey(number uint64) []byte {
	return binary.BigEndian.AppendUint32([]byte{SpaceEvents}, uint32(number%MaxEventRows))
}
