package moderate

import (
	"fmt"

	"github.com/commons-cluster/commons/api/op"
)

// listPurges lists the nodes with the purges that each has erased from its disk. It reads a
// linearizable view, because a node that lags does not know the newest purges.
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
