package view

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/state"
)

// WaitingKept bounds the rows of a waiting list that a view keeps: enough for nearly every
// reader.
const WaitingKept = 64

// NoteTopics bounds the topics whose notes a view keeps. Many agents share them.
const NoteTopics = 256

// EveryHome holds the rows that all homes of a view share. The first home reads them.
type EveryHome struct {
	mu      sync.Mutex
	read    bool // the next fields are read, and do not change any more
	newest  home.RecentByAuthor
	waiting [home.WaitingLists][]home.Authored // newest first, at most WaitingKept

	Notes map[string]home.RecentByAuthor // by topic, at most NoteTopics
}

// everyHome returns the rows that all homes share. Its read fields must not be changed.
func (v *View) everyHome() (*EveryHome, error) {
	h := &v.EveryHome
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.read {
		return h, nil
	}
	newest, _, err := state.Load(v.snap, home.KeyNewest, state.Decode[home.RecentByAuthor])
	if err != nil {
		return nil, err
	}
	var waiting [home.WaitingLists][]home.Authored
	for _, p := range [...]home.Part{home.PartAsked, home.PartOpen} {
		n, _ := home.WaitingListOf(p)
		err := v.scanWaiting(p, home.WaitingKey(p, math.MaxUint64), func(e home.Authored) (more bool) {
			waiting[n] = append(waiting[n], e)
			return len(waiting[n]) < WaitingKept
		})
		if err != nil {
			return nil, err
		}
	}
	h.newest, h.waiting, h.read = newest, waiting, true
	return h, nil
}

// Notes returns the notes of a topic, which must not be changed.
func (v *View) Notes(topic string) (home.RecentByAuthor, error) {
	h := &v.EveryHome
	h.mu.Lock()
	notes, kept := h.Notes[topic]
	h.mu.Unlock()
	if kept {
		return notes, nil
	}
	notes, _, err := state.Load(v.snap, home.NotesKey(topic), state.Decode[home.RecentByAuthor])
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Notes == nil {
		h.Notes = make(map[string]home.RecentByAuthor)
	}
	if len(h.Notes) < NoteTopics {
		h.Notes[topic] = notes
	}
	return notes, nil
}

// scanWaiting calls f with the entries of a waiting list before a key, newest first.
func (v *View) scanWaiting(p home.Part, upper []byte, f func(home.Authored) (more bool)) error {
	return state.ScanBack(v.snap, home.WaitingKey(p, 0), upper, func(key, author []byte) error {
		if !f(home.Authored{Seq: binary.BigEndian.Uint64(key[2:]), Author: string(author)}) {
			return state.ErrEnough
		}
		return nil
	})
}
