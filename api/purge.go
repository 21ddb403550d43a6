package api

import (
	"net/http"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

var (
	purgeParams   = []string{"ids", "profiles", "reason", "dry_run"}
	destroyParams = []string{"server", "reason"}
)

// purging is the handler of purge: of what is named, and of nothing that a selection
// might take in by mistake. It is for good.
func purging() handler {
	return ordering(purgeParams, exampleHide, func(c *call, f *orderForm) func() error {
		cmd := &command.Purge{Order: f.Order, IDs: f.words("ids", command.MaxHidden)}
		cmd.Agents = f.profiles(command.MaxHidden - len(cmd.IDs))
		f.checkIDs(cmd.IDs)
		if len(cmd.IDs)+len(cmd.Agents) == 0 && !f.problems.Any() {
			f.problems.Add("ids", "is required, or profiles: what is purged is named")
		}
		if f.Reason == "" && !f.problems.Has("reason") {
			f.problems.Add("reason", "is required")
		}
		dry := f.flag("dry_run")
		return func() error {
			seqs := c.resolveNamed(cmd.IDs)
			return c.act(cmd, seqs, cmd.Agents, nil, dry)
		}
	})
}

// destroyDisk is the handler by which the operator says that the disk of a former server
// was destroyed.
var destroyDisk = ordering(destroyParams, wire.Object{}, func(c *call, f *orderForm) func() error {
	cmd := &command.DestroyDisk{Order: f.Order, Server: f.word("server", command.MaxServerIDBytes)}
	for _, field := range destroyParams {
		if f.doc.Get(field) == nil {
			f.problems.Add(field, "is required")
		}
	}
	return func() error {
		if _, err := c.order(cmd); err != nil {
			return err
		}
		return c.answerObject(http.StatusOK, wire.Object{{"server", cmd.Server}})
	}
})
