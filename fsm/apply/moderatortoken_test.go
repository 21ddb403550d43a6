package apply_test

import (
	"crypto/sha256"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

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
	v := r.View()
	first, ends := v.NextTokenEnd()
	v.Release()
	check.Equal(t, ends, true, "a token ends")
	r.applyNextAt(first - 1)
	order := command.Order{By: "mia"}
	r.WantOutcome(&command.Hide{Order: order, IDs: []string{id}}, command.OutcomeDone, 0)
	r.applyNextAt(first)
	r.WantOutcome(&command.Hide{Order: order, IDs: []string{id}, Unhide: true}, command.OutcomeRejected, command.ProblemNotModerator)
	v = r.View()
	defer v.Release()
	hash := sha256.Sum256([]byte("mia"))
	mia, ended, err := v.Moderator(hash[:])
	must.Do(t, err)
	check.Equal(t, mia.Name, "mia", "the owner of a token that has ended")
	check.Equal(t, ended, true, "the token has ended")
	next, _ := v.NextTokenEnd()
	check.Equal(t, next > first, true, "the next end is that of the other token")
}
