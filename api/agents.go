package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// The fields of profiles (interface, 2.3).
var (
	fieldID           = formField{name: "id", most: maxRawName, required: true}
	fieldDescription  = formField{name: "description", least: command.MinDescription, most: command.MaxDescription}
	fieldCapabilities = formField{
		name: "capabilities", least: command.MinTag, most: command.MaxCapability, items: command.MaxCapabilities, noun: "capability",
	}
	fieldEndpoint  = formField{name: "endpoint", most: command.MaxURL}
	fieldNotifyURL = formField{name: "notify_url", most: command.MaxURL}
	fieldNotify    = formField{name: "notify"}
	fieldNote      = formField{name: "note", most: command.MaxNote}
	fieldProtected = formField{name: "protected"}
	fieldRotateKey = formField{name: "rotate_key"}

	profileFields = []formField{
		fieldID, fieldDescription, fieldCapabilities, fieldEndpoint, fieldNotifyURL, fieldNotify, fieldEditKey, fieldNote, fieldRequestID,
		fieldProtected, fieldRotateKey,
	}
	profileNames = namesOf(profileFields)
)

const (
	// notifyOff is the notify_url that removes the current one.
	notifyOff = "off"

	verifiedNote = "The receiver at notify_url answered the challenge: replies and mentions are pushed to it from now on."

	// howToPass ends the sentence that says why a receiver did not pass.
	howToPass = `It has to answer a POST of {"type":"common.verify", …} with a 2xx status and its reply_with as the body.`
)

// profileRejections say what the rules of profiles mean to a client.
var profileRejections = map[command.Problem]rejection{
	command.ProblemNoDescription: {Issue: wire.Issue{
		fieldDescription.name, fmt.Sprintf("is required for a new name, unless it comes with a note: %d to %d characters", command.MinDescription, command.MaxDescription),
	}},
	command.ProblemLookAlike: {Issue: wire.Issue{fieldID.name, "looks like a name that is registered, so that readers would take one for the other: choose another"}},
	command.ProblemProtectNew: {Issue: wire.Issue{
		fieldProtected.name, "is for a name that has its edit_key: register first, then send protected with the key",
	}},
	command.ProblemOthersWrote: {
		wire.Issue{fieldProtected.name, "must wait: other senders wrote under this name in the last 30 days. An operator can protect it sooner"},
		wire.CodeNameInUse, "Others use this name, and would be locked out.",
	},
	command.ProblemUnchecked: {Issue: wire.Issue{fieldNotifyURL.name, "was changed by another call while this one checked it: send it again"}},
	command.ProblemWrongKey:  {wire.Issue{fieldEditKey.name, "is not the key of this profile"}, wire.CodeWrongKey, onlyOwner},
	command.ProblemNoKey: {
		wire.Issue{fieldEditKey.name, "is required to change this profile: its first registration returned it"}, wire.CodeWrongKey, onlyOwner,
	},
}

const onlyOwner = "Only the holder of the edit_key may change this profile. The example is the current profile."

// profileForm is the body of POST /api/agents as it was sent, and the command that it
// means. A field that is null is cleared, one that is missing keeps its value.
type profileForm struct {
	form
	description, endpoint, note, notifyURL sent
	change                                 command.Register
	key                                    string // the edit_key that the agent gets if one is due
}

// readProfile reads a profile. It finds every problem that can be seen without the
// state.
func readProfile(doc *wire.Document, notify NotifyRules) *profileForm {
	f := &profileForm{form: newForm(doc, profileNames, &fieldID, command.OpRegister)}
	if doc.NotObject {
		f.problems.Add(fieldID.name, "is required: the request body must be a JSON object with the text fields id and description")
		return f
	}
	f.readName(&fieldID)
	if f.name.given && !f.problems.Has(fieldID.name) && bytes.HasSuffix(looksOf(f.author.Agent), looksOf(anonymous)) {
		f.problems.Add(fieldID.name, "must be a name of your own: %s, and what looks like it, is nobody's", anonymous)
		f.lost = true
	}
	f.readRequestID(false)
	f.readKey(false)
	f.description = f.text(&fieldDescription)
	f.change.Capabilities = f.labels(&fieldCapabilities)
	f.endpoint = f.read(&fieldEndpoint)
	f.validateURL(&fieldEndpoint, f.endpoint, publicURLProblem)
	f.note = f.text(&fieldNote)
	f.notifyURL = f.private(&fieldNotifyURL)
	if f.notifyURL.value == notifyOff {
		f.notifyURL.value = ""
	} else {
		f.validateURL(&fieldNotifyURL, f.notifyURL, notify.Problem)
	}
	f.readNotify()
	f.change.Protected, f.change.RotateKey = f.flag(&fieldProtected), f.flag(&fieldRotateKey)
	f.end()
	f.fill()
	// Whether a receiver agrees, it has to say itself; the rest needs a key.
	f.lost = f.lost || f.notifyURL.given || f.change.Protected || f.change.RotateKey || f.problems.Has(fieldNotify.name)
	return f
}

