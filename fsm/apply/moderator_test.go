package apply_test

import (
	"crypto/sha256"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
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

// grant gives a moderator a token.
func (r *rig) grant(name string, millis int64) {
	r.T.Helper()
	token := sha256.Sum256([]byte(name))
	r.WantDone(&command.SetModerator{Order: fsmtest.ByOperator, Name: name, Token: token[:], For: millis})
}

// applyNextAt sets the stamp of the next log entry.
func (r *rig) applyNextAt(stamp int64) { r.Stamp = stamp - fsmtest.StampStep }

// TestTokensEnd holds that log time ends a token, and that a view knows when.
func TestTokensEnd(t *testing.T) {
	r := newRig(t)
	id := state.EntryID(r.Publish(nil))
	r.grant("mia", 10_000)
	r.grant("zoe", 20_000)
	first := fsmtest.InView(t, r, (*view.View).NextEnd)
	r.applyNextAt(first - 1)
	order := command.Order{By: "mia"}
	r.WantOutcome(&command.Hide{Order: order, IDs: []string{id}}, command.OutcomeDone, 0)
	r.applyNextAt(first)
	r.WantOutcome(&command.Hide{Order: order, IDs: []string{id}, Unhide: true}, command.OutcomeRejected, command.ProblemNotModerator)
	v := r.View()
	defer v.Release()
	hash := sha256.Sum256([]byte("mia"))
	mia, ended, err := v.Moderator(hash[:])
	must.Do(t, err)
	check.Equal(t, mia.Name, "mia", "the owner of a token that has ended")
	check.Equal(t, ended, true, "the token has ended")
	next := must.Get(v.NextEnd())(t)
	check.Equal(t, next > first, true, "the next end is that of the other token")
}
