// Package write is the path of all writes: a Form reads the fields of a body and collects
// their problems, Prepare ends the first half of a handler, and then the policy of the
// moderators is checked and the command proposed. Each rejection has an example that is
// accepted, and a dry run stops before the command is proposed.
package write

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/trace"
)

// Handler is the handler of a write whose draft is read from the body.
func Handler(read func(c *op.Call, doc *wire.Document) Draft) op.Handler {
	return func(c *op.Call) (op.Task, error) {
		doc, err := c.Body()
		if err != nil {
			return op.Task{}, err
		}
		pairs, err := c.Query()
		if err != nil {
			return op.Task{}, err
		}
		query, _ := wire.FoldPairs(pairs)
		query.Canonical(inURL)
		TakeDryRun(&doc, pairs)
		draft := read(c, &doc)
		if ignored := NotInURL(pairs); len(ignored) > 0 {
			f := draft.Shared()
			f.Notes = append(f.Notes, "Parameters of the URL were ignored: "+wire.ShownNames(ignored)+". Send fields in the body.")
		}
		return Prepare(c, draft, &query)
	}
}

// inURL are the parameters that the URL of a write may have.
var inURL = append([]string{FieldDryRun.Name}, op.FreshnessParams...)

// NotInURL returns the parameters of the URL of a write that belong into its body.
func NotInURL(pairs []wire.Pair) (wrong []wire.Field) {
	for _, p := range pairs {
		if field, _ := wire.Means(p.Name, inURL); field == "" {
			wrong = append(wrong, wire.Field{p.Name, p.Value})
		}
	}
	return wrong
}

// Draft is a parsed write.
type Draft interface {
	// Shared returns the part that all writes have.
	Shared() *Form
	// Moot reports whether a problem of the state adds nothing to those that the draft already has.
	Moot(p command.Problem) bool
	// Rejection explains a problem of the state to the client.
	Rejection(view *view.View, p command.Problem) Rejection
	// Suggest returns members of an example that the state knows, or nil: one for a field that holds
	// a reference, in place of the sent id or of none, and without a field a whole example. A whole
	// example for a field has other members, too. sure means that the client need not confirm it.
	Suggest(view *view.View, field *Field, sent string) (o wire.Object, sure bool, err error)
	// Challenge asks others for their agreement to a draft without problems.
	Challenge(c *op.Call, from command.Sender) error
	// Command returns the command that the valid fields of the draft make, or nil if it would have no effect.
	Command() command.Payload
	// Preview returns the fields that a command without problems would write.
	Preview(view *view.View, cmd command.Payload) (wire.Object, error)
	// Answer answers with the result of the write, which the view holds.
	Answer(c *op.Call, view *view.View, r *command.Result) error
}

// Rejection is one reason why the state rejects a write.
type Rejection = struct {
	wire.Issue
	// Code and Summary are those of the error if this is the first reason. Empty means the
	// error of invalid fields.
	Code    command.Code
	Summary string
}

// curable are the problems that the same caller can solve for the same job or entry.
var curable = []command.Problem{command.ProblemUnknownTarget, command.ProblemUnknownJob, command.ProblemUnchecked, command.ProblemWrongKey}

// NewerRule returns the rejection for an unknown problem.
func NewerRule(field string, p command.Problem) Rejection {
	return Rejection{Issue: wire.Issue{field, fmt.Sprintf("was rejected by a rule of a newer version (%d)", p)}}
}

// NoEntry returns the rejection for the id of an entry that does not exist.
func NoEntry(view *view.View, field, id string) Rejection {
	issue := wire.Issue{field, "names no entry that exists: GET /api/entries lists them"}
	if near, err := op.NearID(view, id, state.TypeEntry); err == nil && near != "" {
		issue.Message += "; there is " + near
	}
	return Rejection{Issue: issue}
}

// Prepare ends the first half of every write.
func Prepare(c *op.Call, d Draft, query *wire.Document) (op.Task, error) {
	if c.KeyErr != nil {
		return op.Task{}, c.KeyErr
	}
	f := d.Shared()
	c.Complete = func(rejection *wire.Error) error {
		if rejection.Code == wire.CodeInvalid { // a key in the URL
			rejection.Issues = append(rejection.Issues, f.Problems.List...)
			rejection.Message = wire.CountProblems(rejection.Issues)
		}
		return addExample(c, rejection, d, c.View())
	}
	fresh := c.ReadFreshness(query, &f.Problems)
	from := identify(c, f)
	run := func() error {
		if f.DryRun {
			if err := c.WithinBudget(c.Env.Guard.DryRuns, "dry-runs", "Too many dry runs from your address."); err != nil {
				return Explain(c, d, err)
			}
			c.UseBudget(c.Env.Guard.DryRuns, 1)
		}
		switch {
		case f.Problems.Any():
			return decline(c, d)
		case f.DryRun:
			return answerDryRun(c, d)
		}
		return carryOut(c, d, from)
	}
	return op.Task{Fresh: fresh, Run: run, Explain: func(err error) error { return Explain(c, d, err) }}, nil
}

