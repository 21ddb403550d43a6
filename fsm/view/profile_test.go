package view_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
)

// TestSearchOfManyRevisions changes profiles so often that a search meets more
// replaced revisions than it looks at for one page, and blocks that are sealed.
func TestSearchOfManyRevisions(t *testing.T) {
	r := newRig(t)
	r.Run(fsmtest.Register("bob", "k", fsmtest.WithDescription("An old hand.")))
	key := fsmtest.KeyHash("k")
	r.Run(fsmtest.Register("ada", "k", fsmtest.WithDescription("An old hand.")))
	var bodies []command.Payload
	for i := range 2*view.MaxProfileScan + 10 {
		bodies = append(bodies, fsmtest.Register("ada", "k", func(c *command.Register) { fsmtest.WithDescription(fmt.Sprintf("Hand %d.", i))(c); c.Proof.Key = key }))
	}
	for part := range slices.Chunk(bodies, 250) {
		r.Run(part...)
	}
	v := r.View()
	defer v.Release()
	check.Diff(t, fsmtest.ProfileNames(t, v, view.Query{Q: "hand"}), []string{"ada", "bob"}, "found")
	if revisions, next, err := v.ListProfiles(view.Query{Q: "hand"}); err != nil || len(revisions) != 1 || next == 0 {
		t.Errorf("first page: %v, next %d, %v: it must stop somewhere", revisions, next, err)
	}
}
