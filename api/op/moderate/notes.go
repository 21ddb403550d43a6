package moderate

import (
	"net/http"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

var (
	noteParams     = []string{"agent", "sender_of", "text", "remove", "dry_run"}
	noteListParams = append([]string{"agent", "sender_of"}, recordParams...)
	sampleNote     = wire.Object{{"agent", write.ExampleName}, {"text", "Was warned before"}}
)

// setNote serves POST /api/moderation/note: it adds a private note, or removes one.
var setNote = ordering(noteParams, sampleNote, func(c *op.Call, f *orderForm) func() error {
	cmd := &command.SetNote{Order: f.Order}
	switch f.only("agent", "sender_of", "remove") {
	case "agent":
		if cmd.Agent = text.Fold(f.Agent("agent")); cmd.Agent == command.AnonymousName {
			f.Problems.Add("agent", "is everybody who writes without a name: give sender_of, an entry of the sender")
		}
	case "sender_of":
		cmd.Sender = op.CleanID(f.word("sender_of", command.MaxTarget))
	case "remove":
		cmd.Remove = uint64(f.Number("remove", maxNoteNumber, 0)) //nolint:gosec // not negative
	}
	if cmd.Text = f.word("text", command.MaxModNote); cmd.Text == "" && cmd.Remove == 0 {
		f.Problems.Add("text", "is required: 1 to %d characters, for moderators alone", command.MaxModNote)
	}
	dry := f.flag("dry_run")
	return func() error {
		if dry {
			return answerDryRule(c, wire.Object{{"agent", wire.OrNull(cmd.Agent)}, {"sender_of", wire.OrNull(cmd.Sender)}, {"text", cmd.Text}, {"remove", cmd.Remove}})
		}
		result, err := f.propose(c, cmd)
		if err != nil {
			return err
		}
		return c.AnswerObject(http.StatusOK, c.WithNotes(wire.Object{{"number", result.Entry}}))
	}
})

const maxNoteNumber = 1 << 31

// listNotes serves GET /api/moderation/notes.
var listNotes = forModerators("moderatorNotes", noteListParams, func(l *read.Params) {
	l.Agent("agent")
	l.Thread = l.ID("sender_of")
}, func(c *op.Call, l *read.Params) (rows []wire.Object, next uint64, err error) {
	if !l.Resolve(c.View()) {
		return nil, 0, nil
	}
	notes, err := c.View().ModNotes(text.Fold(l.Agent("agent")), l.Query.Thread)
	limit := state.PageLimit(l.Query.Limit)
	for i := range notes {
		n := &notes[i]
		if l.Query.Before > 0 && n.Number >= l.Query.Before {
			continue
		}
		if len(rows) == limit {
			next = notes[i-1].Number
			break
		}
		rows = append(rows, noteRow(n))
	}
	return rows, next, err
})

// notesOn returns the notes on a name and on the sender of an entry, which may be 0.
func notesOn(v *view.View, agentKey string, seq uint64) ([]wire.Object, error) {
	rows := []wire.Object{}
	if agentKey == "" && seq == 0 {
		return rows, nil
	}
	notes, err := v.ModNotes(agentKey, seq)
	for i := range notes {
		rows = append(rows, noteRow(&notes[i]))
	}
	return rows, err
}

func noteRow(n *state.Note) wire.Object {
	about, agent := "name", any(n.ID)
	if n.Sender { // by a pseudonym that is never shown
		about, agent = "sender", nil
	}
	return wire.Object{{"number", n.Number}, {"about", about}, {"agent", agent}, {"at", n.At}, {"by", n.By}, {"text", n.Text}}
}