// decline is the second half of a write whose draft has problems. The answer also lists the
// problems that the state finds. If the request_id was used before, it is the earlier result.
func decline(c *op.Call, d Draft) error {
	f, view := d.Shared(), c.View()
	if f.Body.Repeats != 0 && f.Reason.Code == "" && !f.DryRun && f.Author.Request.ID != "" && !f.Problems.Has(f.Body.Signed) {
		seq, known, err := view.Earlier(f.Body.Repeats, f.Author.Signature())
		if err != nil {
			return fmt.Errorf("look at the name: %w", err)
		}
		if known {
			earlier := command.Result{Outcome: command.OutcomeDuplicate, Entry: seq, Differs: true}
			return answerWrite(c, d, &earlier)
		}
	}
	found, err := inspect(d, view)
	if err != nil {
		return fmt.Errorf("look for problems: %w", err)
	}
	Reject(d, view, found)
	return Invalid(c, d, view)
}

// identify finds the sender of a write, and the scope of its request_id.
func identify(c *op.Call, f *Form) command.Sender {
	from := command.Sender{Fingerprint: c.Env.Backend.Fingerprint(c.Sender()), AgentKey: f.Author.AgentKey}
	f.Author.House = c.Env.House[from.AgentKey]
	c.House = f.Author.House
	c.Notes = append(c.Notes, f.Notes...)
	scope := from.AgentKey
	if scope == wire.Anonymous {
		from.AgentKey, scope = "", command.AnonymousScope
	}
	if f.Doc.MessageID != "" {
		scope = messageScope + scope
	}
	if f.Author.Request.ID != "" {
		f.Author.Request.Scope = scope
	}
	Prove(c, f, from)
	return from
}

// Reject adds to a draft the problems that the state finds, and returns the first one.
func Reject(d Draft, view *view.View, found []command.Problem) (first Rejection) {
	for i, p := range found {
		r, isName := nameRejections[p]
		f := d.Shared()
		if !isName || f.Body.KeyIsAll {
			r = d.Rejection(view, p)
		}
		if i == 0 {
			first = r
		}
		f.Problems.Add(r.Field, "%s", r.Message)
		switch {
		case slices.Contains(keyProblems, p) && f.takesPlaceholder():
		case p == command.ProblemWrongKey && f.Body.InURL:
			f.Unsure(FieldEditKey.Name)
		case !slices.Contains(curable, p):
			f.incurable = true
			if r.Field == FieldEditKey.Name && !f.Body.NeedsKey { // another name needs no key
				f.Drop(f.Body.Signed)
				f.Unsure(f.Body.Signed)
			}
		}
	}
	return first
}

// Invalid returns the error of a draft with problems.
func Invalid(c *op.Call, d Draft, view *view.View) error {
	f := d.Shared()
	rejection := &wire.Error{Code: wire.CodeInvalid, Message: wire.CountProblems(f.Problems.List), Issues: f.Problems.List}
	if f.Reason.Code != "" {
		rejection.Code, rejection.Message = f.Reason.Code, f.Reason.Summary
	}
	if err := addExample(c, rejection, d, view); err != nil {
		return err
	}
	if len(rejection.Example) > 0 && (f.Body.Describing == "" || f.Reason.Summary != f.Body.Describing) {
		rejection.Message += wire.ExampleWorks
	}
	return rejection
}

// addExample puts the example of a write into its rejection. Errors of other statuses
// get one only if a corrected form of the same request would be accepted.
func addExample(c *op.Call, rejection *wire.Error, d Draft, view *view.View) error {
	f, needed := d.Shared(), op.NeedsExample[rejection.Status()]
	if f.Problems.Any() {
		known, _, err := d.Suggest(view, nil, "")
		if err != nil {
			return fmt.Errorf("make an example: %w", err)
		}
		if rejection.Example = known; known != nil || !needed && f.incurable {
			return nil
		}
	}
	example, notes, err := ExampleOf(d, view, c.Env.Now(), needed)
	if len(example) == 0 && needed { // the write has no required fields
		example = wire.Object{{FieldDryRun.Name, false}}
	}
	rejection.Example = example
	c.Notes = append(c.Notes, notes...)
	return err
}

