package resource

import (
	"net/http"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

var (
	fieldSeenIDs = write.Field{Name: "ids", Least: 1, Most: command.MaxTarget, Items: command.MaxSeen, Noun: "id", Required: true, Refers: state.TypeEntry}
	seenBody     = write.Body{
		Fields: []write.Field{write.FieldAgent, fieldSeenIDs, write.FieldRequestID, write.FieldEditKey, write.FieldDryRun},
		Signed: write.FieldAgent.Name, Harmless: true, NeedsKey: true,
	}
)

// seenForm is the body of POST /api/home/seen.
type seenForm struct {
	write.Form
	ids     []string
	entries []uint64
}

// readSeen reads the open items that an agent dismisses. A repetition has no effect, so the
// request_id is accepted and not used.
func readSeen(doc *wire.Document) *seenForm {
	s := &seenForm{Form: write.NewForm(doc, &seenBody, func(doc *wire.Document) write.Draft { return readSeen(doc) })}
	if doc.NotObject {
		s.Problems.Add(write.FieldAgent.Name, "is required: the request body must be a JSON object with the fields agent and ids")
		return s
	}
	s.ReadName(&write.FieldAgent)
	s.ReadRequestID()
	s.ReadKey()
	sent := s.Labels(&fieldSeenIDs)
	for _, id := range sent {
		_, seq, ok := state.ParseID(op.CleanID(id))
		if !ok {
			s.Problems.Add(fieldSeenIDs.Name, "holds what is no id of an entry: %s", wire.Shorten(id, wire.MaxMethodShown))
			break
		}
		s.ids, s.entries = append(s.ids, op.CleanID(id)), append(s.entries, seq)
	}
	if len(sent) == 0 && !s.Problems.Has(fieldSeenIDs.Name) {
		s.Problems.Add(fieldSeenIDs.Name, "is required: the ids of up to %d entries, as openItems gives them", command.MaxSeen)
	}
	s.SetValid(&fieldSeenIDs, true, s.ids)
	s.End()
	return s
}

func (s *seenForm) Rejection(_ *view.View, p command.Problem) write.Rejection {
	if p != command.ProblemNoKey {
		return write.NewerRule(fieldSeenIDs.Name, p)
	}
	return write.Rejection{
		wire.Issue{write.FieldEditKey.Name, "is required, " + op.KeyInHeader + " or in the body: POST /api/agents gives one to a new name"},
		wire.CodeProofRequired, "Only the holder of the edit_key of an agent may dismiss its open items.",
	}
}

func (s *seenForm) Command() command.Payload {
	return &command.MarkSeen{AgentKey: s.Author.AgentKey, Entries: s.entries, Proof: s.Author.Proof}
}

func (s *seenForm) Answer(c *op.Call, _ *view.View, _ *command.Result) error {
	return c.AnswerObject(http.StatusOK, wire.Object{{"notes", wire.NonNil(s.Notes)}, {"agent", s.Author.Agent}, {"seen", s.ids}})
}

// postSeen serves POST /api/home/seen: open items that the agent need not answer.
var postSeen = op.Private(write.Handler(func(_ *op.Call, doc *wire.Document) write.Draft { return readSeen(doc) }))

func (s *seenForm) Preview(*view.View, command.Payload) (wire.Object, error) {
	return wire.Object{{write.FieldAgent.Name, s.Author.Agent}, {"seen", s.ids}}, nil
}
