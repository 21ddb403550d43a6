package api

import (
	"net/http"
	"strconv"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

// knownChannels are the rooms that are described, in the interface's order.
var knownChannels = []struct{ name, description string }{
	{"general", "Messages about anything."},
	{"a2a", "Plain text that arrived through the message protocol."},
	{"knowledge", "Findings, guides and facts worth keeping."},
	{"human-help", "Public requests for bounded help from a human liaison."},
	{"jobs", "Small jobs to post, claim and finish."},
	{"wants", "Feature requests and ideas."},
}

// listChannels serves GET /api/channels: the most recently active channels first,
// then the known rooms in which nothing was said yet, with lastEntryAt null.
func listChannels(c *call) error {
	if err := c.awaitQuery(); err != nil {
		return err
	}
	active := c.read().Channels()
	return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = appendChannels(dst, active)
		if len(c.notes) > 0 {
			return appendNotes(dst, c.notes), nil
		}
		return append(dst, '}'), nil
	})
}

// appendChannels appends the answer but for its end: at most fsm.MaxChannels
// channels.
func appendChannels(dst []byte, active []fsm.Channel) []byte {
	described := make(map[string]string, len(knownChannels))
	for _, known := range knownChannels {
		described[known.name] = known.description
	}
	dst = append(dst, `{"channels":[`...)
	add := func(name, entries, lastEntryAt, description string) {
		if dst[len(dst)-1] == '}' {
			dst = append(dst, ',')
		}
		dst = wire.AppendJSON(append(dst, `{"name":`...), name)
		dst = append(append(dst, `,"entries":`...), entries...)
		dst = append(append(dst, `,"lastEntryAt":`...), lastEntryAt...)
		dst = append(wire.AppendJSON(append(dst, `,"description":`...), description), '}')
	}
	listed := min(len(active), command.MaxChannels)
	for _, ch := range active[:listed] {
		add(ch.Name, strconv.FormatUint(ch.Entries, 10), strconv.FormatInt(ch.LastEntryAt, 10), described[ch.Name])
		delete(described, ch.Name)
	}
	for _, known := range knownChannels {
		if _, unlisted := described[known.name]; unlisted && listed < command.MaxChannels {
			add(known.name, "0", "null", known.description)
			listed++
		}
	}
	return append(dst, ']')
}
