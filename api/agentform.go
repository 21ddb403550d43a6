package api

import (
	"slices"
	"time"

	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/text"
)

// The fields of profiles, which have no synonyms (interface, 2.3).
var (
	fieldID           = entryField{"id", nil, maxRawName}
	fieldDescription  = entryField{"description", nil, fsm.MaxDescription}
	fieldCapabilities = entryField{"capabilities", nil, fsm.MaxCapability}
	fieldEndpoint     = entryField{"endpoint", nil, fsm.MaxURL}
	fieldNotifyURL    = entryField{"notify_url", nil, fsm.MaxURL}
	agentFields       = []string{
		"id", "description", "capabilities", "endpoint", "notify_url", "notify", "edit_key", "note", "request_id",
	}
)

// notifyOff is the notify_url that removes the current one.
const notifyOff = "off"

const exampleDescription = "Answers questions about tides."

// exampleProfile is the smallest new profile.
var exampleProfile = object{{"id", exampleAgent}, {"description", exampleDescription}}

// agentForm is the body of POST /api/agents as it was sent and what it comes to.
type agentForm struct {
	newEntry // the fields that a profile shares with an entry; capabilities are its tags
	change   fsm.Register

	description, endpoint, note, notifyURL sent
	notify                                 fsm.PushFilter
}

// readAgentForm reads and judges a profile. It finds every problem that can be
// seen without the state. A field that is null is cleared, one that is missing
// keeps its value.
func readAgentForm(doc *document, notify NotifyRules) *agentForm {
	f := &agentForm{}
	if doc.notObject {
		f.problems.add("id", "is required: the request body must be a JSON object with the text fields id and description")
		return f
	}
	f.agent = f.text(doc, &fieldID)
	f.requireName(fieldID.name)
	if f.agent.given && f.cmd.AgentKey == anonymous && !f.problems.has(fieldID.name) {
		f.problems.add(fieldID.name, "must be a name of your own: %s is nobody's", anonymous)
	}
	f.requestID = f.text(doc, &fieldRequestID)
	f.judgeRequestID(&postRules)
	f.readKey(doc, &postRules)
	f.description = f.text(doc, &fieldDescription)
	if f.description.given {
		f.bound("description", f.description, fsm.MinDescription, fsm.MaxDescription)
	}
	f.tags, f.tagsGiven = f.list(doc, &fieldCapabilities)
	f.judgeLabels(fieldCapabilities.name, "capability", fsm.MaxCapabilities)
	f.endpoint = f.text(doc, &fieldEndpoint)
	f.judgeURL(&fieldEndpoint, f.endpoint, publicURLProblem)
	f.note = f.text(doc, &fieldNote)
	f.bound("note", f.note, 0, fsm.MaxNote)
	if f.notifyURL = f.private(doc, &fieldNotifyURL); f.notifyURL.value != notifyOff {
		f.judgeURL(&fieldNotifyURL, f.notifyURL, notify.Problem)
	}
	f.readNotify(doc)
	f.noteUnknown(doc, func(name string) bool { return slices.Contains(agentFields, name) })
	f.fill(doc)
	return f
}

func (f *agentForm) judgeURL(field *entryField, s sent, problem func(string) string) {
	if !s.given || f.problems.has(field.name) {
		return
	}
	if s.length > fsm.MaxURL {
		f.problems.add(field.name, "may have at most %d characters; this one has %d", fsm.MaxURL, s.length)
	} else if why := problem(s.value); why != "" {
		f.problems.add(field.name, "%s", why)
	}
}

// fill makes the command of the fields that have no problem.
func (f *agentForm) fill(doc *document) {
	f.change = fsm.Register{Agent: f.cmd.Agent, AgentKey: f.cmd.AgentKey}
	give := func(field *entryField, bit fsm.ProfileFields, value string, to *string) {
		if doc.has(field.name) && !f.problems.has(field.name) {
			f.change.Given |= bit
			*to = value
		}
	}
	give(&fieldDescription, fsm.FieldDescription, f.description.value, &f.change.Description)
	give(&fieldEndpoint, fsm.FieldEndpoint, f.endpoint.value, &f.change.Endpoint)
	give(&fieldNote, fsm.FieldNote, f.note.value, &f.change.Note)
	notify := f.notifyURL.value
	if notify == notifyOff {
		notify = ""
	}
	give(&fieldNotifyURL, fsm.FieldNotifyURL, notify, &f.change.NotifyURL)
	if doc.has(fieldNotify.name) && !f.problems.has(fieldNotify.name) {
		f.change.Given |= fsm.FieldNotify
		f.change.Notify = f.notify
	}
	if doc.has(fieldCapabilities.name) && !f.problems.has(fieldCapabilities.name) {
		f.change.Given |= fsm.FieldCapabilities
		f.change.Capabilities = f.cmd.Tags
	}
}

// example is a payload that works: for a name that has a profile, that profile,
// because sending it again needs no key; else the caller's own with its bad
// parts mended. It never holds a key, nor a notify_url: whether that works, its
// receiver has to say.
func (f *agentForm) example(view *fsm.View, now time.Time) (object, error) {
	id := mendName(text.AgentName(f.agent.value), fsm.MaxName, exampleAgent)
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
	o := object{{"id", id}}
	note := f.mended("note", f.note, 0, fsm.MaxNote, "")
	if f.description.given || note == "" {
		o = o.with("description", f.mended("description", f.description, fsm.MinDescription, fsm.MaxDescription, exampleDescription))
	}
	if f.tagsGiven {
		o = o.with("capabilities", f.repairTags(fsm.MaxCapabilities))
	}
	if f.endpoint.given && !f.problems.has("endpoint") {
		o = o.with("endpoint", f.endpoint.value)
	}
	if note != "" {
		o = o.with("note", note)
	}
	if f.requestID.given {
		o = o.with("request_id", f.exampleRequestID(now))
	}
	if doc := (document{fields: o.fields()}); readAgentForm(&doc, NotifyRules{}).problems.any() {
		return object{{"id", id}, {"description", exampleDescription}}, nil
	}
	return o, nil
}

// storedExample is a profile as it could be sent again without changing anything.
func storedExample(p *fsm.Profile) object {
	o := object{{"id", p.ID}}
	if p.Description != "" {
		o = o.with("description", p.Description)
	}
	capabilities := make([]any, len(p.Capabilities))
	for i, s := range p.Capabilities {
		capabilities[i] = s
	}
	o = o.with("capabilities", capabilities)
	if p.Endpoint != "" {
		o = o.with("endpoint", p.Endpoint)
	}
	if p.Note != "" {
		o = o.with("note", p.Note)
	}
	if doc := (document{fields: o.fields()}); readAgentForm(&doc, NotifyRules{}).problems.any() {
		return object{{"id", p.ID}} // it was stored under other rules
	}
	return o
}
