package fsm

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
)

// TestPurgeAfterSweep: what is swept can still be purged, for its bytes are on the disks;
// a purge list finds it, too.
func TestPurgeAfterSweep(t *testing.T) {
	r := newRig(t)
	ids := publishPurged(r)
	r.Run(fsmtest.Retain(1))
	r.Later(2 * fsmtest.Day)
	r.SweepAll()
	fsmtest.Expect(t, r.Run(fsmtest.Purge(ids...))[0], command.OutcomeDone, "purge")
	for _, id := range ids {
		_, seq, _ := state.ParseID(id)
		if doc, raw := r.Read(seq); doc.Hidden == nil || doc.Hidden.Reason != "spam" || !doc.Hidden.Purged {
			t.Errorf("the stub is %s", raw)
		}
	}
	must.Do(t, r.store.Flush())
	if len(r.find()) == 0 {
		t.Fatal("the word is in no file before it is erased: the test shows nothing")
	}
	r.erase()
	check.Empty(t, r.find(), "the word is still in")
	fsmtest.Expect(t, r.Run(fsmtest.Purge(ids...))[0], command.OutcomeUnchanged, "purged again")
}

// TestSweptWordsLeaveTheIndex: blocks that were sealed are written anew without the words,
// and stubs stay in their threads, also after a restart.
func TestSweptWordsLeaveTheIndex(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	r := newRig(t)
	root := r.Publish(fsmtest.InChannel("den"))
	r.Run(fsmtest.Post("eve", func(p *command.Publish) {
		fsmtest.Relate(command.RelationReply, root)(p)
		p.Body = "Say " + purgedWord + "."
	}))
	r.Later(2 * fsmtest.Day)
	payloads := make([]command.Payload, 0, 1000)
	for i := range state.HiddenEntries {
		payloads = append(payloads, fsmtest.Post("ada", fsmtest.InChannel("hall")))
		if len(payloads) == cap(payloads) || i == state.HiddenEntries-1 {
			r.Run(payloads...)
			payloads = payloads[:0]
		}
	}
	word := []byte(strings.ToLower(purgedWord))
	terms := func() (n int) {
		must.Do(t, state.ScanAll(r.store.DB, state.SpaceIndex, func(key, _ []byte) error {
			if bytes.Contains(key, word) {
				n++
			}
			return nil
		}))
		return n
	}
	await.Eventually(t, "the first block to be sealed", func() bool { return terms() > 0 })
	r.Run(fsmtest.Retain(1))
	r.SweepAll()
	must.Do(t, r.store.Flush())
	if terms() == 0 || len(r.find()) == 0 {
		t.Fatal("the word left the files by itself: the test shows nothing")
	}
	thread := func() {
		t.Helper()
		check.Diff(t, r.List(view.Query{Thread: root, Since: -1}), []uint64{2, 1}, "thread")
		check.Diff(t, r.List(view.Query{Q: "body", Since: -1, Before: 10}), []uint64{9, 8, 7, 6, 5, 4, 3}, "found")
	}
	thread()
	for range 2 {
		if done, err := r.EraseSwept(t.Context(), never); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	check.Equal(t, terms(), 0, "keys of the index with the word")
	thread()
	await.Eventually(t, "former tables to go", func() bool { only, err := r.store.onlyLiveTables(); return only && err == nil })
	for _, file := range r.find() {
		check.Lacks(t, file, ".sst", "a file with the word")
	}
	r.reopen()
	thread()
}

func never() bool { return false }

// TestEraseSweptGivesWay: what else waits goes first, and what is left is done afterwards;
// also what was kept when the sweeps passed by leaves the tables.
func TestEraseSweptGivesWay(t *testing.T) {
	r := newRig(t)
	doomed := fsmtest.PostJob("ada")
	doomed.Body = "Say " + purgedWord + "."
	job := r.Run(doomed)[0].Entry
	r.Publish(nil)
	r.Run(fsmtest.Retain(1))
	r.Later(2 * fsmtest.Day)
	r.SweepAll()
	if done, err := r.EraseSwept(t.Context(), never); !done || err != nil {
		t.Fatal(done, err)
	}
	r.Run(fsmtest.CloseJob("ada", job))
	r.Later(2 * fsmtest.Day)
	r.SweepAll()
	must.Do(t, r.store.Flush())
	inTables := func() bool {
		return slices.ContainsFunc(r.find(), func(file string) bool { return strings.Contains(file, ".sst") })
	}
	if !inTables() {
		t.Fatal("the word left the tables by itself: the test shows nothing")
	}
	asked := 0
	for parts := range 2 { // first the index, then the only block
		asked = 0
		done, err := r.EraseSwept(t.Context(), func() bool { asked++; return asked > 1-parts })
		if done || err != nil || asked != 2-parts {
			t.Errorf("it was done while something waits: %t %v, asked %d times", done, err, asked)
		}
	}
	for range 2 { // the second has no work
		asked = 0
		if done, err := r.EraseSwept(t.Context(), func() bool { asked++; return false }); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	check.Equal(t, asked, 0, "steps of what is done already")
	await.Eventually(t, "former tables to go", func() bool { only, err := r.store.onlyLiveTables(); return only && err == nil })
	if inTables() {
		t.Errorf("the word is still in %s", r.find())
	}
}

// reopen closes the machine and opens it again.
func (r *rig) reopen() {
	r.T.Helper()
	dir := r.opts.Dir
	must.Do(r.T, r.Close())
	r.Machine = openAt(r.T, dir, func(o *Options) { o.Observer = r.obs })
}

// TestSweptInTheEnd draws a log of all commands: after all sweeps that are due, exactly what is
// old enough is a stub, and counts say what is shown.
func TestSweptInTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := tempMachine(rt, func(o *Options) { o.MaxFormat = command.MaxFormat + 1 })
		defer dropMachine(rt, m)
		w := newLogWriter(rt, newLog(t), m, func() {})
		for range 5 + w.below(60) {
			w.write()
		}
		w.log.stamp += 5 * fsmtest.Day
		w.log.nextSeq[fsmtest.Boot1] = w.seqs[fsmtest.Boot1]
		days := one[uint64](w, 1, 2, 3)
		w.log.commands(fsmtest.Retain(days), &command.Tick{})
		w.feed()
		for next, _ := fsmtest.NextSweep(rt, m, w.log.stamp, 0); next != nil; next, _ = fsmtest.NextSweep(rt, m, w.log.stamp, 0) {
			w.log.commands(next)
			w.feed()
		}
		checkSwept(rt, m, days)
	})
}

