package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// Disks is what a node knows of the disks of its cluster.
type Disks interface {
	// Purges is which disks still hold what was purged, as far as a view knows of it. It
	// asks the nodes until ctx ends.
	Purges(ctx context.Context, view *fsm.View) (Purges, error)
}

// Purges says which disks still hold what was purged.
type Purges struct {
	Purged  uint64      `json:"purged"` // the number of the newest purge, from 1
	Servers []PurgeDisk `json:"servers"`
}

// PurgeDisk is one disk, by the id of its server.
type PurgeDisk struct {
	ID      string `json:"id"`
	Part    string `json:"part"` // voter, non-voter, outside, removed or destroyed
	Purged  uint64 `json:"purged"`
	Done    uint64 `json:"done"`
	Pending uint64 `json:"pending"`
	Problem string `json:"problem,omitempty"`
}

var (
	purgeParams   = []string{"ids", "profiles", "reason", "dry_run"}
	destroyParams = []string{"server", "reason"}
)

// purging is the handler of purge: of what is named, and of nothing that a selection
// might take in by mistake. It is for good.
func purging() handler {
	return ordering(purgeParams, func(c *call, f *orderForm) func() error {
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
		return func() error { return c.actOn(cmd, &cmd.IDs, &cmd.Agents, dry) }
	})
}

// destroyDisk is the handler by which the operator says that the disk of a former server
// was destroyed.
var destroyDisk = ordering(destroyParams, func(c *call, f *orderForm) func() error {
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

// listPurges serves GET /api/moderation/purges. It counts what the leader has confirmed:
// a node that lags would take purges that it does not know for done.
var listPurges = private(func(c *call) (task, error) {
	if _, err := c.onlyModerator(); err != nil {
		return task{}, err
	}
	return task{fresh: freshness{strong: true}, run: func() error {
		ctx, done := c.wait(waitTimeout)
		defer done()
		purges, err := c.srv.backend.Purges(ctx, c.read())
		if err != nil {
			return fmt.Errorf("read the purges: %w", err)
		}
		return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) { return wire.AppendJSON(dst, purges), nil })
	}}, nil
})
