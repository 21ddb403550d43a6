package api

import (
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// The fields of requests for human help (interface, 2.5).
var (
	fieldHelpTags = formField{name: "tags", least: command.MinTag, most: command.MaxTag, items: command.MaxHelpTags, noun: "tag"}
	// helpTexts are the goal, the action, the context and the bounds.
	helpTexts = [...]formField{
		{name: "goal", least: command.MinHelpGoal, most: command.MaxHelpGoal, required: true},
		{name: "requested_action", least: command.MinHelpAction, most: command.MaxHelpAction, required: true},
		{name: "context", most: command.MaxHelpContext},
		{name: "constraints", most: command.MaxHelpBounds},
	}
	helpFields = append([]formField{fieldAgent, fieldHelpTags, fieldRequestID, fieldEditKey}, helpTexts[:]...)
	helpNames  = namesOf(helpFields)
)

// helpForm is the body of POST /api/human-requests as it was sent.
type helpForm struct {
	form
	texts   [len(helpTexts)]sent
	newTags []string
}

// readHelp reads a request for human help.
func readHelp(doc *wire.Document) *helpForm {
	h := &helpForm{form: newForm(doc, helpNames, &fieldAgent, command.OpAskHuman)}
	if doc.NotObject {
		h.problems.Add(fieldAgent.name, "is required: the request body must be a JSON object with the text fields agent, goal and requested_action")
		return h
	}
	h.readName(&fieldAgent)
	values := make([]string, len(helpTexts))
	for i := range helpTexts {
		h.texts[i] = h.text(&helpTexts[i])
		values[i] = h.texts[i].value
	}
	h.newTags = h.labels(&fieldHelpTags)
	h.readRequestID(false)
	h.readKey(false)
	h.end()
	h.mention(values...)
	return h
}

func (h *helpForm) command(*Server) command.Payload {
	return &command.AskHuman{
		Author: h.author, Tags: h.newTags,
		Goal: h.texts[0].value, Action: h.texts[1].value, Context: h.texts[2].value, Bounds: h.texts[3].value,
	}
}

// answer answers with the request and its entry.
func (h *helpForm) answer(c *call, view *fsm.View, r *command.Result) error {
	const before = "the request that it made"
	return c.answerWritten(&h.form, view, r, &written{
		location: "/api/human-requests/" + fsm.FormatID(fsm.TypeHelp, r.Entry), same: before, differs: before,
		show: func(dst []byte) ([]byte, error) {
			dst, err := view.AppendHelp(append(dst, `"request":`...), r.Entry)
			if err != nil {
				return nil, err
			}
			return view.AppendEntry(append(dst, `,"entry":`...), r.Entry)
		},
	})
}

// postHelp serves POST /api/human-requests.
var postHelp = writing(func(_ *call, doc *wire.Document) draft { return readHelp(doc) })

// helpList is GET /api/human-requests.
var helpList = listed{
	member: "requests", scope: "human-requests", params: []string{"status", "agent", "q", "limit", "cursor", fieldFormat, "consistency", "min_index"},
	filters: func(l *listing) {
		l.query.AgentKey = text.Fold(l.agent("agent"))
		l.looks = readStatus(l, 0, fsm.ParseHelpStatus, "open, answered, closed or all") != 0
	},
	find: func(view *fsm.View, l *listing) ([]uint64, uint64, error) {
		q := &l.query
		return view.ListHelp(fsm.HelpQuery{
			Status: fsm.HelpStatus(l.status), AgentKey: q.AgentKey, Q: q.Q, Limit: q.Limit, Before: q.Before, Work: q.Work,
		})
	},
	show: (*fsm.View).AppendHelps,
}
