package propose

import (
	"context"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// future is a command of a later version.
type future struct{ *command.Lead }

// Needs returns the format that introduced the command.
func (future) Needs() int { return 7 }

// TestNewCommandsWait holds that a command stays out of the log until every node of the
// cluster can read it.
func TestNewCommandsWait(t *testing.T) {
	c := newCluster(t, 1)
	n := c.lead("node-0")
	before := n.CommitIndex()
	body := future{&command.Lead{ServerID: "node-0"}}
	wantCode(t, check.Last(n.Propose(context.Background(), sender, body)), command.CodeNotEnqueued)
	wantCode(t, check.Last(n.ProposeAsLeader(context.Background(), body)), command.CodeNotEnqueued)
	r := n.submitForwarded(context.Background(), command.Group{Commands: []command.Command{{Payload: &command.Lead{}}, {Payload: body}}})
	check.Equal(t, r.Status, statusNotEnqueued, "forwarded by another node: %+v", r)
	check.Equal(t, n.CommitIndex(), before, "the log went from")
}
