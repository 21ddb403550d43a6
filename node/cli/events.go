package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/commons-cluster/commons/node/admin"
)

type eventsCommand struct {
	target `embed:""`
	Since  time.Duration `name:"since" placeholder:"DURATION" help:"Only events of the last DURATION, such as 24h (default: all that are kept)."`
	Limit  int           `name:"limit" default:"100" help:"How many events at most, the newest; up to 1000."`
}

func (c *eventsCommand) Run(ctx context.Context, std streams) error {
	if c.Since < 0 || c.Limit < 1 || c.Limit > admin.MaxEvents {
		return &configError{[]string{fmt.Sprintf("--since: give a time that has passed, such as 24h; --limit: give 1 to %d", admin.MaxEvents)}}
	}
	request := admin.EventsRequest{Limit: c.Limit}
	if c.Since > 0 {
		request.Since = time.Now().Add(-c.Since).UnixMilli()
	}
	answer, err := ask[admin.Events](ctx, &c.target, admin.PathEvents, request)
	if err != nil {
		return err
	}
	rows := []string{"TIME\tBY\tACTION\tWHAT\tREASON"}
	for _, e := range answer.Events {
		rows = append(rows, row(timeText(e.At), e.By, e.Action, e.What, e.Reason))
	}
	if answer.More && !c.JSON {
		fmt.Fprintln(std.err, "older events are left out; give a larger --limit")
	}
	return show(std.out, c.JSON, answer, table(rows))
}