// Explain adds to an error of the cluster the request as an example, and whether it may be
// repeated: with a request_id always.
func Explain(c *op.Call, d Draft, err error) error {
	rejection := op.ToError(err)
	if rejection == nil {
		return err
	}
	if rejection.Code == wire.CodeBlocked || rejection.Code == wire.CodeFrozen {
		return rejection
	}
	if err := addExample(c, rejection, d, c.View()); err != nil {
		return err
	}
	if rejection.Code != command.CodeOutcomeUnknown {
		return rejection
	}
	f := d.Shared()
	if f.Body.Harmless {
		rejection.Repeatable = true
		rejection.Message += " It may have been written. Send it again as it is: nothing is written twice."
		return rejection
	}
	if rejection.Repeatable = f.Author.Request.ID != ""; rejection.Repeatable {
		rejection.Message += " It may have been written. Send it again as it is: its key keeps it from being written twice, and the answer contains the result."
		return rejection
	}
	rejection.Message += " It may have been written. Look first: GET " + f.LookAt() + ". Send it again only if it is not there, with a request_id, which makes that safe."
	rejection.Example = wire.Object{}
	return rejection
}

// maxProposals bounds how often a write is proposed. It is judged and proposed again if what it was
// judged by had changed when it was applied.
const maxProposals = 5

// again are the problems after which a write is judged and proposed again.
var again = []command.Problem{command.ProblemOldPolicy, command.ProblemUnchecked, command.ProblemNoneLeft}

// carryOut is the second half of every write.
func carryOut(c *op.Call, d Draft, from command.Sender) error {
	var result command.Result
	for tries := 1; ; tries++ {
		if err := d.Challenge(c, from); err != nil {
			return err
		}
		cmd := d.Command()
		if cmd == nil {
			return answerWrite(c, d, &command.Result{Outcome: command.OutcomeUnchanged})
		}
		err := Admit(c, cmd)
		switch {
		case err != nil:
		case c.Admission.Repeats:
			c.Index = c.View().Index()
			return answerWrite(c, d, &c.Admission.Earlier)
		case len(c.Admission.Lost) > 0:
			c.Charge()
			result = command.Result{Outcome: command.OutcomeRejected, Problems: c.Admission.Lost}
		default:
			result, err = Propose(c, from, cmd)
		}
		if err != nil {
			return Explain(c, d, err)
		}
		from.Charged = true // a write that is proposed again is charged once
		if tries == maxProposals || !slices.ContainsFunc(result.Problems, func(p command.Problem) bool { return slices.Contains(again, p) }) {
			break
		}
		c.Release() // the newest view has what was changed
	}
	if result.Outcome != command.OutcomeRejected {
		return answerWrite(c, d, &result)
	}
	if err := rejected(c, &result); err != nil {
		return Explain(c, d, err)
	}
	view := c.NewestView()
	d.Shared().Reason = Reject(d, view, result.Problems)
	return Invalid(c, d, view)
}

// Propose replicates a command. Errors: *Unavailable, *RateLimited, or an internal error of the backend.
func Propose(c *op.Call, from command.Sender, cmd command.Payload) (command.Result, error) {
	result, index, err := c.Env.Backend.Propose(trace.With(c.Env.Writes, c.Trace), from, cmd)
	switch {
	case err != nil:
		return result, err
	case result.Outcome == command.OutcomeDropped:
		return result, &command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: "the write was answered elsewhere"}
	}
	c.Index = index
	return result, nil
}

// ReadBack returns a view that holds the write.
func ReadBack(c *op.Call) (*view.View, error) {
	view := c.NewestView()
	if view.Index() < c.Index {
		return nil, fmt.Errorf("the backend answered index %d ahead of its view at %d", c.Index, view.Index())
	}
	return view, nil
}

// answerWrite answers with the result of a write.
func answerWrite(c *op.Call, d Draft, r *command.Result) error {
	view, err := ReadBack(c)
	if err != nil {
		return err
	}
	return d.Answer(c, view, r)
}

// Written is the item of a write.
type Written struct {
	Location string
	Before   string      // describes it in a note if the request_id wrote it before
	Shown    wire.Object // its members
}

// Answer answers a write with its item: 201 if it is new, 200 if its request_id wrote it before.
func Answer(c *op.Call, f *Form, view *view.View, r *command.Result, w *Written) error {
	status := http.StatusCreated
	if r.Outcome == command.OutcomeDuplicate {
		status = http.StatusOK
		sent := FieldRequestID.Name
		if f.Doc.MessageID != "" {
			sent = "messageId"
		}
		note := "This " + sent + " was used before"
		if r.Differs {
			note += " with other content: this is " + w.Before + ", and nothing new was written."
		} else {
			note += ": this is " + w.Before + "."
		}
		f.Notes = append(f.Notes, note)
		c.Charge()
	} else if err := f.noteName(view, c.Admission.Standing); err != nil {
		return err
	}
	c.Out.Set(op.HeaderLocation, w.Location)
	answer := append(wire.Object{{"notes", wire.NonNil(f.Notes)}}, w.Shown...)
	return c.AnswerObject(status, answer.With("duplicate", status == http.StatusOK))
}

// messageScope keeps the keys made of messageIds apart from request_ids: no scope
// of these holds a slash.
const messageScope = "a2a/"
