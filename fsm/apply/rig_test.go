package apply_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
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
