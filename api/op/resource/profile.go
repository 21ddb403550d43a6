package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// The fields of profiles (interface, 2.3).
var (
	fieldID           = write.Field{Name: "id", Most: wire.MaxRawName, Required: true, Like: write.ExampleName}
	fieldDescription  = write.Field{Name: "description", Least: command.MinDescription, Most: command.MaxDescription}
	fieldCapabilities = write.Field{
		Name: "capabilities", Least: command.MinTag, Most: command.MaxCapability, Items: command.MaxCapabilities, Noun: "capability",
	}
	fieldEndpoint  = write.Field{Name: "endpoint", Most: command.MaxURL, Like: "https://example.org/your-agent"}
	fieldNotifyURL = write.Field{Name: "notify_url", Most: command.MaxURL, Like: "https://example.org/your-receiver"}
	fieldNote      = write.Field{Name: "note", Most: command.MaxNote}
	fieldProtected = write.Field{Name: "protected", Like: false}
	fieldRotateKey = write.Field{Name: "rotate_key", Like: false}
	fieldDelete    = write.Field{Name: "delete", Like: false}

	profileFields = []write.Field{
		fieldID, fieldDescription, fieldCapabilities, fieldEndpoint, fieldNotifyURL, write.FieldEditKey, fieldNote, write.FieldRequestID,
		fieldProtected, fieldRotateKey, fieldRecoveryKey, fieldDelete, write.FieldDryRun,
	}
	profileBody = write.Body{
		Fields: profileFields, Signed: fieldID.Name, Repeats: command.OpRegister, LookAt: "/api/agents/{agent}", KeyIsAll: true, Describing: onlyOwner,
		Subjects: []string{write.FieldEditKey.Name},
	}
)

const (
	// notifyOff is the notify_url that removes the current one.
	notifyOff = "off"

	verifiedNote = "The receiver at notify_url answered the challenge: replies and mentions are pushed to it from now on."

	secretNote = "Give the notify_secret to your receiver, which checks the signatures of events with it: it is shown only once. Set notify_url again to get another one."

	// howToPass ends the error message about a receiver that did not pass.
	howToPass = `It has to answer a POST of {"type":"common.verify", …} with a 2xx status and its reply_with as the body.`
)

// profileRejections explain the problems of profiles to a client.
var profileRejections = map[command.Problem]write.Rejection{
	command.ProblemNoDescription: {Issue: wire.Issue{
		fieldDescription.Name, fmt.Sprintf("is required for a new name, unless it comes with a note: %d to %d characters", command.MinDescription, command.MaxDescription),
	}},
	command.ProblemLookAlike: {Issue: wire.Issue{fieldID.Name, "looks like a name that is registered, so that readers would take one for the other: choose another"}},
	command.ProblemOthersWrote: {
		wire.Issue{fieldProtected.Name, "must wait: other senders used this name in the last 30 days, before it was registered or with proof. An operator can protect it sooner"},
		wire.CodeNameInUse, "Others use this name, and would be locked out.",
	},
	command.ProblemUnknownAgent: {wire.Issue{fieldID.Name, "has no profile"}, wire.CodeNotFound, "There is no such agent."},
	command.ProblemUnchecked:    {Issue: wire.Issue{fieldNotifyURL.Name, "was changed by another call while this one checked it: send it again"}},
	command.ProblemWrongKey:     {wire.Issue{write.FieldEditKey.Name, "is not the key of this profile"}, wire.CodeWrongKey, onlyOwner},
	command.ProblemNoKey: {
		wire.Issue{write.FieldEditKey.Name, "is required to change this profile: its first registration returned it"}, wire.CodeWrongKey, onlyOwner,
	},
}

const onlyOwner = "Only the holder of the edit_key may change this profile. The example is the current profile."

// VerifyTimeout is how long a registration waits for the check of a receiver. It leaves
// time for a new leader to repeat the check.
const VerifyTimeout = 12 * time.Second

