package view_test

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"
)

// rig adds what only the tests of reads look at.
type rig struct{ *fsmtest.Rig }

func newRig(t testing.TB) *rig {
	t.Helper()
	return &rig{fsmtest.New(t)}
}
