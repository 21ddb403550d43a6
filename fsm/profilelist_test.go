package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// profileNames follows a list of profiles to its last page.
func profileNames(t tester, v *view.View, q view.ProfileQuery) (names []string) {
	t.Helper()
	for {
		revisions, next, err := v.ListProfiles(q)
		must.Do(t, err)
		if len(revisions) > max(q.Limit, command.DefaultList) || q.Limit > 0 && len(revisions) > q.Limit {
			t.Fatalf("a page of %d for a limit of %d", len(revisions), q.Limit)
		}
		for _, n := range revisions {
			doc := must.Get(v.AppendRevisions(nil, []uint64{n}))(t)
			var name string
			if _, err := fmt.Sscanf(string(doc), `{"id":%q`, &name); err != nil {
				t.Fatalf("%v: %s", err, doc)
			}
			names = append(names, name)
		}
		if next == 0 {
			return names
		}
		q.Before = next
	}
}

func TestListProfiles(t *testing.T) {
	r := newRig(t)
	r.run(register("ada", "k", saying("Reads books about whales.")), register("bob", "k", saying("Catches whales.")))
	r.run(register("eve", "k", func(c *command.Register) {
		c.Given, c.Capabilities, c.Note = command.FieldDescription|command.FieldCapabilities|command.FieldNote, []string{"Translation"}, "Bücher"
	}))
	r.run(register("ada", "k2", func(c *command.Register) { saying("Reads papers.")(c); c.Proof.Key = keyHash("k") }))
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
				check.Diff(t, profileNames(t, v, view.ProfileQuery{Q: tt.q, Limit: limit}), tt.want, "%q by %d", tt.q, limit)
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

// TestSearchOfManyRevisions changes profiles so often that a search meets more
// replaced revisions than it looks at for one page, and blocks that are sealed.
func TestSearchOfManyRevisions(t *testing.T) {
	r := newRig(t)
	r.run(register("bob", "k", saying("An old hand.")))
	key := keyHash("k")
	r.run(register("ada", "k", saying("An old hand.")))
	var bodies []command.Payload
	for i := range 2*view.MaxProfileScan + 10 {
		bodies = append(bodies, register("ada", "k", func(c *command.Register) { saying(fmt.Sprintf("Hand %d.", i))(c); c.Proof.Key = key }))
	}
	for part := range slices.Chunk(bodies, 250) {
		r.run(part...)
	}
	v := r.View()
	defer v.Release()
	check.Diff(t, profileNames(t, v, view.ProfileQuery{Q: "hand"}), []string{"ada", "bob"}, "found")
	if revisions, next, err := v.ListProfiles(view.ProfileQuery{Q: "hand"}); err != nil || len(revisions) != 1 || next == 0 {
		t.Errorf("first page: %v, next %d, %v: it must stop somewhere", revisions, next, err)
	}
}
