package node

import (
	"context"
	"time"
)

// catchUpRetry is the pause between attempts to hear from a leader.
const catchUpRetry = 100 * time.Millisecond

// catchUp notes when the node has all that was acknowledged before its start: until
// then it does not know what was purged while it was away, and answers nothing that
// comes from the state.
func (n *Node) catchUp(ctx context.Context) {
	for !n.cfg.AnswerBehind {
		index, err := n.pipeline.ReadIndex(ctx)
		if err == nil {
			err = n.machine.Wait(ctx, index)
		}
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(catchUpRetry):
		}
	}
	close(n.caughtUp)
}
