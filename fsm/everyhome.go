package fsm

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
)

// waitingKept is how many of the newest rows of a waiting list a view keeps: enough for
// nearly every reader, who leaves out its own and what concerns it.
const waitingKept = 64

// noteTopics is of how many topics a view keeps the notes: homes show the notes of the
// busiest topics of their agents, which many agents share.
const noteTopics = 256

// gapSlots is how many gaps are kept.
const gapSlots = 32

// everyHome is what all homes of a view are made of, read by the first of them.
type everyHome struct {
	mu      sync.Mutex
	read    bool // what follows is there, and is not changed any more
	newest  recentByAuthor
	waiting [waitingLists][]authored // newest first, at most waitingKept

	notes map[string]recentByAuthor // by topic, at most noteTopics
}

func (v *View) readEveryHome() error {
	h := &v.everyHome
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.read {
		return nil
	}
	newest, _, err := load(v.snap, keyNewest, decodeRecentByAuthor)
	if err != nil {
		return err
	}
	var waiting [waitingLists][]authored
	for _, p := range [...]part{partAsked, partOpen} {
		n, _ := waitingListOf(p)
		err := v.scanWaiting(p, waitingListKey(p, math.MaxUint64), func(e authored) (more bool) {
			waiting[n] = append(waiting[n], e)
			return len(waiting[n]) < waitingKept
		})
		if err != nil {
			return err
		}
	}
	h.newest, h.waiting, h.read = newest, waiting, true
	return nil
}

// notes returns the notes of a topic, which must not be changed.
func (v *View) notes(topic string) (recentByAuthor, error) {
	h := &v.everyHome
	h.mu.Lock()
	notes, kept := h.notes[topic]
	h.mu.Unlock()
	if kept {
		return notes, nil
	}
	notes, _, err := load(v.snap, notesKey(topic), decodeRecentByAuthor)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.notes == nil {
		h.notes = make(map[string]recentByAuthor)
	}
	if len(h.notes) < noteTopics {
		h.notes[topic] = notes
	}
	return notes, nil
}

// newest returns the newest entries, which must not be changed.
func (v *View) newest() (recentByAuthor, error) {
	err := v.readEveryHome()
	return v.everyHome.newest, err
}

// waitingHead returns the newest of a waiting list, newest first, which must not be
// changed. It is all of the list where there are less than waitingKept.
func (v *View) waitingHead(p part) ([]authored, error) {
	err := v.readEveryHome()
	n, _ := waitingListOf(p)
	return v.everyHome.waiting[n], err
}

// scanWaiting calls f with what is in a waiting list before a key, newest first, until
// it says that it has enough.
func (v *View) scanWaiting(p part, upper []byte, f func(authored) (more bool)) error {
	return scanBack(v.snap, waitingListKey(p, 0), upper, func(key, author []byte) error {
		if !f(authored{binary.BigEndian.Uint64(key[2:]), string(author)}) {
			return errEnough
		}
		return nil
	})
}

// gaps keeps some of the times in which no entry came. Homes look for the first entry
// after the same few instants again and again: a day, a week and 90 days ago. Entries
// only come after all others, so what was a gap once stays one for every view.
type gaps struct {
	slots [gapSlots]atomic.Pointer[gap]
	puts  atomic.Uint32
}

// gap is a time in which no entry came: after one instant, and before another at which
// there is an entry.
type gap struct {
	after, end int64
	seq        uint64 // the first entry at the end
}

// around returns the gap that an instant is in; nil when it is not kept.
func (g *gaps) around(at int64) *gap {
	for i := range g.slots {
		if one := g.slots[i].Load(); one != nil && one.after <= at && at < one.end {
			return one
		}
	}
	return nil
}

func (g *gaps) put(one *gap) {
	g.slots[g.puts.Add(1)%gapSlots].Store(one)
}
