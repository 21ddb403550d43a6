package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

const shownDigest = 16

func short(digest string) string { return digest[:min(len(digest), shownDigest)] }

type digestCommand struct{ target }

// Run compares all nodes, and fails when they differ or one does not answer.
func (c *digestCommand) Run(ctx context.Context, std terminal.Streams) error {
	request := admin.CompareRequest{PatienceMillis: (c.Timeout * 2 / 3).Milliseconds()} // a node that does not answer must not hold up the others
	comparison, err := ask[admin.Comparison](ctx, &c.target, admin.PathCompare, request)
	if err != nil {
		return err
	}
	text := terminal.Table("SERVER\tINDEX\tLOG\tROWS", comparison.Digests, func(d *admin.Digest) []any {
		return []any{d.ID, d.Index, short(d.Digest) + d.Error, short(d.Rows)}
	})
	return errors.Join(terminal.Show(std.Out, c.JSON, comparison, text), differences(&comparison))
}

// differences returns an error with instructions if the digests differ, or nil.
func differences(comparison *admin.Comparison) error {
	switch {
	case !comparison.Equal:
		return fmt.Errorf("the nodes differ at index %d: save a backup of each first (`commons snapshot save FILE --cluster-addr …`); "+
			"then, one after the other, stop those that differ from the majority, empty their data directories, start them again and wait until `commons health --voter` says that they vote", comparison.Index)
	case !comparison.Complete():
		return errors.New("not every node answered; see `commons members` and run it again")
	}
	return nil
}