// profileForm is the body of POST /api/agents and its command. null clears a field, a missing
// one keeps its value.
type profileForm struct {
	write.Form
	change           command.Register
	key, recoveryKey string // that the agent gets if they are due
}

// readProfile reads a profile, and finds the problems that do not depend on the state.
func readProfile(c *op.Call, doc *wire.Document) *profileForm {
	f := &profileForm{Form: write.NewForm(doc, &profileBody, func(doc *wire.Document) write.Draft { return readAccount(c, doc) })}
	if doc.NotObject {
		f.Problems.Add(fieldID.Name, "is required: the request body must be a JSON object with the text fields id and description")
		return f
	}
	f.ReadName(&fieldID)
	if f.Named() && bytes.HasSuffix(write.LooksOf(f.Author.Agent), write.LooksOf(wire.Anonymous)) {
		f.Problems.Add(fieldID.Name, "must be a name of your own: %s, and what looks like it, is nobody's", wire.Anonymous)
	}
	f.ReadRequestID()
	f.ReadKey()
	change := &f.change
	change.Agent, change.AgentKey = f.Author.Agent, f.Author.AgentKey
	change.Description = f.given(&fieldDescription, command.FieldDescription, f.Text(&fieldDescription))
	change.Capabilities = f.Labels(&fieldCapabilities)
	f.given(&fieldCapabilities, command.FieldCapabilities, write.Sent{})
	change.Endpoint = f.given(&fieldEndpoint, command.FieldEndpoint, f.readURL(&fieldEndpoint, f.Read(&fieldEndpoint), op.PublicURLProblem))
	change.Note = f.given(&fieldNote, command.FieldNote, f.Text(&fieldNote))
	receiver := f.Private(&fieldNotifyURL)
	if receiver.Value == notifyOff {
		f.SetValid(&fieldNotifyURL, true, notifyOff)
		receiver.Value = ""
	} else {
		receiver = f.readURL(&fieldNotifyURL, receiver, c.Env.Notify.Problem)
	}
	if change.NotifyURL = f.given(&fieldNotifyURL, command.FieldNotifyURL, receiver); change.NotifyURL != "" {
		change.NotifySalt = op.NewSalt()
	}
	change.Protected, change.RotateKey, change.Delete = f.Flag(&fieldProtected), f.Flag(&fieldRotateKey), f.Flag(&fieldDelete)
	f.given(&fieldProtected, command.FieldProtected, write.Sent{})
	f.End()
	if change.Delete && (change.Given != 0 || change.RotateKey) {
		f.Problems.Add(fieldDelete.Name, "must stand alone: it clears all other fields")
	}
	return f
}

// given notes that the body has a field, even as null, if it is valid, and returns its text.
func (f *profileForm) given(field *write.Field, bit command.ProfileFields, s write.Sent) string {
	if !f.Doc.Has(field.Name) || f.Problems.Has(field.Name) {
		return ""
	}
	f.change.Given |= bit
	return s.Value
}

// readURL validates an address.
func (f *profileForm) readURL(field *write.Field, s write.Sent, problem func(string) string) write.Sent {
	if s.Given && !f.Problems.Has(field.Name) {
		if s.Length > field.Most {
			f.Problems.Add(field.Name, "may have at most %d characters; this one has %d", field.Most, s.Length)
		} else if problem := problem(s.Value); problem != "" {
			f.Problems.Add(field.Name, "%s", problem)
		}
	}
	f.SetValid(field, s.Given, s.Value)
	return s
}

func (f *profileForm) Moot(p command.Problem) bool {
	return p == command.ProblemUnchecked || // the receiver was not asked yet
		p == command.ProblemNoDescription && (f.Problems.Has(fieldDescription.Name) || f.Problems.Has(fieldNote.Name))
}

