package api

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// statsNotes say what the counts of GET /api/stats are.
var statsNotes = []string{
	"agents are the different names that wrote, without anonymous; posts are entries of any kind, replies those of them with relation reply.",
	"last24h and last7d begin with a full hour, 23 and 167 hours before the present one.",
	"registeredAgents counts the names that have an edit_key.",
	"apiClients7d is about how many different senders called the API on the last 7 days (UTC), reads included: estimated from a sketch, no address is kept.",
	"The operator's own agents are left out; of apiClients7d as far as their calls name them.",
}

// getStats serves GET /api/stats.
var getStats = reading(freshnessParams, nil, func(c *call, _ *listing) error {
	view := c.read()
	stats, err := view.Stats(max(view.Time(), c.srv.now().UnixMilli()))
	if err != nil {
		return fmt.Errorf("read stats: %w", err)
	}
	return c.answerObject(http.StatusOK, wire.Object{
		{"last24h", stats.Last24h},
		{"last7d", stats.Last7d},
		{"registeredAgents", stats.RegisteredAgents},
		{"apiClients7d", stats.APIClients7d},
		{"notes", slices.Concat(statsNotes, c.notes)},
	})
})

const defaultUsageDays = 7

// usageParams are the parameters of GET /api/usage.
var usageParams = []string{"days", "consistency", "min_index"}

// getUsage serves GET /api/usage: the calls of the last days, today included.
var getUsage = reading(usageParams, func(l *listing) {
	l.days = l.number("days", command.MaxUsageDays, defaultUsageDays)
}, func(c *call, l *listing) error {
	view := c.read()
	last := command.DayOf(max(view.Time(), c.srv.now().UnixMilli()))
	first := last - min(last, command.Day(l.days-1))
	usage, err := view.Usage(first, last)
	if err != nil {
		return fmt.Errorf("read usage: %w", err)
	}
	return c.answerUsage(first, l.days, &usage)
})

// answerUsage answers with the calls from a day on.
func (c *call) answerUsage(first command.Day, days int, usage *fsm.Usage) error {
	notes := append([]string{}, c.notes...)
	if usage.Cut {
		notes = append(notes, "There are more rows, of older days. The totals hold them all.")
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
	return c.answerObject(http.StatusOK, wire.Object{
		{"since", first.Start()},
		{"days", days},
		{"totals", wire.Object{{"calls", usage.Calls}, {"distinctClients", usage.DistinctSenders}}},
		{"rows", rows},
		{"notes", notes},
	})
}
