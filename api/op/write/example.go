package write

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// ExampleName is the name of the client in examples.
const ExampleName = "your-name"

// placeholder returns a value of the right form in place of one that only the client knows.
func (field *Field) placeholder() any {
	noun := cmp.Or(field.Noun, strings.ReplaceAll(field.Name, "_", " "))
	switch {
	case field.Like != nil:
		return field.Like
	case field.Refers != 0 && field.Items > 0:
		return []string{state.FormatID(field.Refers, 1)}
	case field.Refers != 0:
		return state.FormatID(field.Refers, 1)
	case field.Items > 0:
		return []string{"your-" + noun}
	case field.Least == 0:
		return fmt.Sprintf("Your %s, at most %d characters.", noun, field.Most)
	}
	return fmt.Sprintf("Your %s, %d to %d characters.", noun, field.Least, field.Most)
}

// Example is an example of a write, while it is made.
type Example struct {
	View *view.View // nil: the state is not looked at
	now  time.Time
	// fields are those of the body, open the names of those that the client has to replace:
	// then the example is a dry run.
	fields wire.Object
	open   []string
	// tried is how often each field was corrected.
	tried map[string]int
	// another is set if the example is not the corrected request.
	another bool
}

// maxRepairs bounds how often an example is checked and corrected again: a placeholder may
// break another rule, such as one that joins two fields.
const maxRepairs = 8

