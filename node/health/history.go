package health

import (
	"slices"
	"sync"
	"time"

	"github.com/commons-cluster/commons/node/admin"
)

const (
	// historyPart is how much time one point of the history sums up, historyParts how
	// many points there are: an hour.
	historyPart  = 30 * time.Second
	historyParts = 120
	// maxElections is how many elections are remembered.
	maxElections = 10
)

// History is what this node has measured in the last hour. It stands in memory.
type History struct {
	// Writes and Reads are of clients, by part of the time, oldest first. The last one
	// is of a part that has not ended.
	Part          time.Duration
	Writes, Reads []admin.Timing
	// Elections are those that this node has seen since it started, newest first.
	Elections []Election
}

// Election is a leader as this node saw it begin.
type Election struct {
	At     time.Time
	Leader string // server id
	Term   uint64
}

// history is what History shows. The zero value is ready.
type history struct {
	mu            sync.Mutex
	writes, reads [historyParts]recentPart
	elections     []Election
}

// note counts something that ended at an instant.
func (h *history) note(parts *[historyParts]recentPart, at, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	addPart(parts[:], int64(at/historyPart), took)
}

// timings returns what the parts hold at an instant.
func timings(parts *[historyParts]recentPart, at time.Duration) []admin.Timing {
	newest := int64(at / historyPart)
	list := make([]admin.Timing, historyParts)
	for i := range list {
		number := newest - historyParts + 1 + int64(i)
		if number < 0 {
			continue
		}
		if p := &parts[number%historyParts]; p.number == number && p.count > 0 {
			list[i] = admin.Timing{Count: p.count, MeanMillis: millis(p.sum) / float64(p.count), MostMillis: millis(p.most)}
		}
	}
	return list
}

// NoteRead counts a client's read that took so long.
func (h *Health) NoteRead(took time.Duration) {
	at := h.sinceStart()
	h.reads.add(at, took)
	h.history.note(&h.history.reads, at, took)
}

// NoteLeader notes that another server leads.
func (h *Health) NoteLeader(id string, term uint64) {
	h.LeaderChanges.Add(1)
	h.history.mu.Lock()
	defer h.history.mu.Unlock()
	h.history.elections = slices.Insert(h.history.elections, 0, Election{time.Now(), id, term})
	h.history.elections = h.history.elections[:min(len(h.history.elections), maxElections)]
}

// History returns what this node has measured in the last hour.
func (h *Health) History() History {
	at := h.sinceStart()
	h.history.mu.Lock()
	defer h.history.mu.Unlock()
	return History{
		Part: historyPart, Writes: timings(&h.history.writes, at), Reads: timings(&h.history.reads, at),
		Elections: slices.Clone(h.history.elections),
	}
}
