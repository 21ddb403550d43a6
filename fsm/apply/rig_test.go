package apply_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// rig adds what only the tests of effects look at.
type rig struct{ *fsmtest.Rig }

func newRig(t testing.TB) *rig {
	t.Helper()
	return &rig{fsmtest.New(t)}
}

// expectProblem ends the test if a result has other problems than want alone.
func expectProblem(t fsmtest.Tester, got command.Result, want command.Problem, format string, args ...any) {
	t.Helper()
	if !slices.Equal(got.Problems, []command.Problem{want}) {
		t.Fatalf("%s: %+v, want problem %d", fmt.Sprintf(format, args...), got, want)
	}
}

// helpStatus returns the state of the request for human help with the given seq; false when
// the entry is not one.
func helpStatus(v *view.View, seq uint64) (state.HelpStatus, bool, error) {
	h, ok, err := state.Load(v.Reader(), state.SeqKey(state.SpaceHelp, seq), state.Decode[state.HelpRow])
	return h.Status, ok, err
}
