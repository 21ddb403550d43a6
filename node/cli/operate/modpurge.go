package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

type purgeStatusCommand struct {
	moderation `embed:""`
}

const purgeStatus = "listPurges"

type diskGoneCommand struct {
	target `embed:""`
	Server string `arg:"" help:"The removed server, as 'mod purge-status' shows it."`
	Reason string `name:"reason" required:"" placeholder:"TEXT" help:"What became of the disk; it stands in the record."`
}

// Run records that a removed server's disk was destroyed.
func (c *diskGoneCommand) Run(ctx context.Context, std terminal.Streams) error {
	operator := &moderation{target: c.target}
	report, err := modCall[op.Purges](ctx, operator, purgeStatus, nil, nil)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(report.Servers, func(s op.PurgeDisk) bool { return s.ID == c.Server && s.Part == admin.Removed }) {
		return fmt.Errorf("%q is no removed server with a disk that 'mod purge-status' lists as pending; write its whole id", c.Server)
	}
	body := map[string]string{"server": c.Server, "reason": c.Reason}
	return modShow(ctx, std, operator, "destroyDisk", nil, body, func(a *destroyedDisk) string {
		return "the disk of " + a.Server + " counts as destroyed"
	})
}

type destroyedDisk struct {
	Server string `json:"server"`
}

type purgeListCommand struct {
	target `embed:""`
	File   string `arg:"" help:"Where to save it: beside the backups, as NAME.purged.json."`
}

func (c *purgeListCommand) Run(ctx context.Context, _ terminal.Streams) error {
	client, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return savePurgeList(ctx, client, c.File)
}

func (c *purgeStatusCommand) Run(ctx context.Context, std terminal.Streams) error {
	return modShow(ctx, std, &c.moderation, purgeStatus, nil, nil, func(report *op.Purges) string {
		return terminal.Table("SERVER\tPART\tPURGED\tGONE\tPENDING\tPROBLEM", report.Servers, func(s *op.PurgeDisk) []any {
			return []any{s.ID, s.Part, s.Purged, s.Done, s.Pending, cmp.Or(s.Problem, "-")}
		})
	})
}
