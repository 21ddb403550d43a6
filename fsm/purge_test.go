package fsm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// purgedWord stands in what the tests purge, and nowhere else.
const purgedWord = "Zyzzyvaquark"

// erase has the texts leave the files.
func (r *rig) erase() {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(r.T.Context(), await.Patience)
	defer cancel()
	must.Do(r.T, r.Erase(ctx))
}

func (r *rig) find() []string {
	r.T.Helper()
	return must.Get(fsmtest.FindText(r.opts.Dir, purgedWord))(r.T)
}

// publishPurged publishes all kinds of entries with the word, among others, and
// returns their ids.
func publishPurged(r *rig) []string {
	const w = purgedWord
	var ids []string
	add := func(seq uint64, kind state.EntryType) { ids = append(ids, state.FormatID(kind, seq)) }
	by := command.Author{Agent: "eve", AgentKey: "eve"}
	for i := range 300 {
		r.Publish(func(p *command.Publish) { p.Body = fmt.Sprintf("An honest entry, number %d.", i) })
	}
	add(r.Publish(func(p *command.Publish) {
		p.Kind, p.Title, p.Body, p.Tags = command.KindKnowledge, "About "+w, strings.Repeat("Buy "+w+" now. ", 20), []string{strings.ToLower(w), "pills"}
		p.Mentions = []string{strings.ToLower(w) + "-friend"}
	}), state.TypeEntry)
	job := fsmtest.PostJob("eve")
	job.Title, job.Body = "Sell "+w, "Sell "+w+" to all."
	seq := r.Run(job)[0].Entry
	add(seq, state.TypeJob)
	r.Run(&command.ClaimJob{JobAction: command.JobAction{Author: command.Author{Agent: "bob", AgentKey: "bob"}, Job: state.FormatID(state.TypeJob, seq)}, TTL: 1000_000})
	r.Run(&command.FinishJob{JobAction: command.JobAction{Author: command.Author{Agent: "bob", AgentKey: "bob"}, Job: state.FormatID(state.TypeJob, seq)}, Result: "Nothing was sold."})
	add(r.Run(&command.AskHuman{Author: by, Goal: "Buy " + w, Action: "Pay for " + w, Context: w, Bounds: w})[0].Entry, state.TypeHelp)
	for i := range 300 {
		r.Publish(func(p *command.Publish) { p.Body = fmt.Sprintf("Another honest entry, number %d.", i) })
	}
	return ids
}

// TestPurgeLeavesTheState: a purged text is in tables before Erase and in no file after it,
// whether it was hidden before or not. Texts of others stay.
func TestPurgeLeavesTheState(t *testing.T) {
	for name, hideFirst := range map[string]bool{"shown": false, "hidden": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ids := publishPurged(r)
			must.Do(t, r.store.Flush())
			if hideFirst {
				r.Run(fsmtest.Hide(ids...))
				must.Do(t, r.store.Flush())
			}
			if found := r.find(); len(found) == 0 {
				t.Fatal("the word is in no file before it is purged: the test finds nothing")
			}
			fsmtest.Expect(t, r.Run(fsmtest.Purge(append(ids, "e999", "j1")...))[0], command.OutcomeDone, "purge")
			for _, id := range ids {
				_, seq, _ := state.ParseID(id)
				doc, raw := r.Read(seq)
				if doc.Hidden == nil || !doc.Hidden.Purged || strings.Contains(strings.ToLower(raw), strings.ToLower(purgedWord)) {
					t.Errorf("the stub is %s", raw)
				}
			}
			must.Do(t, r.store.Flush())
			if found := r.find(); len(found) == 0 {
				t.Error("the word left the files by itself: the test shows nothing")
			}
			before := rowsOf(t, r.Machine)
			r.erase()
			check.Empty(t, r.find(), "files with the word")
			for key, row := range rowsOf(t, r.Machine) {
				check.Equal(t, before[key], row, "erasing changed the row %q", key)
			}
			if got := r.Run(fsmtest.Unhide(ids...), fsmtest.Purge(ids...)); got[0].Outcome != command.OutcomeUnchanged || got[1].Outcome != command.OutcomeUnchanged {
				t.Errorf("unhidden and purged again: %+v", got)
			}
			check.Equal(t, len(r.List(view.Query{Q: "honest", Since: -1, Limit: command.MaxList})), command.MaxList, "honest entries")
		})
	}
}

// TestEraseWaitsForCopies: a copy that is begun while texts are being erased has them, so
// that they are not gone before it is.
func TestEraseWaitsForCopies(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.Purge(publishPurged(r)...))
	held := r.View() // Erase waits for it before it writes tables anew
	done := make(chan error, 1)
	go func() { done <- r.Erase(t.Context()) }()
	await.Eventually(t, "the erasing to begin", func() bool {
		v := r.View()
		defer v.Release()
		return v != held
	})
	e := must.Get(r.Export())(t)
	if found, err := fsmtest.FindText(e.Dir(), purgedWord); err != nil || len(found) == 0 {
		t.Errorf("the copy has the word in %s, %v: the test shows nothing", found, err)
	}
	live := filepath.Join(r.opts.Dir, r.store.dir)
	held.Release()
	await.Eventually(t, "new tables", func() bool {
		found, err := fsmtest.FindText(live, purgedWord)
		return err == nil && len(found) == 0
	})
	select {
	case err := <-done:
		t.Errorf("erased, and the copy is still there: %v", err)
		done <- err
	case <-time.After(10 * erasePoll):
	}
	must.Do(t, errors.Join(e.Close(), <-done))
	check.Empty(t, r.find(), "files with the word")
}

// TestPurgesAreListed: each with the log entry that made it, and Erase goes on where it
// ended.
func TestPurgesAreListed(t *testing.T) {
	r := newRig(t)
	first, second := r.Publish(nil), r.Publish(nil)
	r.Run(fsmtest.Purge(state.EntryID(first)))
	r.erase()
	r.Run(fsmtest.Purge(state.EntryID(second), state.EntryID(first)))
	v := r.View()
	defer v.Release()
	var all []state.Purge
	must.Do(t, v.Purges(0, func(p state.Purge) error { all = append(all, p); return nil }))
	erased, err := v.Erased()
	if len(all) != 2 || all[0].ID != "e1" || all[1].ID != "e2" || all[1].Index != v.Index() || all[1].CreatedAt == 0 || erased != 1 || err != nil {
		t.Errorf("%+v, erased up to %d, %v", all, erased, err)
	}
}

// TestPurgeAfterRestart: a restarted node finds other entries by their words, and no purged
// ones.
func TestPurgeAfterRestart(t *testing.T) {
	dir := t.TempDir()
	m := openAt(t, dir)
	l := newLog(t)
	l.commands(fsmtest.Post("ada", func(p *command.Publish) { p.Body = "Rare words here." }))
	l.commands(fsmtest.Post("ada", func(p *command.Publish) { p.Body = "Rare words there." }))
	l.commands(fsmtest.Purge("e1"))
	l.feed(m, 1, l.last())
	closeMachine(t, m)
	m = openAt(t, dir)
	v := m.View()
	defer v.Release()
	if got, _, err := v.List(view.Query{Q: "rare", Since: -1}); err != nil || !slices.Equal(got, []uint64{2}) {
		t.Errorf("found are %d, %v", got, err)
	}
	check.Equal(t, must.Get(v.Purged())(t), 1, "purged")
}