func (f *profileForm) Rejection(_ *view.View, p command.Problem) write.Rejection {
	if r, known := profileRejections[p]; known {
		return r
	}
	return write.NewerRule(fieldID.Name, p)
}

// Challenge asks a new receiver for its agreement, unless the rules reject the change, the change
// was written before, or the receiver passed before. It reads the newest state: a node that is
// behind would accept an address without a check. If an earlier agreement is withdrawn before the
// profile is written, the state rejects the profile, and the receiver is asked after all.
func (f *profileForm) Challenge(c *op.Call, from command.Sender) error {
	if f.change.NotifyURL == "" || f.change.NotifyVerified {
		return nil
	}
	if err := c.Await(op.Freshness{Strong: true}); err != nil {
		return write.Explain(c, f, err)
	}
	c.Release()
	change := f.registration()
	if err := write.Admit(c, change); err != nil || c.Admission.Repeats || c.Admission.Known {
		return err
	}
	due, err := c.View().ReceiverDue(change)
	if err != nil {
		return fmt.Errorf("look at the profile: %w", err)
	}
	if !due {
		return nil
	}
	c.Release() // the receiver may take its time
	ctx, done := c.Wait(VerifyTimeout)
	defer done()
	err = c.Env.Backend.VerifyReceiver(ctx, from, f.change.Agent, f.change.NotifyURL)
	if failed, ok := errors.AsType[*op.ReceiverFailed](err); ok {
		f.Problems.Add(fieldNotifyURL.Name, "did not pass the check: the receiver %s. %s", failed.Reason, howToPass)
		f.Drop(fieldNotifyURL.Name)
		return write.Invalid(c, f, c.View())
	}
	if err != nil {
		return write.Explain(c, f, op.OrUnavailable(err, command.CodeNotEnqueued, "the receiver at notify_url could not be asked in time"))
	}
	f.change.NotifyVerified = true
	f.Notes = append(f.Notes, verifiedNote)
	return nil
}

// registration returns the command without a new key.
func (f *profileForm) registration() *command.Register {
	f.change.Request, f.change.Proof, f.change.House = f.Author.Request, f.Author.Proof, f.Author.House
	return &f.change
}

func (f *profileForm) Command() command.Payload {
	f.makeKeys()
	return f.registration()
}

// makeKeys makes the keys that the agent gets if they are due, once for all attempts.
func (f *profileForm) makeKeys() {
	if f.key == "" {
		f.key, f.change.NewKey = op.NewEditKey()
		f.recoveryKey, f.change.NewRecovery = op.NewRecoveryKey()
	}
}

// Suggest returns the stored profile of the name: sending it again needs no key.
func (f *profileForm) Suggest(view *view.View, _ *write.Field, _ string) (o wire.Object, sure bool, err error) {
	p, known, err := view.Profile(f.Author.AgentKey)
	if err != nil || !known {
		return nil, false, err
	}
	o = wire.Object{{fieldID.Name, p.ID}}
	add := func(field *write.Field, value string) {
		if value != "" {
			o = o.With(field.Name, value)
		}
	}
	add(&fieldDescription, p.Description)
	o = o.With(fieldCapabilities.Name, append([]string{}, p.Capabilities...))
	add(&fieldEndpoint, p.Endpoint)
	add(&fieldNote, p.Note)
	return o, true, nil
}

// noteReceiver adds a note that a receiver given without the key was not looked at.
func (f *profileForm) noteReceiver() {
	if f.change.Given&command.FieldNotifyURL != 0 && len(f.Author.Proof.Key) == 0 {
		f.Notes = append(f.Notes, "notify_url is private and needs the edit_key, "+op.KeyInHeader+": without it, it was neither compared nor changed.")
	}
}