// allRows returns all logical rows.
func allRows(t fsmtest.Tester, m *Machine) map[string]string {
	rows := map[string]string{}
	for _, space := range logicalSpaces() {
		err := state.ScanAll(m.store.DB, space, func(key, row []byte) error {
			rows[string(key)] = string(row)
			return nil
		})
		must.Do(t, err)
	}
	return rows
}

// checkSwept holds the entries against a retention after all sweeps.
func checkSwept(t *rapid.T, m *Machine, days uint64) {
	period := int64(days) * fsmtest.Day //nolint:gosec // small
	v := m.View()
	defer v.Release()
	shown := map[string]uint64{}
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	tx := m.begin()
	defer tx.Discard()
	for seq := uint64(1); seq <= v.LastSeq(); seq++ {
		e, _ := tx.Entry(seq)
		doc, raw := fsmtest.ReadEntry(t, v, seq)
		if doc.Hidden == nil {
			shown[e.Channel]++
		}
		end, over := state.RetentionStart(tx, &e)
		old := over && end <= v.Time()-period
		switch gone := doc.Hidden != nil && (doc.Hidden.Purged || doc.Hidden.Expired); {
		case old && !gone:
			t.Errorf("%s is older than %d days, and %s", doc.ID, days, raw)
		case gone && strings.Contains(raw, "Body"):
			t.Errorf("%s shows its text: %s", doc.ID, raw)
		}
	}
	err := state.ScanSpace(v.Reader(), []byte{state.SpaceChannel}, []byte{state.SpaceChannel + 1}, func(key, row []byte) error {
		c, err := state.Decode[state.ChannelRow](row)
		check.Equal(t, c.Entries, shown[string(key[1:])], "entries of a channel")
		return err
	})
	must.Do(t, err)
}
