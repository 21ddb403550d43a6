package api

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// helpText is one of the texts of a request for human help.
type helpText struct {
	field   entryField
	least   int
	example string
}

// helpTexts are they, in the interface's order (2.5).
var helpTexts = [...]helpText{
	{entryField{"goal", nil, command.MaxHelpGoal}, command.MinHelpGoal, "Get a second opinion"},
	{entryField{"requested_action", nil, command.MaxHelpAction}, command.MinHelpAction, "Read the text below and say what is unclear."},
	{entryField{"context", nil, command.MaxHelpContext}, 0, ""},
	{entryField{"constraints", nil, command.MaxHelpBounds}, 0, ""},
}

var helpFields = []string{"agent", "goal", "requested_action", "context", "constraints", "tags", "request_id", "edit_key"}

// exampleHelp is the smallest request.
var exampleHelp = wire.Object{{"agent", exampleAgent}, {"goal", helpTexts[0].example}, {"requested_action", helpTexts[1].example}}

// helpForm is the body of POST /api/human-requests as it was sent.
type helpForm struct {
	newEntry // the fields that a request shares with an entry
	texts    [len(helpTexts)]sent
}

// readHelpForm reads and judges a request for human help.
func readHelpForm(doc *wire.Document) *helpForm {
	h := &helpForm{}
	if doc.NotObject {
		h.problems.Add("agent", "is required: the request body must be a JSON object with the text fields agent, goal and requested_action")
		return h
	}
	h.agent = h.text(doc, &plainAgent)
	h.requireAgent()
	values := make([]string, len(helpTexts))
	for i := range helpTexts {
		t := &helpTexts[i]
		h.texts[i] = h.text(doc, &t.field)
		h.bound(t.field.name, h.texts[i], t.least, t.field.most)
		values[i] = h.texts[i].value
	}
	h.tags, h.tagsGiven = h.list(doc, &plainTags)
	h.judgeTags(command.MaxHelpTags)
	h.requestID = h.text(doc, &fieldRequestID)
	h.judgeRequestID(&postRules)
	h.readKey(doc, &postRules)
	h.noteUnknown(doc, func(name string) bool { return slices.Contains(helpFields, name) })
	h.mention(values...)
	return h
}

// example is the caller's own request with its bad parts mended.
func (h *helpForm) example(now time.Time) wire.Object {
	o := wire.Object{{"agent", mendName(text.AgentName(h.agent.value), command.MaxName, exampleAgent)}}
	for i := range helpTexts {
		t := &helpTexts[i]
		mended := h.mended(t.field.name, h.texts[i], t.least, t.field.most, t.example)
		if t.least > 0 || h.texts[i].given {
			o = o.With(t.field.name, mended)
		}
	}
	if h.tagsGiven {
		o = o.With("tags", h.repairTags(command.MaxHelpTags))
	}
	if h.requestID.given {
		o = o.With("request_id", h.exampleRequestID(now))
	}
	if doc := (wire.Document{Fields: o}); readHelpForm(&doc).problems.Any() {
		return exampleHelp
	}
	return o
}

// postHumanRequest serves POST /api/human-requests.
func postHumanRequest(c *call) error {
	doc, query, err := c.bodyAndQuery()
	if err != nil {
		return err
	}
	h := readHelpForm(&doc)
	fresh := c.readFreshness(&query, &h.problems)
	from := c.identify(&h.newEntry)
	if h.problems.Any() {
		return c.refuseHelp(h)
	}
	if err := c.await(fresh); err != nil {
		return explained(err, h.example(c.srv.now()), h.cmd.Request.ID != "")
	}
	result, err := c.propose(from, &command.AskHuman{
		Author: h.author(c.srv), Tags: h.cmd.Tags,
		Goal: h.texts[0].value, Action: h.texts[1].value, Context: h.texts[2].value, Bounds: h.texts[3].value,
	})
	if err != nil {
		return explained(err, h.example(c.srv.now()), h.cmd.Request.ID != "")
	}
	if result.Outcome == command.OutcomeDuplicate {
		return c.answerHelpAgain(h, result.Entry, result.Differs)
	}
	if err := c.noteKey(&h.newEntry); err != nil {
		return err
	}
	return c.answerHelp(http.StatusCreated, result.Entry, h.notes)
}

// refuseHelp answers a request whose shape is wrong, unless its request_id was
// used before.
func (c *call) refuseHelp(h *helpForm) error {
	if h.cmd.Request.ID != "" && !h.problems.Has("agent") {
		if seq, known := c.read().Request(command.OpAskHuman, h.cmd.Request); known {
			return c.answerHelpAgain(h, seq, true)
		}
	}
	return wire.Invalid(h.problems.List, h.example(c.srv.now()))
}

// answerHelpAgain answers with the request that the request_id made before.
func (c *call) answerHelpAgain(h *helpForm, seq uint64, differs bool) error {
	note := "This request_id was used before: this is the request that it made."
	if differs {
		note = "This request_id was used before with other content: this is the request that it made, and nothing new was written."
	}
	return c.answerHelp(http.StatusOK, seq, append(h.notes, note))
}

// answerHelp answers with the request, and with its entry.
func (c *call) answerHelp(status int, seq uint64, notes []string) error {
	view, err := c.readBack()
	if err != nil {
		return err
	}
	c.out.Header.Set(fiber.HeaderLocation, "/api/entries/"+fsm.FormatID(fsm.StyleHelp, seq))
	return c.answer(status, func(dst []byte) ([]byte, error) {
		dst, err := view.AppendHelp(append(dst, `{"request":`...), seq)
		if err != nil {
			return nil, fmt.Errorf("show request %d: %w", seq, err)
		}
		if dst, err = view.AppendEntry(append(dst, `,"entry":`...), seq); err != nil {
			return nil, fmt.Errorf("show entry %d: %w", seq, err)
		}
		return appendOutcome(dst, status, notes), nil
	})
}

// helpParams are the parameters of a list of requests for human help.
var helpParams = []string{"agent", "q", "limit", "cursor", "consistency", "min_index"}

// listHumanRequests serves GET /api/human-requests.
func listHumanRequests(c *call) error {
	l, err := c.listing(helpParams, "human-requests", func(l *listing, doc *wire.Document) {
		if s := l.text(doc, "agent", maxRawName); s != "" {
			l.query.AgentKey = text.Fold(l.name("agent", text.AgentName(s), command.MaxName))
		}
		l.query.Q = l.text(doc, "q", command.MaxSearch)
	})
	if err != nil {
		return err
	}
	view := c.read()
	seqs, next, err := view.ListHelp(fsm.HelpQuery{
		AgentKey: l.query.AgentKey, Q: l.query.Q, Limit: l.query.Limit, Before: l.query.Before,
	})
	if err != nil {
		return err
	}
	return c.answerPage("requests", seqs, l.nextCursor(next), view.AppendHelps)
}