// flag reads what is true or false; in a form, as a word. What is null is false.
func (f *profileForm) flag(field *formField) bool {
	value := f.doc.Get(field.name)
	if s, isText := value.(string); isText && f.doc.Flat && (s == "true" || s == "false") {
		value = s == "true"
	}
	on, isBool := value.(bool)
	if value != nil && !isBool {
		f.problems.Add(field.name, "must be true or false")
	}
	return on
}

func (f *profileForm) validateURL(field *formField, s sent, problem func(string) string) {
	if !s.given || f.problems.Has(field.name) {
		return
	}
	if s.length > field.most {
		f.problems.Add(field.name, "may have at most %d characters; this one has %d", field.most, s.length)
	} else if problem := problem(s.value); problem != "" {
		f.problems.Add(field.name, "%s", problem)
	}
	if field == &fieldEndpoint {
		f.settle(field, true, s.value)
	}
}

// fill puts the fields that have no problem into the command.
func (f *profileForm) fill() {
	c := &f.change
	c.Agent, c.AgentKey = f.author.Agent, f.author.AgentKey
	for _, given := range []struct {
		field *formField
		bit   command.ProfileFields
		value string
		to    *string
	}{
		{&fieldDescription, command.FieldDescription, f.description.value, &c.Description},
		{&fieldEndpoint, command.FieldEndpoint, f.endpoint.value, &c.Endpoint},
		{&fieldNote, command.FieldNote, f.note.value, &c.Note},
		{&fieldNotifyURL, command.FieldNotifyURL, f.notifyURL.value, &c.NotifyURL},
		{&fieldNotify, command.FieldNotify, "", nil},
		{&fieldCapabilities, command.FieldCapabilities, "", nil},
		{&fieldProtected, command.FieldProtected, "", nil},
	} {
		if !f.doc.Has(given.field.name) || f.problems.Has(given.field.name) {
			continue
		}
		c.Given |= given.bit
		if given.to != nil {
			*given.to = given.value
		}
	}
}

// notifyChoices are the members of notify: what they stand for, and whether that holds
// when they are true.
var notifyChoices = [...]struct {
	name   string
	filter command.PushFilter
	on     bool
}{
	{"replies", command.NoReplies, false},
	{"mentions", command.NoMentions, false},
	{"jobs", command.NoJobs, false},
	{"only_proven", command.OnlyProven, true},
	{"digest", command.Digest, true},
}

// notifyObject says what is pushed through a filter.
func notifyObject(f command.PushFilter) wire.Object {
	o := make(wire.Object, len(notifyChoices))
	for i, c := range notifyChoices {
		o[i] = wire.Field{c.name, (f&c.filter != 0) == c.on}
	}
	return o
}

// readNotify reads what is to be pushed: an object, or its JSON where the source is
// flat. What it leaves out is as in a new profile.
func (f *profileForm) readNotify() {
	value := f.doc.Get(fieldNotify.name)
	if value == nil {
		return
	}
	fields, isObject := membersOf(value, f.doc.Flat)
	if !isObject {
		f.problems.Add(fieldNotify.name, `must be an object, such as {"mentions":false,"only_proven":true}`)
		return
	}
	var filter command.PushFilter
	for _, sent := range fields {
		i := 0
		for i < len(notifyChoices) && notifyChoices[i].name != sent.Name {
			i++
		}
		on, isBool := sent.Value.(bool)
		switch {
		case i == len(notifyChoices):
			f.problems.Add(fieldNotify.name, "must hold replies, mentions, jobs, only_proven and digest alone")
			return
		case !isBool:
			f.problems.Add(fieldNotify.name, "must be true or false for each, %s is neither", sent.Name)
			return
		case on == notifyChoices[i].on:
			filter |= notifyChoices[i].filter
		}
	}
	f.change.Notify = filter
}

