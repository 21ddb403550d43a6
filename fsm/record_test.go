package fsm

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// told returns the record of changes, the oldest first: the actor, the action and its
// object.
func told(t *testing.T, v *view.View) (rows []string) {
	t.Helper()
	records, next, err := v.Changes(0, 100)
	if err != nil || next != 0 {
		t.Fatal(next, err)
	}
	for i := range records {
		r := &records[len(records)-1-i]
		if r.At == 0 || r.Number != uint64(i+1) {
			t.Errorf("%+v", r)
		}
		rows = append(rows, strings.TrimSpace(strings.Join([]string{r.By, r.Action, r.What, r.Reason}, " ")))
	}
	return rows
}

// TestChanges: every change of the cluster is in the record; commands without an effect are
// not.
func TestChanges(t *testing.T) {
	r := newRig(t)
	r.run(register("ada", "k1", nil))
	v := r.View()
	before := told(t, v)
	v.Release()
	r.run(
		&command.Lead{ServerID: "n1-a"}, &command.NoteChange{Action: command.ChangeAdd, Server: "n2-b", By: "n1-a", Reason: "it is alive and new"},
		&command.ResetKey{AgentKey: "ada", NewKey: keyHash("k2"), NewRecovery: keyHash("k2")}, &command.ResetKey{AgentKey: "nobody", NewKey: keyHash("k2")},
		&command.ProtectName{AgentKey: "ada", Protected: true}, &command.ProtectName{AgentKey: "ada", Protected: true}, &command.ProtectName{AgentKey: "ada"},
		hide("e1"),
	)
	v = r.View()
	defer v.Release()
	want := []string{
		"n1-a lead term 1", "n1-a add_server n2-b it is alive and new",
		"operator reset_key ada", "operator protect_name ada", "operator unprotect_name ada",
	}
	check.Diff(t, told(t, v), append(before, want...), "told")
}

// TestFoundingIsRecorded: a state that was given to a new cluster says so.
func TestFoundingIsRecorded(t *testing.T) {
	r := newRig(t)
	r.run(&command.Init{ClusterID: "first", SealedDataKey: []byte("sealed")})
	data, _, _ := exportOf(t, r.Machine)
	dir := filepath.Join(t.TempDir(), "state")
	must.Get(Import(Options{Dir: dir}, bytes.NewReader(data), testFounding))(t)
	m := openAt(t, dir)
	defer closeMachine(t, m)
	r.log.feed(m, r.log.commands(&command.Lead{ServerID: "m1"}, &command.Lead{ServerID: "m1"}), r.log.last())
	v := m.View()
	defer v.Release()
	want := []string{"leader form_cluster first", "operator restore first -> second", "m1 lead term 1", "m1 lead term 1"}
	check.Diff(t, told(t, v), want, "told")
}
