package resource

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// The fields of requests for human help (interface, 2.5).
var (
	fieldHelpTags = write.Field{Name: "tags", Least: command.MinTag, Most: command.MaxTag, Items: command.MaxHelpTags, Noun: "tag"}
	// helpTexts are the goal, the action, the context and the bounds.
	helpTexts = [...]write.Field{
		{Name: "goal", Least: command.MinHelpGoal, Most: command.MaxHelpGoal, Required: true},
		{Name: "requested_action", Least: command.MinHelpAction, Most: command.MaxHelpAction, Required: true},
		{Name: "context", Most: command.MaxHelpContext},
		{Name: "constraints", Most: command.MaxHelpBounds},
	}
	helpBody = write.Body{
		Fields: append([]write.Field{write.FieldAgent, fieldHelpTags, write.FieldRequestID, write.FieldEditKey, write.FieldDryRun}, helpTexts[:]...),
		Signed: write.FieldAgent.Name, Repeats: command.OpAskHuman,
	}
)

// helpForm is the body of POST /api/human-requests.
type helpForm struct {
	write.Form
	texts   [len(helpTexts)]write.Sent
	newTags []string
}

func readHelp(doc *wire.Document) *helpForm {
	h := &helpForm{Form: write.NewForm(doc, &helpBody, func(doc *wire.Document) write.Draft { return readHelp(doc) })}
	if doc.NotObject {
		h.Problems.Add(write.FieldAgent.Name, "is required: the request body must be a JSON object with the text fields agent, goal and requested_action")
		return h
	}
	h.ReadName(&write.FieldAgent)
	values := make([]string, len(helpTexts))
	for i := range helpTexts {
		h.texts[i] = h.Text(&helpTexts[i])
		values[i] = h.texts[i].Value
	}
	h.newTags = h.Labels(&fieldHelpTags)
	h.ReadRequestID()
	h.ReadKey()
	h.End()
	h.Mention(values...)
	return h
}

func (h *helpForm) Command() command.Payload {
	return &command.AskHuman{
		Author: h.Author, Tags: h.newTags,
		Goal: h.texts[0].Value, Action: h.texts[1].Value, Context: h.texts[2].Value, Bounds: h.texts[3].Value,
	}
}

func (h *helpForm) Answer(c *op.Call, view *view.View, r *command.Result) error {
	const before = "the request that it made"
	request, errRequest := view.AppendHelp(nil, r.Entry)
	entry, err := view.AppendEntry(nil, r.Entry)
	if err = cmp.Or(errRequest, err); err != nil {
		return fmt.Errorf("show request %d: %w", r.Entry, err)
	}
	return write.Answer(c, &h.Form, view, r, &write.Written{
		Location: "/api/human-requests/" + state.FormatID(state.TypeHelp, r.Entry), Before: before,
		Shown: wire.Object{{"request", json.RawMessage(request)}, {"entry", json.RawMessage(entry)}},
	})
}

// postHelp serves POST /api/human-requests.
var postHelp = write.Handler(func(_ *op.Call, doc *wire.Document) write.Draft { return readHelp(doc) })

// helpList is GET /api/human-requests.
var helpList = read.List{
	Member: "requests", Scope: read.ScopeHelp, Params: []string{"status", "agent", "q", "limit", "cursor", "brief", read.ParamFormat, "consistency", "min_index"},
	Filters: func(l *read.Params) {
		l.ReadAgents()
		l.Query.HelpStatus = read.Status(l, state.HelpStatus(0), state.HelpStatuses)
		l.Looks = l.Looks || l.Query.HelpStatus != 0
	},
	Find: func(v *view.View, l *read.Params) ([]uint64, uint64, error) { return v.ListHelp(l.Query) },
	Show: (*view.View).AppendHelps,
}

func (h *helpForm) Preview(view *view.View, cmd command.Payload) (wire.Object, error) {
	channel, err := view.ChannelOf(cmd)
	return h.Form.Preview().With(fieldChannel.Name, channel).Replace(fieldHelpTags.Name, wire.NonNil(h.newTags)).With("status", state.HelpOpen.String()), err
}

// getHelp serves GET /api/human-requests/{id}.
var getHelp = read.OneEntry("request", state.TypeHelp, (*view.View).AppendHelp)
