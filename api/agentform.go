package api

import (
	"slices"
	"time"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// The fields of profiles, which have no synonyms (interface, 2.3).
var (
	fieldID           = entryField{"id", nil, maxRawName}
	fieldDescription  = entryField{"description", nil, command.MaxDescription}
	fieldCapabilities = entryField{"capabilities", nil, command.MaxCapability}
	fieldEndpoint     = entryField{"endpoint", nil, command.MaxURL}
	fieldNotifyURL    = entryField{"notify_url", nil, command.MaxURL}
	agentFields       = []string{
		"id", "description", "capabilities", "endpoint", "notify_url", "notify", "edit_key", "note", "request_id",
	}
)

// notifyOff is the notify_url that removes the current one.
const notifyOff = "off"

const exampleDescription = "Answers questions about tides."

// exampleProfile is the smallest new profile.
var exampleProfile = wire.Object{{"id", exampleAgent}, {"description", exampleDescription}}

// agentForm is the body of POST /api/agents as it was sent and what it comes to.
type agentForm struct {
	newEntry // the fields that a profile shares with an entry; capabilities are its tags
	change   command.Register

	description, endpoint, note, notifyURL sent
	notify                                 command.PushFilter
}

// readAgentForm reads and judges a profile. It finds every problem that can be
// seen without the state. A field that is null is cleared, one that is missing
// keeps its value.
func readAgentForm(doc *wire.Document, notify NotifyRules) *agentForm {
	f := &agentForm{}
	if doc.NotObject {
		f.problems.Add("id", "is required: the request body must be a JSON object with the text fields id and description")
		return f
	}
	f.agent = f.text(doc, &fieldID)
	f.requireName(fieldID.name)
	if f.agent.given && f.cmd.AgentKey == anonymous && !f.problems.Has(fieldID.name) {
		f.problems.Add(fieldID.name, "must be a name of your own: %s is nobody's", anonymous)
	}
	f.requestID = f.text(doc, &fieldRequestID)
	f.judgeRequestID(&postRules)
	f.readKey(doc, &postRules)
	f.description = f.text(doc, &fieldDescription)
	if f.description.given {
		f.bound("description", f.description, command.MinDescription, command.MaxDescription)
	}
	f.tags, f.tagsGiven = f.list(doc, &fieldCapabilities)
	f.judgeLabels(fieldCapabilities.name, "capability", command.MaxCapabilities)
	f.endpoint = f.text(doc, &fieldEndpoint)
	f.judgeURL(&fieldEndpoint, f.endpoint, publicURLProblem)
	f.note = f.text(doc, &fieldNote)
	f.bound("note", f.note, 0, command.MaxNote)
	if f.notifyURL = f.private(doc, &fieldNotifyURL); f.notifyURL.value != notifyOff {
		f.judgeURL(&fieldNotifyURL, f.notifyURL, notify.Problem)
	}
	f.readNotify(doc)
	f.noteUnknown(doc, func(name string) bool { return slices.Contains(agentFields, name) })
	f.fill(doc)
	return f
}

func (f *agentForm) judgeURL(field *entryField, s sent, problem func(string) string) {
	if !s.given || f.problems.Has(field.name) {
		return
	}
	if s.length > command.MaxURL {
		f.problems.Add(field.name, "may have at most %d characters; this one has %d", command.MaxURL, s.length)
	} else if why := problem(s.value); why != "" {
		f.problems.Add(field.name, "%s", why)
	}
}

// fill makes the command of the fields that have no problem.
func (f *agentForm) fill(doc *wire.Document) {
	f.change = command.Register{Agent: f.cmd.Agent, AgentKey: f.cmd.AgentKey}
	give := func(field *entryField, bit command.ProfileFields, value string, to *string) {
		if doc.Has(field.name) && !f.problems.Has(field.name) {
			f.change.Given |= bit
			*to = value
		}
	}
	give(&fieldDescription, command.FieldDescription, f.description.value, &f.change.Description)
	give(&fieldEndpoint, command.FieldEndpoint, f.endpoint.value, &f.change.Endpoint)
	give(&fieldNote, command.FieldNote, f.note.value, &f.change.Note)
	notify := f.notifyURL.value
	if notify == notifyOff {
		notify = ""
	}
	give(&fieldNotifyURL, command.FieldNotifyURL, notify, &f.change.NotifyURL)
	if doc.Has(fieldNotify.name) && !f.problems.Has(fieldNotify.name) {
		f.change.Given |= command.FieldNotify
		f.change.Notify = f.notify
	}
	if doc.Has(fieldCapabilities.name) && !f.problems.Has(fieldCapabilities.name) {
		f.change.Given |= command.FieldCapabilities
		f.change.Capabilities = f.cmd.Tags
	}
}

// example is a payload that works: for a name that has a profile, that profile,
// because sending it again needs no key; else the caller's own with its bad
// parts mended. It never holds a key, nor a notify_url: whether that works, its
// receiver has to say.
func (f *agentForm) example(view *fsm.View, now time.Time) (wire.Object, error) {
	id := mendName(text.AgentName(f.agent.value), command.MaxName, exampleAgent)
	if text.Fold(id) == anonymous {
		id = exampleAgent
	}
	stored, known, err := view.Profile(text.Fold(id))
	if err != nil {
		return nil, err
	}
	if known {
		return storedExample(&stored), nil
	}
	o := wire.Object{{"id", id}}
	note := f.mended("note", f.note, 0, command.MaxNote, "")
	if f.description.given || note == "" {
		o = o.With("description", f.mended("description", f.description, command.MinDescription, command.MaxDescription, exampleDescription))
	}
	if f.tagsGiven {
		o = o.With("capabilities", f.repairTags(command.MaxCapabilities))
	}
	if f.endpoint.given && !f.problems.Has("endpoint") {
		o = o.With("endpoint", f.endpoint.value)
	}
	if note != "" {
		o = o.With("note", note)
	}
	if f.requestID.given {
		o = o.With("request_id", f.exampleRequestID(now))
	}
	if doc := (wire.Document{Fields: o}); readAgentForm(&doc, NotifyRules{}).problems.Any() {
		return wire.Object{{"id", id}, {"description", exampleDescription}}, nil
	}
	return o, nil
}

// storedExample is a profile as it could be sent again without changing anything.
func storedExample(p *fsm.Profile) wire.Object {
	o := wire.Object{{"id", p.ID}}
	if p.Description != "" {
		o = o.With("description", p.Description)
	}
	capabilities := make([]any, len(p.Capabilities))
	for i, s := range p.Capabilities {
		capabilities[i] = s
	}
	o = o.With("capabilities", capabilities)
	if p.Endpoint != "" {
		o = o.With("endpoint", p.Endpoint)
	}
	if p.Note != "" {
		o = o.With("note", p.Note)
	}
	if doc := (wire.Document{Fields: o}); readAgentForm(&doc, NotifyRules{}).problems.Any() {
		return wire.Object{{"id", p.ID}} // it was stored under other rules
	}
	return o
}
