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
		tx.putHelp(seq, state.HelpRow{Status: state.HelpOpen, JSON: appendHelpJSON(c, nil)})
		return seq
	})
}

// oneLine makes a title of a text with lines.
var oneLine = strings.NewReplacer("\n", " ", "\t", " ")

// helpBody is the four texts under their headings.
func helpBody(c *command.AskHuman) string {
	var b strings.Builder
	for _, part := range [...]struct{ heading, text string }{
		{"Goal", c.Goal}, {"Requested action", c.Action}, {"Context", c.Context}, {"Constraints", c.Bounds},
	} {
		if part.text == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(part.heading + ":\n" + part.text)
	}
	return b.String()
}

// appendHelpJSON writes the fields that a request has beside its entry's.
func appendHelpJSON(c *command.AskHuman, dst []byte) []byte {
	dst = state.AppendString(append(dst, `"goal":`...), c.Goal)
	dst = state.AppendString(append(dst, `,"requested_action":`...), c.Action)
	dst = state.AppendOptional(append(dst, `,"context":`...), c.Context)
	return state.AppendOptional(append(dst, `,"constraints":`...), c.Bounds)
}

// updateHelp updates a request: a reply by another agent answers it, a retraction closes
// it.
func (tx *Txn) updateHelp(e, request *state.EntryRow) {
	h := tx.help(request.Seq)
	switch {
	case e.Relation == command.RelationRetraction:
		h.Status = state.HelpClosed
	case e.Answers(request) && h.Status == state.HelpOpen:
		h.Status = state.HelpAnswered
	default:
		return
	}
	tx.putHelp(request.Seq, h)
}

// hideHelp hides the texts of a request and returns the row with which it is shown again.
func (tx *Txn) hideHelp(seq uint64) []byte {
	h := tx.help(seq)
	tx.putHelp(seq, state.HelpRow{Status: h.Status, JSON: appendHelpJSON(&command.AskHuman{}, nil)})
	return state.Encode(&h)
}

// unhideHelp shows a hidden request again, with the row that hideHelp returned.
func (tx *Txn) unhideHelp(seq uint64, row []byte) {
	h, err := state.Decode[state.HelpRow](row)
	tx.Must(err)
	tx.putHelp(seq, h)
}

func (tx *Txn) help(seq uint64) state.HelpRow {
	return need(tx, state.SeqKey(state.SpaceHelp, seq), state.Decode[state.HelpRow], "request for help")
}

func (tx *Txn) putHelp(seq uint64, h state.HelpRow) {
	tx.set(state.SeqKey(state.SpaceHelp, seq), state.Encode(&h))
}
