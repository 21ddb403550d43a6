package view

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/home"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
)

// View is the immutable state at one applied log entry. It is safe for concurrent use.
type View struct {
	refs     atomic.Int64
	rows     *state.Rows
	snap     *pebble.Snapshot
	cut      index.Cut
	profiles index.Cut // of the index of profiles
	at       state.Resident
	born     uint64 // in the order in which the store's views were made
	fatal    func(error)
	pace     func() (step func())
	released func()
	registry *Views

	channelsOnce sync.Once
	channels     []Channel

	EveryHome EveryHome
}

// Source is the state of a view. The indexes are cut before the rows are read, so that a
// block that is sealed in between is in both.
type Source struct {
	Rows              *state.Rows
	Entries, Profiles index.Cut
	At                state.Resident
	Fatal             func(error)          // gets errors of reads that cannot report them
	Pace              func() (step func()) // begins a long read, which calls step between small parts
	Released          func()               // called once, after the view was released
}

// NewView makes a view of the present rows, with one reference.
func NewView(registry *Views, from Source) *View {
	v := &View{
		rows: from.Rows, cut: from.Entries, profiles: from.Profiles, at: from.At, fatal: from.Fatal, pace: from.Pace, released: from.Released,
		snap: from.Rows.DB.NewSnapshot(), registry: registry,
	}
	registry.add(v)
	v.refs.Store(1)
	return v
}

// Acquire takes a reference; false if the view is already released.
func (v *View) Acquire() bool {
	for {
		n := v.refs.Load()
		if n == 0 {
			return false
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release releases the view, which must not be used afterwards.
func (v *View) Release() {
	switch n := v.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("fsm: a view was released twice")
	}
	// Close fails only when called twice.
	_ = v.snap.Close()
	v.registry.drop(v)
	v.released()
}

// Reader returns the rows of the view. They must not be used after its release.
func (v *View) Reader() pebble.Reader { return v.snap }

// Index is the log index of the newest entry that the view holds.
func (v *View) Index() uint64 { return v.at.Head.Applied }

// Version is the index since which lists, entries, threads and profiles did not change.
// Views of one cluster with the same version show the same, home until Home.Until. Searches
// by words may differ, because they examine a bounded number of words.
func (v *View) Version() uint64 { return v.at.Version }

// Time is the instant of the newest applied batch, in milliseconds since the epoch, or 0.
func (v *View) Time() int64 { return v.at.Head.Now }

// LastSeq is the seq of the newest entry, or 0. Every seq from 1 to it belongs to an entry.
func (v *View) LastSeq() uint64 { return v.at.Head.LastSeq }

// NextEnd returns when the next claim, rule or token ends, or the next report is removed because of
// its age, in milliseconds since the epoch; state.Never if none does.
func (v *View) NextEnd() (at int64, err error) {
	at, err = state.LoadNextDue(v.snap)
	if err != nil {
		return at, err
	}
	moderators, err := v.Moderators()
	for _, m := range moderators {
		if m.Until > v.at.Head.Now {
			at = min(at, m.Until)
		}
	}
	return min(at, v.at.Policy.NextEnd, v.at.Reports.NextEnd()), err
}

// Results returns the results that the session of a boot keeps, by the number of the command.
func (v *View) Results(boot command.BootID) map[uint64]command.Result {
	session, err := state.LoadOrZero(v.snap, state.SessionKey(boot), state.Decode[state.SessionRow])
	v.must(err)
	kept := make(map[uint64]command.Result)
	v.must(state.LoadAnswers(v.snap, &boot, func(_ command.BootID, _ uint64, row state.Answers) error {
		for _, a := range row {
			if session.Holds(a.Seq) {
				kept[a.Seq] = a.Result
			}
		}
		return nil
	}))
	return kept
}

// must passes an error of the storage to Options.Fatal, for reads that return no error.
func (v *View) must(err error) {
	if err != nil {
		v.fatal(fmt.Errorf("read state: %w", err))
	}
}

// RowDigest returns a hash over the logical rows of the state, which are equal on every
// node at an equal index. It reads all rows at the pace of background work, unless ctx ends first.
func (v *View) RowDigest(ctx context.Context) (digest [32]byte, err error) {
	step := v.pace()
	return DigestRows(v.snap, &v.at.Head, func() error {
		step()
		return ctx.Err()
	})
}

// DigestRows returns a hash over the logical rows of a state and its progress. It calls onRow
// before each row, and ends with its error; nil is allowed.
func DigestRows(r pebble.Reader, h *state.Head, onRow func() error) (digest [32]byte, err error) {
	sum := sha256.New()
	var buf []byte
	for _, k := range state.Keyspaces {
		if !k.Logical {
			continue
		}
		err := state.ScanAll(r, k.Letter, func(key, value []byte) error {
			if onRow != nil {
				if err := onRow(); err != nil {
					return err
				}
			}
			buf = state.AppendBlob(state.AppendBlob(buf[:0], key), value)
			sum.Write(buf)
			return nil
		})
		if err != nil {
			return digest, fmt.Errorf("digest rows: %w", err)
		}
	}
	for _, n := range [...]uint64{h.Applied, uint64(h.Now), h.LastSeq, h.EventRows} {
		sum.Write(binary.BigEndian.AppendUint64(nil, n))
	}
	sum.Sum(digest[:0])
	return digest, nil
}

// Views are the views of a store that are in use.
type Views struct {
	mu   sync.Mutex
	born uint64
	open map[*View]struct{}
}

func (x *Views) add(v *View) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open == nil {
		x.open = map[*View]struct{}{}
	}
	x.born++
	v.born = x.born
	x.open[v] = struct{}{}
}

func (x *Views) drop(v *View) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, v)
}

// Newest is the number of the newest view.
func (x *Views) Newest() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.born
}

// OlderThan reports whether a view is in use that is older than another one.
func (x *Views) OlderThan(born uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for v := range x.open {
		if v.born < born {
			return true
		}
	}
	return false
}

// Digest returns the running hash over everything applied up to the view's index.
func (v *View) Digest() [32]byte { return v.at.Head.Rolling }

// EveryHome holds the rows that all homes of a view share. The first home reads them.
type EveryHome struct {
	mu      sync.Mutex
	read    bool // the next fields are read, and do not change any more
	newest  home.RecentByAuthor
	waiting [home.WaitingLists][]home.Authored // newest first, at most WaitingKept

	Notes map[string]home.RecentByAuthor // by topic, at most NoteTopics
}