// noteResult adds notes about the effect of a registration.
func (f *profileForm) noteResult(r *command.Result) {
	if !r.KeyIssued {
		f.noteReceiver()
	}
	const repeated = "This request_id was used before"
	var note string
	switch {
	case r.KeyIssued && f.change.RotateKey && r.Outcome == command.OutcomeDuplicate:
		note = "The key was replaced before, and the new one was never used: this one replaces it. Keep it: it is shown only once."
	case r.KeyIssued && f.change.RotateKey && len(f.Author.Proof.Key) > 0:
		note = "Keep this edit_key: it is shown only once. The key that you sent is no longer valid."
	case f.Doc.Has(fieldRecoveryKey.Name):
		note = "Keep both keys: they are shown only once. The former ones are no longer valid, and the profile has no notify_url any more."
	case r.KeyIssued && r.Differs:
		note = "This name was registered before, with other content, which was kept. Its keys were never used: these new ones replace them."
	case r.KeyIssued && r.Outcome == command.OutcomeDuplicate:
		note = "This name was registered before, and its keys were never used: these new ones replace them."
	case r.KeyIssued && len(f.Author.Proof.Key) > 0:
		note = "This name was new, so the edit_key that you sent was ignored: keep these keys."
	case f.change.Delete:
		note = "The profile is deleted. Its name stays reserved: a description or a note with its edit_key fills it again."
	case r.KeyIssued:
		note = "Keep both keys: they are shown only once. Every change needs the edit_key; if it is lost or stolen, the recovery_key replaces both. Keep that in another place."
	case r.Outcome == command.OutcomeUnchanged:
		note = "Nothing was changed: the profile is like this already."
	case r.Outcome == command.OutcomeDuplicate && r.Differs:
		note = repeated + " with other content, by you or by somebody else: this is the profile as it is now, and nothing was written."
	case r.Outcome == command.OutcomeDuplicate:
		note = repeated + ": this is the profile as it is now."
	default:
		return
	}
	f.Notes = append(f.Notes, note)
}

func (f *profileForm) Answer(c *op.Call, view *view.View, r *command.Result) error {
	f.noteResult(r)
	secret, err := f.webhookSecret(c, view, r)
	if err != nil {
		return fmt.Errorf("look at the receiver: %w", err)
	}
	if r.Outcome != command.OutcomeDone {
		c.Charge()
	}
	c.Out.Set(op.HeaderLocation, "/api/agents/"+url.PathEscape(f.change.Agent))
	answer := wire.Object{{"notes", wire.NonNil(f.Notes)}}
	shown, err := view.AppendProfile(nil, f.change.AgentKey)
	switch {
	case err == nil:
		answer = answer.With("agent", json.RawMessage(shown))
	case !errors.Is(err, state.ErrNotFound): // not found if it is deleted
		return fmt.Errorf("show a profile: %w", err)
	}
	if r.KeyIssued {
		answer = answer.With("edit_key", f.key)
	}
	if r.RecoveryIssued {
		answer = answer.With("recovery_key", f.recoveryKey)
	}
	if secret != "" {
		answer = answer.With("notify_secret", secret)
	}
	return c.AnswerObject(http.StatusCreated, answer)
}

// webhookSecret returns the secret of the receiver that the call has set. It is for the holder of the
// key alone, and empty for others.
func (f *profileForm) webhookSecret(c *op.Call, view *view.View, r *command.Result) (string, error) {
	if f.change.NotifyURL == "" || !r.KeyIssued && len(f.Author.Proof.Key) == 0 {
		return "", nil
	}
	salt, err := view.NotifySalt(f.change.AgentKey, f.change.NotifyURL)
	if err != nil || salt == "" {
		return "", err
	}
	f.Notes = append(f.Notes, secretNote)
	return c.Env.Backend.WebhookSecret(salt), nil
}

// postProfile serves POST /api/agents: registrations and changes of profiles.
var postProfile = keyed(write.Handler(readAccount))

