package apply_test

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
)

// TestChanges: every change of the cluster is in the record; commands without an effect are
// not.
func TestChanges(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.Register("ada", "k1", nil))
	v := r.View()
	before := fsmtest.ChangeLog(t, v)
	v.Release()
	r.Run(
		&command.Lead{ServerID: "n1-a"}, &command.NoteChange{Action: command.ChangeAdd, Server: "n2-b", By: "n1-a", Reason: "it is alive and new"},
		&command.ResetKey{AgentKey: "ada", NewKey: fsmtest.KeyHash("k2"), NewRecovery: fsmtest.KeyHash("k2")}, &command.ResetKey{AgentKey: "nobody", NewKey: fsmtest.KeyHash("k2")},
		&command.ProtectName{AgentKey: "ada", Protected: true}, &command.ProtectName{AgentKey: "ada", Protected: true}, &command.ProtectName{AgentKey: "ada"},
		fsmtest.Hide("e1"),
	)
	v = r.View()
	defer v.Release()
	want := []string{
		"n1-a lead term 1", "n1-a add_server n2-b it is alive and new",
		"operator reset_key ada", "operator protect_name ada", "operator unprotect_name ada",
	}
	check.Diff(t, fsmtest.ChangeLog(t, v), append(before, want...), "told")
}

// TestRecordIsBounded: the oldest rows go.
func TestRecordIsBounded(t *testing.T) {
	r := newRig(t)
	r.Publish(nil)
	r.SetRow(state.KeyRecorded, state.AppendUints(nil, state.MaxRecorded))
	r.SetRow(state.SeqKey(state.SpaceRecord, 1), state.Encode(&state.Record{By: "mia"}))
	r.Run(fsmtest.Hide("e1"))
	v := r.View()
	defer v.Release()
	if rows, _, err := v.Records(0, 5); err != nil || len(rows) != 1 || rows[0].Number != state.MaxRecorded+1 {
		t.Errorf("%+v, %v", rows, err)
	}
}
