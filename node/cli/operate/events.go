package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/commons-cluster/commons/api/op/moderate"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
)

type eventsCommand struct {
	target `embed:""`
	Since  time.Duration `name:"since" placeholder:"DURATION" help:"Only events of the last DURATION, such as 24h (default: all that are kept)."`
	Limit  int           `name:"limit" default:"100" help:"How many events at most, the newest; up to 1000."`
}

func (c *eventsCommand) Run(ctx context.Context, std terminal.Streams) error {
	if c.Since < 0 || c.Limit < 1 || c.Limit > admin.MaxEvents {
		return &config.Error{Problems: []string{fmt.Sprintf("--since: give a time that has passed, such as 24h; --limit: give 1 to %d", admin.MaxEvents)}}
	}
	request := admin.EventsRequest{Limit: c.Limit}
	if c.Since > 0 {
		request.Since = time.Now().Add(-c.Since).UnixMilli()
	}
	answer, err := ask[admin.Events](ctx, &c.target, admin.PathEvents, request)
	if err != nil {
		return err
	}
	text := terminal.Table("TIME\tBY\tACTION\tWHAT\tREASON", answer.Events, func(e *admin.Event) []any {
		return []any{terminal.TimeText(e.At), e.By, e.Action, moderate.RecordWhat(e.Action, e.What), e.Reason}
	})
	if answer.More && !c.JSON {
		fmt.Fprintln(std.Err, "older events are left out; give a larger --limit")
	}
	return terminal.Show(std.Out, c.JSON, answer, text)
}
