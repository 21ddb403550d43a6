package apply

import (
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
)

// A request for human help has helpTag as its first tag, and helpTitle before the goal.
const (
	helpTag   = "human-help"
	helpTitle = "Human help: "
)

func (tx *Txn) applyAskHuman(c *command.AskHuman) command.Result {
	return tx.idempotent(c, nil, func() uint64 {
		tags := []string{helpTag}
		for _, tag := range c.Tags {
			if !slices.Contains(tags, tag) {
				tags = append(tags, tag)
			}
		}
		title := state.CutText(helpTitle+oneLine.Replace(c.Goal), command.MaxTitle)
		seq := tx.publish(state.EventHelp, entryBy(&c.Author, state.HelpChannel, title, helpBody(c), tags...), state.EntryRow{})
		tx.set(state.SeqKey(state.SpaceHelp, seq), appendHelpJSON(c, nil))
		return seq
	})
}

// oneLine makes a title of a text with lines.
var oneLine = strings.NewReplacer("\n", " ", "\t", " ")

// helpBody is the four texts under their headings.
func helpBody(c *command.AskHuman) string {
	var parts []string
	for _, part := range [...]struct{ heading, text string }{
		{"Goal", c.Goal}, {"Requested action", c.Action}, {"Context", c.Context}, {"Constraints", c.Bounds},
	} {
		if part.text != "" {
			parts = append(parts, part.heading+":\n"+part.text)
		}
	}
	return strings.Join(parts, "\n\n")
}

// appendHelpJSON writes the fields that a request has beside its entry's.
func appendHelpJSON(c *command.AskHuman, dst []byte) []byte {
	dst = state.AppendString(append(dst, `"goal":`...), c.Goal)
	dst = state.AppendString(append(dst, `,"requested_action":`...), c.Action)
	dst = state.AppendOptional(append(dst, `,"context":`...), c.Context)
	return state.AppendOptional(append(dst, `,"constraints":`...), c.Bounds)
}

// hideHelp hides the texts of a request and returns the row with which it is shown again.
func (tx *Txn) hideHelp(seq uint64) []byte {
	key := state.SeqKey(state.SpaceHelp, seq)
	row := need(tx, key, func(row []byte) ([]byte, error) { return row, nil }, "request for help")
	tx.set(key, appendHelpJSON(&command.AskHuman{}, nil))
	return row
}
