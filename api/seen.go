package api

import (
	"net/http"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
)

var (
	fieldSeenIDs = formField{name: "ids", least: 1, most: command.MaxTarget, items: command.MaxSeen, noun: "id", required: true}
	seenFields   = []formField{fieldAgent, fieldSeenIDs, fieldRequestID, fieldEditKey}
	seenNames    = namesOf(seenFields)
)

// seenForm is the body of POST /api/home/seen as it was sent.
type seenForm struct {
	form
	ids     []string
	entries []uint64
}

// readSeen reads which open items an agent puts aside. Nothing comes of doing so twice:
// a request_id is taken and not needed.
func readSeen(doc *wire.Document) *seenForm {
	s := &seenForm{form: newForm(doc, seenNames, &fieldAgent, 0)}
	s.harmless = true
	if doc.NotObject {
		s.problems.Add(fieldAgent.name, "is required: the request body must be a JSON object with the fields agent and ids")
		return s
	}
	s.readName(&fieldAgent)
	s.readRequestID(false)
	s.readKey(false)
	s.readIDs()
	s.end()
	return s
}

func (s *seenForm) readIDs() {
	sent := s.labels(&fieldSeenIDs)
	for _, id := range sent {
		_, seq, ok := fsm.ParseID(idOf(id))
		if !ok {
			s.problems.Add(fieldSeenIDs.name, "holds what is no id of an entry: %s", wire.Shorten(id, wire.MaxMethodShown))
			break
		}
		s.ids, s.entries = append(s.ids, idOf(id)), append(s.entries, seq)
	}
	if len(sent) == 0 && !s.problems.Has(fieldSeenIDs.name) {
		s.problems.Add(fieldSeenIDs.name, "is required: the ids of up to %d entries, as openItems gives them", command.MaxSeen)
	}
	s.settle(&fieldSeenIDs, true, s.ids)
}

func (s *seenForm) inspect(view *fsm.View) ([]command.Problem, error) {
	if s.problems.Has(fieldAgent.name) {
		return nil, nil
	}
	return view.MarkSeenProblems(s.author.Signature())
}

func (s *seenForm) rejection(_ *fsm.View, p command.Problem) rejection {
	if p != command.ProblemNoKey {
		return newerRule(fieldSeenIDs.name, p)
	}
	return rejection{
		wire.Issue{fieldEditKey.name, "is required, " + keyInHeader + " or in the body: POST /api/agents gives one to a new name"},
		wire.CodeProofRequired, "Only the holder of the edit_key of an agent may dismiss its open items.",
	}
}

func (s *seenForm) command(*Server) command.Payload {
	return &command.MarkSeen{AgentKey: s.author.AgentKey, Entries: s.entries, Proof: s.author.Proof}
}

func (s *seenForm) answer(c *call, _ *fsm.View, _ *command.Result) error {
	notes := append([]string{}, s.notes...)
	return c.answerObject(http.StatusOK, wire.Object{{"notes", notes}, {"agent", s.author.Agent}, {"seen", s.ids}})
}

// postSeen serves POST /api/home/seen: open items that the agent need not answer.
var postSeen = private(writing(func(_ *call, doc *wire.Document) draft { return readSeen(doc) }))
