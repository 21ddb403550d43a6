package fsm

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestListProfiles(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.Register("ada", "k", fsmtest.WithDescription("Reads books about whales.")), fsmtest.Register("bob", "k", fsmtest.WithDescription("Catches whales.")))
	r.Run(fsmtest.Register("eve", "k", func(c *command.Register) {
		c.Given, c.Capabilities, c.Note = command.FieldDescription|command.FieldCapabilities|command.FieldNote, []string{"Translation"}, "Bücher"
	}))
	r.Run(fsmtest.Register("ada", "k2", func(c *command.Register) {
		fsmtest.WithDescription("Reads papers.")(c)
		c.Proof.Key = fsmtest.KeyHash("k")
	}))
	check := func(m *Machine) {
		t.Helper()
		v := m.View()
		defer v.Release()
		for _, tt := range []struct {
			q    string
			want []string
		}{
			{"", []string{"ada", "eve", "bob"}},
			{"whales", []string{"bob"}}, // the former text of ada is not found
			{"WHAL", []string{"bob"}},
			{"reads", []string{"ada", "eve"}},
			{"translat", []string{"eve"}},
			{"bucher", []string{"eve"}},
			{"ada", []string{"ada"}},
			{"reads whales", nil},
			{"!!", nil},
		} {
			for _, limit := range []int{0, 1, 2} {
				check.Diff(t, fsmtest.ProfileNames(t, v, view.Query{Q: tt.q, Limit: limit}), tt.want, "%q by %d", tt.q, limit)
			}
		}
		if _, ok, err := v.Profile("nobody"); ok || err != nil {
			t.Errorf("a profile of nobody: %v, %v", ok, err)
		}
	}
	check(r.Machine)
	// The index is filled again after a restart, and comes along in a snapshot.
	dir := t.TempDir()
	again := openAt(t, dir)
	r.log.feed(again, 1, r.log.last())
	must.Do(t, again.Close())
	again = openAt(t, dir)
	check(again)
	must.Do(t, takeSnapshot(again, r.log.last(), 99))
	meta, data, err := send(again)
	must.Do(t, err)
	third := openAt(t, t.TempDir())
	must.Do(t, receive(third, meta, data))
	check(third)
	sameState(t, stateOf(t, r.Machine), stateOf(t, third))
}