// ExampleOf returns the caller's own request, corrected, and notes about it. Values that only
// the client can correct become placeholders, and the example a dry run, so that no
// placeholder is published. The example is read and checked like a request. If the request
// cannot be repaired, the example is a write of the same kind with placeholders only, or
// empty unless it is needed. It never holds an edit_key.
func ExampleOf(d Draft, view *view.View, now time.Time, needed bool) (wire.Object, []string, error) {
	f := d.Shared()
	e := &Example{View: view, now: now, fields: f.values, tried: map[string]int{}}
	if f.Problems.Any() {
		repaired, err := e.repair(d)
		if err == nil && !repaired && !needed {
			return nil, nil, nil
		}
		if err == nil && !repaired {
			e.fields, e.open, e.another = nil, nil, true
			clear(e.tried)
			blank, errBlank := e.reread(d, f.Body.Blank, false)
			if err = errBlank; err == nil {
				_, err = e.repair(blank)
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("make an example: %w", err)
		}
	}
	o, notes := e.finish(f)
	return o, notes, nil
}

// finish returns the whole example, and a note about the placeholders.
func (e *Example) finish(f *Form) (wire.Object, []string) {
	var notes []string
	o := slices.Clone(e.fields)
	key, _ := f.Doc.Get(FieldEditKey.Name).(string)
	keyInBody := !f.Body.InURL && !f.Problems.Has(FieldEditKey.Name) && strings.TrimSpace(key) != ""
	keyOfHeader := f.Body.InURL && slices.Contains(e.open, FieldEditKey.Name)
	switch open := slices.DeleteFunc(e.open, func(name string) bool {
		return name == FieldDryRun.Name || keyOfHeader && name == FieldEditKey.Name
	}); {
	case len(open) > 0:
		begins := "The example is a dry run"
		if e.another {
			begins = "The example is another request, because yours cannot be corrected, and a dry run"
		}
		notes = []string{begins + ": replace " + joined(open) + ", then leave out dry_run."}
		fallthrough
	case f.DryRun, len(e.open) > 0:
		o = o.Replace(FieldDryRun.Name, true)
	}
	if keyOfHeader {
		notes = append(notes, "The example is a dry run without your key, which is never in a URL: send it "+op.KeyInHeader+", then leave out dry_run.")
	}
	if !o.Has(FieldEditKey.Name) && (keyInBody || f.Body.NeedsKey && len(f.Author.Proof.Key) == 0) {
		notes = append(notes, wire.KeyLeftOut)
	}
	if f.Body.Wrap != nil {
		o = f.Body.Wrap(o)
	}
	return o, notes
}

// joined lists names in a sentence.
func joined(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// repair corrects a draft with problems until the fields of the example have no
// problem. It reports whether it succeeded.
func (e *Example) repair(d Draft) (bool, error) {
	for range maxRepairs {
		f := d.Shared()
		if err := e.correct(d, f); err != nil {
			return false, err
		}
		again, err := e.reread(d, e.fields, f.DryRun || len(e.open) > 0)
		if err != nil {
			return false, err
		}
		if d = again; !d.Shared().Problems.Any() {
			return true, nil
		}
	}
	return false, nil
}

// correct makes the next fields of the example from a draft: the values that were read, the fields
// with problems corrected, and placeholders for those that only the client can supply.
func (e *Example) correct(d Draft, f *Form) error {
	e.fields = slices.Clone(f.values)
	for _, name := range f.unsure {
		e.Ask(name)
		if field := f.Body.field(name); field != nil && !field.Secret && !f.Problems.Has(name) && !e.fields.Has(name) {
			if err := e.supply(d, f, field, ""); err != nil {
				return err
			}
		}
	}
	corrected := map[string]bool{}
	for _, issue := range f.Problems.List {
		if field := f.Body.field(issue.Field); field != nil && !corrected[field.Name] {
			corrected[field.Name] = true
			if err := e.mend(d, f, field); err != nil {
				return err
			}
		}
	}
	return nil
}

// The ways to correct a field, in turn.
const (
	mendKeep   = iota // a corrected value, or the entry that an id may mean
	mendSupply        // a placeholder
	mendLeave         // nothing, unless the field is required
)

// mend corrects a field with a problem. Each attempt changes more.
func (e *Example) mend(d Draft, f *Form, field *Field) error {
	turn, at := e.tried[field.Name], e.fields.Index(field.Name)
	if turn == mendKeep && at < 0 {
		turn = mendSupply
	}
	e.tried[field.Name] = turn + 1
	switch {
	case field.Name == FieldRequestID.Name:
		e.fields = e.fields.Replace(field.Name, freshID(e.now, f.Author.Agent))
	case field.Name == FieldDryRun.Name:
		e.Ask(field.Name)
	case field.Name == FieldEditKey.Name && f.takesPlaceholder():
		e.Ask(field.Name)
		name := any(ExampleName)
		if at := e.fields.Index(f.Body.Signed); at >= 0 {
			name = e.fields[at].Value
		}
		e.fields = e.fields.Replace(field.Name, fmt.Sprint(keyOf, name))
	case field.Secret, turn == mendSupply && field.Derived:
	case turn == mendKeep:
		if sent, isText := e.fields[at].Value.(string); isText && field.Refers != 0 {
			return e.supply(d, f, field, sent)
		}
	case turn >= mendLeave && !field.Required:
		e.fields = slices.DeleteFunc(e.fields, func(m wire.Field) bool { return m.Name == field.Name })
	default:
		return e.supply(d, f, field, "")
	}
	return nil
}

// supply puts into the example what the state knows for a field, or a placeholder: for a reference
// the entry that the sent id may mean, or the newest one, and for the author a name that is free.
func (e *Example) supply(d Draft, f *Form, field *Field, sent string) (err error) {
	found, sure := wire.Object{{field.Name, field.placeholder()}}, false
	switch {
	case e.View == nil:
	case field.Name == f.Body.Signed:
		found[0].Value, err = e.freeName()
	case field.Refers != 0:
		known, isSure, errKnown := d.Suggest(e.View, field, sent)
		if err = errKnown; known != nil { // else the placeholder shows the form
			found, sure = known, isSure && e.tried[field.Name] <= mendSupply
		}
	}
	if !sure {
		e.tried[field.Name] = mendLeave
		e.Ask(field.Name)
	}
	if len(found) > 1 {
		e.Ask(found[1].Name)
		e.fields = found
	} else {
		e.fields = e.fields.Replace(field.Name, found[0].Value)
	}
	return err
}

// Ask notes that the client has to replace a field.
func (e *Example) Ask(name string) {
	if !slices.Contains(e.open, name) {
		e.open = append(e.open, name)
	}
}

// reread reads the fields of an example as a request of the same client, and adds the
// problems that the state finds.
func (e *Example) reread(of Draft, fields wire.Object, dry bool) (Draft, error) {
	f := of.Shared()
	if dry {
		fields = append(slices.Clip(fields), wire.Field{FieldDryRun.Name, true})
	}
	sent, err := wire.ReadObject(fields.AppendJSON(nil))
	if err != nil {
		return nil, fmt.Errorf("read the example: %w", err)
	}
	d := f.reread(&wire.Document{Fields: sent, MessageID: f.Doc.MessageID})
	g := d.Shared()
	g.Author.Proof = f.Author.Proof
	g.Author.Proof.Looks = nil
	if g.Author.AgentKey != wire.Anonymous {
		g.Author.Proof.Looks = LooksOf(g.Author.Agent)
	}
	if e.View == nil {
		return d, nil
	}
	if g.keyIsPlaceholder() {
		g.Author.Proof.Key = nil
	}
	found, err := inspect(d, e.View)
	if err != nil {
		return nil, err
	}
	if slices.Contains(found, command.ProblemWrongKey) { // the example leaves the key out
		g.Author.Proof.Key = nil
	}
	if g.Body.NeedsKey {
		found = slices.DeleteFunc(found, func(p command.Problem) bool { return p == command.ProblemNoKey || p == command.ProblemWrongKey })
	}
	Reject(d, e.View, found)
	return d, nil
}

// Suggest returns the id that a reference may stand for, or that of the newest entry.
func (f *Form) Suggest(view *view.View, field *Field, sent string) (o wire.Object, sure bool, err error) {
	if field == nil {
		return nil, false, nil
	}
	if id, err := op.NearID(view, sent, field.Refers); err != nil || id != "" {
		return wire.Object{{field.Name, id}}, true, err
	}
	id, err := op.NewestEntry(view)
	switch {
	case err != nil || id == "":
		return nil, false, err
	case field.Items > 0:
		return wire.Object{{field.Name, []string{id}}}, false, nil
	}
	return wire.Object{{field.Name, id}}, false, nil
}

// freeName returns a name that differs from all registered names, also in looks.
func (e *Example) freeName() (string, error) {
	name := ExampleName
	by := command.Signature{AgentKey: name, Proof: &command.Proof{Looks: LooksOf(name)}}
	standing, err := e.View.Standing(by)
	if err != nil {
		return "", err
	}
	other, err := e.View.LookAlike(by)
	if standing.Registered || other != "" {
		name += "-" + strings.TrimPrefix(freshID(e.now), requestPrefix)
	}
	return name, err
}
