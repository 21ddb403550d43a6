package state_test

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestJobRows(t *testing.T) {
	row := state.JobRow{
		Status: state.JobClaimed, Result: 9, Steps: state.JobRow{}.WithStep(state.JobStep{Kind: state.EventClaim, Entry: 7, At: 1}).Steps,
		Claimant: "Ada", ClaimantKey: "ada", Expires: 1700000000000, Claim: 7, Renewed: 2, Counted: "12345678",
	}
	got := must.Get(state.Decode[state.JobRow](state.Encode(&row)))(t)
	check.Diff(t, got, row, "decoded again")
	for n := range state.Encode(&row) {
		check.Fails(state.Decode[state.JobRow](state.Encode(&row)[:n]))(t, "%d bytes passed", n)
	}
	for _, bad := range [][]byte{{0, 0, 0, 0, 0}, {9, 0, 0, 0, 0}, append(state.Encode(&row), 0)} {
		check.Fails(state.Decode[state.JobRow](bad))(t, "%v passed", bad)
	}
	check.Fails(state.ParseDueKey([]byte{state.SpaceDue, 1}))(t, "a short claim key passed")
}
