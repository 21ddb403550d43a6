package moderate

import (
	"fmt"
	"net/http"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

var destroyParams = []string{"server", "reason"}

// destroyDisk records that the operator destroyed the disk of a former server.
var destroyDisk = ordering(destroyParams, nil, func(c *op.Call, f *orderForm) func() error {
	cmd := &command.DestroyDisk{Order: f.Order, Server: f.word("server", command.MaxServerIDBytes)}
	for _, field := range destroyParams {
		if f.Doc.Get(field) == nil {
			f.Problems.Add(field, "is required")
		}
	}
	return func() error {
		if _, err := order(c, cmd); err != nil {
			return err
		}
		return c.AnswerObject(http.StatusOK, wire.Object{{"server", cmd.Server}})
	}
})

// listPurges lists the disks that still hold purged texts. It reads a linearizable view, because a
// node that lags does not know the newest purges.
func listPurges(c *op.Call) (op.Task, error) {
	return op.Task{Fresh: op.Freshness{Strong: true}, Run: func() error {
		ctx, done := c.Wait(op.WaitTimeout)
		defer done()
		purges, err := c.Env.Backend.Purges(ctx, c.View())
		if err != nil {
			return fmt.Errorf("read the purges: %w", err)
		}
		return c.AnswerValue(purges)
	}}, nil
}