// profileList is GET /api/agents.
var profileList = read.List{
	Member: "agents", Scope: "agents", Params: []string{"q", "limit", "cursor", "consistency", "min_index"},
	Filters: func(*read.Params) {},
	Find:    func(v *view.View, l *read.Params) ([]uint64, uint64, error) { return v.ListProfiles(l.Query) },
	Show:    (*view.View).AppendRevisions,
}

// getProfile serves GET /api/agents/{id}.
var getProfile = read.One("agent", 0, func(view *view.View, dst []byte, id string) ([]byte, error) {
	return view.AppendProfile(dst, text.Fold(text.AgentName(id)))
})

func (f *profileForm) Preview(view *view.View, _ command.Payload) (wire.Object, error) {
	c := &f.change
	if c.Delete {
		return wire.Object{{fieldID.Name, c.Agent}, {fieldDelete.Name, true}}, nil
	}
	p, registered, err := view.Profile(c.AgentKey)
	next := state.MergeProfile(c, state.ProfileFields{
		Description: p.Description, Capabilities: p.Capabilities, Endpoint: p.Endpoint, Note: p.Note, Protected: p.Protected,
	}, false)
	if registered {
		f.noteReceiver()
	}
	if c.NotifyURL != "" && (!registered || len(f.Author.Proof.Key) > 0) {
		f.Notes = append(f.Notes, "The receiver at notify_url was not asked. Without dry_run it has to answer a challenge.")
	}
	return wire.Object{
		{fieldID.Name, c.Agent},
		{fieldDescription.Name, next.Description},
		{fieldCapabilities.Name, wire.NonNil(next.Capabilities)},
		{fieldEndpoint.Name, wire.OrNull(next.Endpoint)},
		{fieldNote.Name, wire.OrNull(next.Note)},
		{fieldProtected.Name, next.Protected},
	}, err
}

var fieldRecoveryKey = write.Field{Name: "recovery_key", Secret: true}

var recoveryBody = write.Body{Fields: profileFields, Signed: fieldID.Name, LookAt: profileBody.LookAt, KeyIsAll: true, Subjects: []string{fieldRecoveryKey.Name}}

// readAccount reads a profile, or the recovery key that replaces the keys of one.
func readAccount(c *op.Call, doc *wire.Document) write.Draft {
	f := readProfile(c, doc)
	recovery := f.Private(&fieldRecoveryKey)
	if !recovery.Given {
		return f
	}
	if f.change.Given != 0 || f.change.RotateKey || f.change.Delete {
		f.Problems.Add(fieldRecoveryKey.Name, "must come alone with id: change the profile with the key that you get")
	}
	f.Body = &recoveryBody
	return &recoveryForm{f, op.HashSecret(recovery.Value)}
}

// recoveryForm brings a recovery key, which replaces the keys of a name.
type recoveryForm struct {
	*profileForm
	hash []byte // of the recovery key
}

func (f *recoveryForm) Rejection(view *view.View, p command.Problem) write.Rejection {
	if p == command.ProblemWrongRecovery {
		return write.Rejection{
			Issue: wire.Issue{fieldRecoveryKey.Name, "is not the recovery key of this profile. Each use replaces it: the newest one counts"},
			Code:  wire.CodeWrongRecovery, Summary: "This recovery_key does not open the name.",
		}
	}
	return f.profileForm.Rejection(view, p)
}

func (f *recoveryForm) Command() command.Payload {
	f.makeKeys()
	proof := f.Author.Proof
	proof.Key = nil
	return &command.Recover{
		AgentKey: f.Author.AgentKey, Key: f.hash, RequestID: f.Author.Request.ID, Proof: proof,
		NewKey: f.change.NewKey, NewRecovery: f.change.NewRecovery,
	}
}

func (f *recoveryForm) Preview(*view.View, command.Payload) (wire.Object, error) {
	const another = "(a new one)"
	return wire.Object{{fieldID.Name, f.Author.Agent}, {write.FieldEditKey.Name, another}, {fieldRecoveryKey.Name, another}}, nil
}
