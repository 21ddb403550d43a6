package fsmtest

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/must"
)

// firstStamp is before the first log entry.
const firstStamp = 1_700_000_000_000

// Rig is a state in memory to which commands are applied, without the machine around it. It
// closes itself at the end of the test.
type Rig struct {
	Hand
	Stamp   int64         // instant of the newest log entry
	Changes apply.Changes // of the newest log entry
	Ended   []outbox.DeliveryEnd
	apply.Loaded

	rows              state.Rows
	caches            *apply.Caches
	entries, profiles *index.Index
	terms             state.TermBuilder
	views             view.Views
	view              *view.View
	index, seq        uint64 // of the newest log entry, and command of Boot1
}

// Memory returns an empty file system in memory.
func Memory() vfs.FS { return vfs.NewMem() }

// New returns a rig of an empty state.
func New(t testing.TB) *Rig {
	t.Helper()
	r := &Rig{Stamp: firstStamp, index: 1} // the first entry of a log is the configuration of its servers
	db := must.Get(pebble.Open("", &pebble.Options{FS: Memory(), DisableWAL: true, MemTableSize: 64 << 20, Logger: quiet{}}))(t)
	r.rows.Open(db)
	var err error
	r.Loaded, r.caches, err = apply.LoadState(db, command.MaxFormat)
	must.Do(t, err)
	r.entries = r.open(t, state.SpaceIndex, index.Options{
		Version: state.IndexVersion, Lasting: state.IsLastingTerm,
		Erased: func(block uint64) (index.Bitmap, error) { return state.GoneIn(db, block) },
	})
	r.profiles = r.open(t, state.SpaceProfileIndex, index.Options{
		Version: state.ProfileIndexVersion,
		Erased:  func(uint64) (index.Bitmap, error) { return make(index.Bitmap, index.BlockEntries/8), nil },
	})
	r.Hand = Hand{T: t, State: r}
	r.publish()
	t.Cleanup(r.Close)
	return r
}

// Close closes the state, if it is open. Only a test that makes many rigs needs it.
func (r *Rig) Close() {
	if r.view == nil {
		return
	}
	CheckHotRows(r.T, &r.rows)
	r.view.Release()
	r.view = nil
	r.entries.Close()
	r.profiles.Close()
	must.Do(r.T, r.rows.DB.Close())
}

func (r *Rig) open(t testing.TB, space byte, opts index.Options) *index.Index {
	opts.Prefix, opts.First, opts.Pace, opts.OnSealed = []byte{space}, 1, yieldNever, func(uint64) {}
	return must.Get(index.Open(r.rows.DB, opts))(t)
}

func yieldNever() func() { return func() {} }

// Run applies commands of one boot in one log entry, and returns their results.
func (r *Rig) Run(bodies ...command.Payload) []command.Result {
	r.T.Helper()
	g := command.Group{Boot: Boot1}
	for _, body := range bodies {
		r.seq++
		g.Commands = append(g.Commands, command.Command{Seq: r.seq, Payload: body})
	}
	results := r.RunGroups(g)
	must.Equal(r.T, len(results), len(bodies), "results")
	return results
}

// RunGroups applies groups in one log entry, StampStep after the one before, and returns all results.
func (r *Rig) RunGroups(groups ...command.Group) []command.Result {
	r.T.Helper()
	r.Stamp += StampStep
	r.index++
	data := must.Get(command.EncodeBatch(command.Batch{Stamp: r.Stamp, Groups: groups}))(r.T)
	tx := r.Begin()
	tx.Apply(&apply.LogEntry{Index: r.index, Term: 1, Data: data})
	r.Changes = tx.Commit()
	r.Loaded = tx.Loaded
	r.Ended = append(r.Ended, r.Changes.Ended...)
	for i := range r.Changes.Added {
		added := &r.Changes.Added[i]
		terms, words := r.terms.Terms(&added.Entry, added.Texts)
		r.entries.Add(added.Entry.Seq, terms, words...)
	}
	for _, revised := range r.Changes.Revised {
		r.profiles.Add(revised.Revision, nil, r.terms.Words(revised.Texts)...)
	}
	r.publish()
	results := make([]command.Result, len(r.Changes.Answers))
	for i, a := range r.Changes.Answers {
		results[i] = a.Res
	}
	return results
}

// Clock is the instant of the newest log entry.
func (r *Rig) Clock() *int64 { return &r.Stamp }

// Reload reads again what is kept in memory of the rows, as a start does.
func (r *Rig) Reload() {
	r.T.Helper()
	var err error
	r.Loaded, r.caches, err = apply.LoadState(r.rows.DB, command.MaxFormat)
	must.Do(r.T, err)
	r.rows.Hot.Drop()
	r.publish()
}

// SetRow writes a row that no effect has made.
func (r *Rig) SetRow(key, row []byte) {
	r.T.Helper()
	must.Do(r.T, r.rows.DB.Set(key, row, pebble.NoSync))
	r.rows.Hot.Drop()
	r.publish()
}

// Written returns how many rows were written since the state was made. Each call writes one itself.
func (r *Rig) Written() int {
	r.T.Helper()
	b := r.rows.DB.NewBatch()
	must.Do(r.T, errors.Join(b.Set([]byte{0xff}, nil, nil), b.Commit(pebble.NoSync)))
	return int(b.SeqNum()) //nolint:gosec // small
}

// CheckReportQueue is CheckReportQueue for this state.
func (r *Rig) CheckReportQueue() { CheckReportQueue(r.T, r.rows.DB, r.Loaded.Reports) }

// Begin returns a transaction on the present state. The caller discards it.
func (r *Rig) Begin() *apply.Txn {
	return apply.Begin(&r.rows, r.Loaded, r.caches, command.MaxFormat, func(err error) { panic(err) })
}

// publish makes the view of the present state.
func (r *Rig) publish() {
	old := r.view
	r.view = view.NewView(&r.views, view.Source{
		Rows: &r.rows, Entries: r.entries.Cut(), Profiles: r.profiles.Cut(), At: r.Resident,
		Fatal: func(err error) { r.T.Error(err) }, Pace: yieldNever, Released: func() {},
	})
	if old != nil {
		old.Release()
	}
}

// View returns the view of the newest log entry. The caller releases it.
func (r *Rig) View() *view.View {
	r.view.Acquire()
	return r.view
}

// quiet is Pebble's log, which tests do not show.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, _ ...any) {
	panic("pebble: " + format)
}
