package fsm

import (
	"bytes"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestUnhideBringsEverythingBack: whatever was hidden in whatever order, the rows are
// those of before; meanwhile no view shows any of it.
func TestUnhideBringsEverythingBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l, _ := drawLog(t, rt)
		m := tempMachine(rt)
		defer func() { dropMachine(rt, m) }()
		seq := uint64(0)
		apply := func(payloads ...command.Payload) {
			g := command.Group{Boot: command.BootID{9}}
			for _, p := range payloads {
				seq++
				g.Commands = append(g.Commands, command.Command{Seq: seq, Payload: p})
			}
			l.batch(command.Batch{Groups: []command.Group{g}})
		}
		apply(
			fsmtest.PostJob("bob"), &command.AskHuman{Author: command.Author{Agent: "bob", AgentKey: "bob"}, Goal: "A goal", Action: "An action"},
			fsmtest.Post("ada", func(p *command.Publish) { p.Body, p.Kind, p.Tags = "Is this a note?", command.KindKnowledge, someTags }),
		)
		l.feed(m, 1, l.last())
		before := rowsOf(rt, m)
		var ids []string
		for seq := uint64(1); seq <= m.Head.LastSeq; seq++ {
			if id, hidden := idOf(rt, m, seq); !hidden && rapid.Bool().Draw(rt, "hidden") {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 {
			return
		}
		step := func(hidden bool, ids []string) {
			for _, id := range ids {
				c := fsmtest.Hide(id)
				c.Unhide = !hidden
				apply(c)
				l.feed(m, l.last(), l.last())
			}
		}
		step(true, rapid.Permutation(ids).Draw(rt, "order"))
		v := m.View()
		for _, q := range []view.Query{{}, {Q: "t"}, {AgentKey: "ada"}, {AgentKey: "bob"}, {ForKey: "ada"}} {
			q.Since, q.Limit = -1, command.MaxList
			seqs, _, err := v.List(q)
			must.Do(rt, err)
			for _, seq := range seqs {
				if meta, _, _ := v.Meta(seq); meta.Hidden {
					rt.Errorf("%+v shows the hidden entry %d", q, seq)
				}
			}
		}
		v.Release()
		if rapid.Bool().Draw(rt, "restarted") {
			dir := m.opts.Dir
			must.Do(rt, m.Close())
			m = must.Get(tryOpenAt(dir))(rt)
		}
		step(false, rapid.Permutation(ids).Draw(rt, "order back"))
		after := rowsOf(rt, m)
		for key, row := range before {
			check.Equal(rt, after[key], row, "the row %q", key)
			delete(after, key)
		}
		for key, row := range after {
			rt.Errorf("the row %q is %q and was none", key, row)
		}
	})
}

// rowsOf returns the logical rows but for those of sessions and of the record, and of
// the policy: rules end while a test goes on.
func rowsOf(t fsmtest.Tester, m *Machine) map[string]string {
	rows := map[string]string{}
	for _, space := range logicalSpaces() {
		if slices.Contains([]byte{state.SpaceSession, state.SpaceAnswer, state.SpaceRecord, state.SpaceEvents, state.SpaceRule}, space) {
			continue
		}
		must.Do(t, state.ScanAll(m.store.DB, space, func(key, row []byte) error {
			if !slices.ContainsFunc([][]byte{state.KeyRecorded, state.KeyHidden, state.KeyPolicy}, func(other []byte) bool { return bytes.Equal(key, other) }) {
				rows[string(key)] = string(row)
			}
			return nil
		}))
	}
	return rows
}

// idOf returns the public id of an entry, and whether it is hidden.
func idOf(t fsmtest.Tester, m fsmtest.Viewer, seq uint64) (id string, hidden bool) {
	v := m.View()
	defer v.Release()
	meta, ok, err := v.Meta(seq)
	if !ok || err != nil {
		t.Fatalf("entry %d: %v", seq, err)
	}
	return state.FormatID(meta.Type, seq), meta.Hidden
}

// TestHiddenWordsAfterRestart: a node that was started again while an entry was hidden
// finds it as the others do when it is shown again.
func TestHiddenWordsAfterRestart(t *testing.T) {
	dir := t.TempDir()
	m := openAt(t, dir)
	l := newLog(t)
	l.commands(fsmtest.Post("ada", func(p *command.Publish) { p.Body = "Rare words here." }))
	l.commands(fsmtest.Hide("e1"))
	l.feed(m, 1, l.last())
	closeMachine(t, m)
	m = openAt(t, dir)
	l.feed(m, l.last()+1, l.commands(fsmtest.Unhide("e1")))
	v := m.View()
	defer v.Release()
	if got, _, err := v.List(view.Query{Q: "rare", AgentKey: "ada", Since: -1}); err != nil || !slices.Equal(got, []uint64{1}) {
		t.Errorf("found are %d, %v", got, err)
	}
}
