package api

import (
	"github.com/commons-cluster/commons/fsm/command"
)

var purgeParams = []string{"ids", "reason", "dry_run"}

// purging is the handler of purge: of what is named, and of nothing that a selection
// might take in by mistake. It is for good.
func purging() handler {
	return ordering(purgeParams, exampleHide, func(c *call, f *orderForm) func() error {
		cmd := &command.Purge{Order: f.Order, IDs: f.words("ids", command.MaxHidden)}
		f.checkIDs(cmd.IDs)
		if len(cmd.IDs) == 0 && !f.problems.Any() {
			f.problems.Add("ids", "is required: what is purged is named")
		}
		if f.Reason == "" && !f.problems.Has("reason") {
			f.problems.Add("reason", "is required")
		}
		dry := f.flag("dry_run")
		return func() error {
			seqs := c.resolveNamed(cmd.IDs)
			return c.act(cmd, seqs, len(seqs), nil, dry)
		}
	})
}
