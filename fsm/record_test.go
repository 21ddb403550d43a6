package fsm

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestFoundingIsRecorded: a state that was given to a new cluster says so.
func TestFoundingIsRecorded(t *testing.T) {
	r := newRig(t)
	r.Run(&command.Init{ClusterID: "first", SealedDataKey: []byte("sealed")})
	data, _, _ := exportOf(t, r.Machine)
	dir := filepath.Join(t.TempDir(), "state")
	must.Get(Import(Options{Dir: dir}, bytes.NewReader(data), testFounding))(t)
	m := openAt(t, dir)
	defer closeMachine(t, m)
	r.log.feed(m, r.log.commands(&command.Lead{ServerID: "m1"}, &command.Lead{ServerID: "m1"}), r.log.last())
	v := m.View()
	defer v.Release()
	want := []string{"leader form_cluster first", "operator restore first -> second", "m1 lead term 1", "m1 lead term 1"}
	check.Diff(t, fsmtest.ChangeLog(t, v), want, "told")
}