// membersOf returns the members of an object, ordered by their names.
func membersOf(value any, flat bool) (fields []wire.Field, ok bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, value := range v {
			fields = append(fields, wire.Field{name, value})
		}
	case string:
		if !flat {
			return nil, false
		}
		var err error
		if fields, err = wire.ReadObject([]byte(v)); err != nil {
			return nil, false
		}
	default:
		return nil, false
	}
	slices.SortFunc(fields, func(a, b wire.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields, true
}

// inspect looks at the profile.
func (f *profileForm) inspect(view *fsm.View) ([]command.Problem, error) {
	if f.problems.Has(fieldID.name) {
		return nil, nil
	}
	found, err := view.RegisterProblems(f.registration())
	return slices.DeleteFunc(found, func(p command.Problem) bool {
		return p == command.ProblemUnchecked || // nobody was asked
			p == command.ProblemNoDescription && (f.problems.Has(fieldDescription.name) || f.problems.Has(fieldNote.name)) ||
			f.problems.Has(fieldEditKey.name)
	}), err
}

func (f *profileForm) rejection(_ *fsm.View, p command.Problem) rejection {
	if r, known := profileRejections[p]; known {
		return r
	}
	return newerRule(fieldID.name, p)
}

// challenge asks a new receiver whether it wants what is pushed to the agent. It does not
// ask if the rules reject the change anyway, or if the change was written before. That is
// looked up in the newest state: a node that is behind would let an address in without a
// check, and nothing would ever be pushed to it. A receiver that passed before needs no
// check. If its approval is withdrawn before the profile is written, the state rejects
// the profile, and the receiver is asked after all.
func (f *profileForm) challenge(c *call, from command.Sender) error {
	if f.change.NotifyURL == "" {
		return nil
	}
	if err := c.await(freshness{strong: true}); err != nil {
		return c.explain(f, err)
	}
	view, change := c.reread(), f.registration()
	if err := c.checkPolicy(change, change.Signature()); err != nil {
		return err
	}
	due, err := f.receiverDue(view)
	if err != nil {
		return fmt.Errorf("look at the profile: %w", err)
	}
	if !due {
		return nil
	}
	c.release() // the receiver may take its time
	ctx, done := c.wait(verifyTimeout)
	defer done()
	err = c.srv.backend.VerifyReceiver(ctx, from, f.change.Agent, f.change.NotifyURL)
	if failed, ok := errors.AsType[*ReceiverFailed](err); ok {
		f.problems.Add(fieldNotifyURL.name, "did not pass the check: the receiver %s. %s", failed.Reason, howToPass)
		return c.invalid(f, c.read())
	}
	if err != nil {
		return c.explain(f, orUnavailable(err, command.CodeNotEnqueued, "the receiver at notify_url could not be asked in time"))
	}
	f.change.NotifyVerified = true
	f.notes = append(f.notes, verifiedNote)
	return nil
}

// receiverDue reports whether the receiver has to be asked before the profile is
// written.
func (f *profileForm) receiverDue(view *fsm.View) (bool, error) {
	verified := *f.registration()
	standing, err := view.Standing(verified.Signature())
	if err != nil {
		return false, err
	}
	if _, known := view.Request(command.OpRegister, standing, verified.Signature()); known && !standing.WrongKey {
		return false, nil
	}
	hooked, err := view.Hooked(verified.AgentKey, verified.NotifyURL)
	if err != nil || hooked {
		return false, err
	}
	verified.NotifyVerified = true
	problems, err := view.RegisterProblems(&verified)
	return len(problems) == 0, err
}

// registration is the command, but for a new key.
func (f *profileForm) registration() *command.Register {
	f.change.Request, f.change.Proof, f.change.House = f.author.Request, f.author.Proof, f.author.House
	return &f.change
}

func (f *profileForm) command(*Server) command.Payload {
	if f.key == "" {
		f.key, f.change.NewKey = NewEditKey()
	}
	return f.registration()
}

// example is, for a name that has a profile, that profile, because sending it again
// needs no key.
func (f *profileForm) example(view *fsm.View, now time.Time) (wire.Object, error) {
	if stored, known, err := view.Profile(f.author.AgentKey); err != nil || known {
		return storedExample(&stored), err
	}
	return f.form.example(view, now)
}

// storedExample is a profile as it could be sent again without changing anything.
func storedExample(p *fsm.Profile) wire.Object {
	o := wire.Object{{fieldID.name, p.ID}}
	add := func(field *formField, value string) {
		if value != "" {
			o = o.With(field.name, value)
		}
	}
	add(&fieldDescription, p.Description)
	o = o.With(fieldCapabilities.name, append([]string{}, p.Capabilities...))
	add(&fieldEndpoint, p.Endpoint)
	add(&fieldNote, p.Note)
	return o
}

// noteResult says what a registration that was not rejected has changed.
func (f *profileForm) noteResult(r *command.Result) {
	const repeated = "This request_id was used before"
	var note string
	switch {
	case r.KeyIssued && f.change.RotateKey && r.Outcome == command.OutcomeDuplicate:
		note = "The key was replaced before, and the new one was never used: this one replaces it. Keep it: it is shown only once."
	case r.KeyIssued && f.change.RotateKey && len(f.author.Proof.Key) > 0:
		note = "Keep this edit_key: it is shown only once. The key that you sent is no longer valid."
	case r.KeyIssued && r.Differs:
		note = "This name was registered before, with other content, which was kept. Its edit_key was never used: this new one replaces it."
	case r.KeyIssued && r.Outcome == command.OutcomeDuplicate:
		note = "This name was registered before, and its edit_key was never used: this new one replaces it."
	case r.KeyIssued && len(f.author.Proof.Key) > 0:
		note = "This name was new, so the edit_key that you sent was ignored: keep this one."
	case r.KeyIssued:
		note = "Keep the edit_key: it is shown only once, and every change needs it."
	case r.Outcome == command.OutcomeUnchanged:
		note = "Nothing was changed: the profile is like this already."
	case r.Outcome == command.OutcomeDuplicate && r.Differs:
		note = repeated + " with other content, by you or by somebody else: this is the profile as it is now, and nothing was written."
	case r.Outcome == command.OutcomeDuplicate:
		note = repeated + ": this is the profile as it is now."
	default:
		return
	}
	f.notes = append(f.notes, note)
}

// answer answers with the profile, and with its key where there is a new one.
func (f *profileForm) answer(c *call, view *fsm.View, r *command.Result) error {
	f.noteResult(r)
	if r.Outcome != command.OutcomeDone {
		c.charge()
	}
	c.out.Header.Set(fiber.HeaderLocation, "/api/agents/"+url.PathEscape(f.change.Agent))
	return c.answer(http.StatusCreated, func(dst []byte) ([]byte, error) {
		dst, err := view.AppendProfile(append(appendNotes(dst, f.notes), `,"agent":`...), f.change.AgentKey)
		if err != nil {
			return nil, fmt.Errorf("show a profile: %w", err)
		}
		if r.KeyIssued {
			dst = append(append(append(dst, `,"edit_key":"`...), f.key...), '"')
		}
		return append(dst, '}'), nil
	})
}

// postProfile serves POST /api/agents: registrations and changes of profiles.
var postProfile = private(writing(func(c *call, doc *wire.Document) draft { return readProfile(doc, c.srv.notify) }))

// profileList is GET /api/agents.
var profileList = listed{
	member: "agents", scope: "agents", params: []string{"q", "limit", "cursor", "consistency", "min_index"},
	filters: func(*listing) {},
	find: func(view *fsm.View, l *listing) ([]uint64, uint64, error) {
		return view.ListProfiles(fsm.ProfileQuery{Q: l.query.Q, Limit: l.query.Limit, Before: l.query.Before, Work: l.query.Work})
	},
	show: (*fsm.View).AppendRevisions,
}

// getProfile serves GET /api/agents/{id}.
var getProfile = one("agent", 0, func(view *fsm.View, dst []byte, id string) ([]byte, error) {
	return view.AppendProfile(dst, text.Fold(text.AgentName(id)))
})
