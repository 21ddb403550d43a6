package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/commons-cluster/commons/node/admin"
)

// shownDigest is how much of a digest a table shows.
const shownDigest = 16

type digestCommand struct {
	target `embed:""`
}

// Run compares all nodes, and fails when they differ or one does not answer.
func (c *digestCommand) Run(ctx context.Context, std streams) error {
	comparison, err := ask[admin.Comparison](ctx, &c.target, admin.PathCompare, nil)
	if err != nil {
		return err
	}
	if c.JSON {
		err = show(std.out, true, comparison, "")
	} else {
		rows := []string{"SERVER\tINDEX\tDIGEST"}
		for _, d := range comparison.Digests {
			rows = append(rows, row(d.ID, d.Index, d.Digest[:min(len(d.Digest), shownDigest)]+d.Error))
		}
		err = table(std.out, rows)
	}
	switch {
	case err != nil:
		return err
	case !comparison.Equal:
		return fmt.Errorf("the nodes differ at index %d: stop the ones that are not like the majority, empty their data directories and start them again", comparison.Index)
	case !comparison.Complete():
		return errors.New("not every node answered; see `commons members`, and repeat")
	}
	return nil
}
