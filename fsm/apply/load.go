package apply

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
)

// The limits of the caches.
const (
	activitiesKept = 4096 // about 2 KiB each
	outboxesKept   = 1024 // up to 7 KiB each
	notesKept      = 1024 // of topics
)

// cache keeps the most recently used values, between one and two generations of them.
type cache[T any] struct {
	young, old map[string]*T
	generation int // how many values make one
}

func newCache[T any](keep int) cache[T] {
	return cache[T]{young: make(map[string]*T), generation: keep / 2}
}

func (m *cache[T]) get(key string) *T {
	if v := m.young[key]; v != nil {
		return v
	}
	v := m.old[key]
	if v != nil {
		m.put(key, v)
	}
	return v
}

func (m *cache[T]) put(key string, v *T) {
	if len(m.young) >= m.generation {
		m.old, m.young = m.young, make(map[string]*T, m.generation)
	}
	m.young[key] = v
}

// use returns a value to be changed, from used, from the cache, or from load.
func use[T any](tx *Txn, c *cache[T], used map[string]*T, key string, load func() (*T, error)) *T {
	if v := used[key]; v != nil {
		return v
	}
	v := c.get(key)
	if v == nil {
		var err error
		v, err = load()
		tx.Must(err)
		c.put(key, v)
	}
	used[key] = v
	return v
}

// Caches are the apply goroutine's caches of rows that change often.
type Caches struct {
	activities cache[home.Activity]
	recents    cache[home.RecentByAuthor]
	outboxes   cache[outbox.Outbox]
	hooks      map[string]bool // the agents with a receiver: looked up for every Inbox
}

// Begin starts a transaction on the rows of a store, with its state and its caches.
func Begin(stored *state.Rows, l Loaded, c *Caches, maxFormat int, fatal func(error)) *Txn {
	return &Txn{
		stored:     stored,
		Batch:      stored.DB.NewBatch(),
		base:       l.Head,
		Loaded:     l,
		maxFormat:  maxFormat,
		fatal:      fatal,
		rows:       make(map[string][]byte),
		firstFresh: l.Head.LastSeq + 1,
		activities: make(map[string]*home.Activity),
		recents:    make(map[string]*home.RecentByAuthor),
		owned:      make(map[string][]uint64),
		caches:     c,
		outboxes:   make(map[string]*outbox.Outbox),
	}
}

// Loaded is the part of a state that is held in memory.
type Loaded struct {
	state.Resident
	Sessions Sessions
	nextDue  int64  // no later than any job is due
	Revision uint64 // newest revision of any profile
}

// LoadState reads a state, with the caches for its transactions.
func LoadState(r pebble.Reader, maxFormat int) (l Loaded, c *Caches, err error) {
	if l.Format, err = state.LoadFormat(r); err != nil {
		return l, nil, err
	}
	if err := command.CheckFormat(l.Format, maxFormat); err != nil {
		return l, nil, err
	}
	c = &Caches{
		activities: newCache[home.Activity](activitiesKept),
		recents:    newCache[home.RecentByAuthor](notesKept),
		outboxes:   newCache[outbox.Outbox](outboxesKept),
	}
	var errs [9]error
	l.Head, errs[0] = state.LoadHead(r)
	l.Cluster, errs[1] = state.LoadCluster(r)
	l.Sessions, errs[2] = loadSessions(r)
	l.nextDue, errs[3] = state.LoadNextDue(r)
	l.Revision, errs[4] = state.LoadRevision(r)
	l.Hidden, _, errs[5] = state.Load(r, state.KeyHidden, state.DecodeNumber)
	l.Policy, errs[6] = state.LoadPolicy(r)
	l.Reports, errs[7] = state.LoadReports(r)
	c.hooks, errs[8] = loadHooks(r)
	l.Version = l.Head.Applied
	return l, c, errors.Join(errs[:]...)
}

// loadHooks returns the agents that have a receiver.
func loadHooks(r pebble.Reader) (map[string]bool, error) {
	hooks := make(map[string]bool)
	err := state.ScanAll(r, state.SpaceOutbox, func(key, row []byte) error {
		o, err := outbox.DecodeOutbox(row)
		if err == nil && o.Active {
			hooks[string(key[1:])] = true
		}
		return err
	})
	return hooks, err
}
