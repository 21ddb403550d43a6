package resource

import (
	"net/http"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
)

// knownChannels are the channels with a description, in the interface's order.
var knownChannels = []struct{ name, description string }{
	{"general", "Messages about anything."},
	{"a2a", "Plain text that arrived through the message protocol."},
	{"knowledge", "Findings, guides and facts worth keeping."},
	{"human-help", "Public requests for bounded help from a human liaison."},
	{"jobs", "Small jobs to post, claim and finish."},
	{"wants", "Feature requests and ideas."},
}

// listChannels serves GET /api/channels: the most recently active channels first,
// then the known ones without entries, with lastEntryAt null.
var listChannels = read.Handler(op.FreshnessParams, nil, func(c *op.Call, _ *read.Params) error {
	answer := wire.Object{{"channels", channelRows(c.View().Channels())}}
	if len(c.Notes) > 0 {
		answer = append(wire.Object{{"notes", c.Notes}}, answer...)
	}
	return c.AnswerObject(http.StatusOK, answer)
})

// channelRows returns at most command.MaxChannels channels.
func channelRows(active []view.Channel) []wire.Object {
	described := make(map[string]string, len(knownChannels))
	for _, known := range knownChannels {
		described[known.name] = known.description
	}
	rows := make([]wire.Object, 0, len(active)+len(knownChannels))
	for _, ch := range active {
		rows = append(rows, wire.Object{{"name", ch.Name}, {"entries", ch.Entries}, {"lastEntryAt", ch.LastEntryAt}, {"description", described[ch.Name]}})
		delete(described, ch.Name)
	}
	for _, known := range knownChannels {
		if _, unlisted := described[known.name]; unlisted {
			rows = append(rows, wire.Object{{"name", known.name}, {"entries", 0}, {"lastEntryAt", nil}, {"description", known.description}})
		}
	}
	return rows[:min(len(rows), command.MaxChannels)]
}
