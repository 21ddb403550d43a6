package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/commons-cluster/commons/node/admin"
)

// shownDigest is how much of a digest a table shows.
const shownDigest = 16

// short returns the part of a digest that a table shows.
func short(digest string) string { return digest[:min(len(digest), shownDigest)] }

type digestCommand struct {
	target `embed:""`
}

// Run compares all nodes, and fails when they differ or one does not answer.
func (c *digestCommand) Run(ctx context.Context, std streams) error {
	request := admin.CompareRequest{PatienceMillis: (c.Timeout * 2 / 3).Milliseconds()} // one that does not answer must not keep the others'
	comparison, err := ask[admin.Comparison](ctx, &c.target, admin.PathCompare, request)
	if err != nil {
		return err
	}
	if c.JSON {
		err = show(std.out, true, comparison, "")
	} else {
		rows := []string{"SERVER\tINDEX\tLOG\tROWS"}
		for _, d := range comparison.Digests {
			rows = append(rows, row(d.ID, d.Index, short(d.Digest)+d.Error, short(d.Rows)))
		}
		err = table(std.out, rows)
	}
	if err != nil {
		return err
	}
	return verdict(&comparison)
}

// verdict says what to do about a comparison; nil when all is well.
func verdict(comparison *admin.Comparison) error {
	switch {
	case !comparison.Equal:
		return fmt.Errorf("the nodes differ at index %d: save a backup of each first (`commons snapshot save FILE --cluster-addr …`); "+
			"then, one after the other, stop those that are not like the majority, empty their data directories, start them again and wait until `commons health --voter` says that they vote", comparison.Index)
	case !comparison.Complete():
		return errors.New("not every node answered; see `commons members`, and repeat")
	}
	return nil
}
