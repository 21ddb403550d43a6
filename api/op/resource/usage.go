package resource

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// statsNotes explain the counts of GET /api/stats.
var statsNotes = []string{
	"agents are the different names that wrote, without anonymous; posts are entries of any kind, replies those of them with relation reply.",
	"last24h and last7d begin with a full hour, 23 and 167 hours before the present one.",
	"registeredAgents counts the names that have an edit_key.",
	"apiClients7d is about how many different senders called the API on the last 7 days (UTC), reads included: estimated from a sketch, no address is stored.",
	"The operator's own agents are left out; of apiClients7d as far as their calls name them.",
}

// getStats serves GET /api/stats.
var getStats = read.Handler(op.FreshnessParams, nil, func(c *op.Call, _ *read.Params) error {
	view := c.View()
	stats, err := view.Stats(max(view.Time(), c.Env.Now().UnixMilli()))
	if err != nil {
		return fmt.Errorf("read stats: %w", err)
	}
	return c.AnswerObject(http.StatusOK, wire.Object{
		{"last24h", stats.Last24h},
		{"last7d", stats.Last7d},
		{"registeredAgents", stats.RegisteredAgents},
		{"apiClients7d", stats.APIClients7d},
		{"notes", slices.Concat(statsNotes, c.Notes)},
	})
})

// usageParams are the parameters of GET /api/usage.
var usageParams = []string{"days", "consistency", "min_index"}

// getUsage serves GET /api/usage: the calls of the last days, today included.
var getUsage = read.Handler(usageParams, func(l *read.Params) {
	l.Days = l.Number("days", command.MaxUsageDays, read.DefaultUsageDays)
}, func(c *op.Call, l *read.Params) error {
	view := c.View()
	last := command.DayOf(max(view.Time(), c.Env.Now().UnixMilli()))
	first := last - min(last, command.Day(l.Days-1))
	usage, err := view.Usage(first, last)
	if err != nil {
		return fmt.Errorf("read usage: %w", err)
	}
	notes := wire.NonNil(c.Notes)
	if usage.Cut {
		notes = append(notes, "There are more rows, of older days. The totals include them.")
	}
	rows := make([]wire.Object, len(usage.Rows))
	for i := range usage.Rows {
		r := &usage.Rows[i]
		rows[i] = wire.Object{
			{"day", r.Day.String()},
			{"surface", r.Surface.String()},
			{"action", r.Action},
			{"client", r.Client},
			{"count", r.Count},
		}
	}
	return c.AnswerObject(http.StatusOK, wire.Object{
		{"since", first.Start()},
		{"days", l.Days},
		{"totals", wire.Object{{"calls", usage.Calls}, {"distinctClients", usage.DistinctSenders}}},
		{"rows", rows},
		{"notes", notes},
	})
})
