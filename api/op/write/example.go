package write

import (
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
	noun := field.Noun
	if noun == "" {
		noun = strings.ReplaceAll(field.Name, "_", " ")
	}
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

// Doubt is a reference to an entry that does not exist.
type Doubt = struct {
	Field, Value string
	Of           state.EntryType // the type of the entry
}

// Keep puts a value into the example.
func (f *Form) Keep(name string, value any) { f.kept = f.kept.Replace(name, value) }

// Unkeep takes a value out of the example.
func (f *Form) Unkeep(name string) {
	f.kept = slices.DeleteFunc(f.kept, func(m wire.Field) bool { return m.Name == name })
}

// Ask asks the client for a field: the example shows a placeholder.
func (f *Form) Ask(name string) { f.asked = append(f.asked, name) }

// Settle keeps a field that was sent and has no problem. One that has a problem is for
// the client to correct.
func (f *Form) Settle(field *Field, given bool, value any) {
	switch {
	case f.Problems.Has(field.Name):
		f.Ask(field.Name)
	case given:
		f.Keep(field.Name, value)
	}
}

// Example is an example of a write, while it is made.
type Example struct {
	View *view.View // nil: the state is not looked at
	now  time.Time
	// fields are those of the body, open the names of those that the client has to replace:
	// then the example is a dry run.
	fields wire.Object
	open   []string
	// another reports whether the example is not the request itself, corrected.
	another bool
}

// maxRepairs bounds how often an example is checked and corrected again: a placeholder may
// break another rule, such as one that joins two fields.
const maxRepairs = 6

// ExampleOf returns the caller's own request, corrected, and notes about it. Values that only
// the client can correct become placeholders, and the example a dry run, so that no
// placeholder is published. The example is read and checked like a request. If the request
// cannot be repaired, the example is a write of the same kind with placeholders only, or
// empty unless it is needed. It never holds an edit_key.
func ExampleOf(d Draft, view *view.View, now time.Time, needed bool) (wire.Object, []string, error) {
	f := d.Shared()
	e := &Example{View: view, now: now, fields: f.kept}
	if f.Problems.Any() {
		repaired, err := e.repair(d)
		if err == nil && !repaired && !needed {
			return nil, nil, nil
		}
		if err == nil && !repaired {
			e.fields, e.open, e.another = nil, nil, true
			blank, errBlank := e.reread(d, f.Blank, false)
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
	hasPlaceholder := o.Has(FieldEditKey.Name)
	keyMissing := f.NeedsKey && len(f.Author.Proof.Key) == 0 && !hasPlaceholder
	keyOfHeader := f.inURL && slices.Contains(e.open, FieldEditKey.Name)
	switch open := slices.DeleteFunc(e.open, func(name string) bool {
		return name == FieldDryRun.Name || (keyMissing || keyOfHeader) && name == FieldEditKey.Name
	}); {
	case len(open) > 0:
		begins := "The example is a dry run"
		if e.another {
			begins = "The example is another request, because yours cannot be corrected, and a dry run"
		}
		notes = []string{begins + ": replace " + joined(open) + ", then leave out dry_run."}
		fallthrough
	case f.Dry, len(e.open) > 0:
		o = o.Replace(FieldDryRun.Name, true)
	}
	if keyOfHeader {
		notes = append(notes, "The example is a dry run without your key, which is never in a URL: send it "+op.KeyInHeader+", then leave out dry_run.")
	}
	if keyMissing || f.keyInBody && !hasPlaceholder {
		notes = append(notes, wire.KeyLeftOut)
	}
	if f.Wrap != nil {
		o = f.Wrap(o)
	}
	return o, notes
}

// ReplaceNote is the note of an example of a read that holds a placeholder.
func ReplaceNote(names ...string) string { return "Replace " + joined(names) + " in the example." }

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
		again, err := e.reread(d, e.fields, f.Dry || len(e.open) > 0)
		if err != nil {
			return false, err
		}
		if d = again; !d.Shared().Problems.Any() {
			return true, nil
		}
	}
	return false, nil
}

// correct makes the next fields of the example from a draft: those that it keeps, and
// placeholders for those that it asks for. A field that breaks a rule although it was asked
// for before is left out, unless it is required.
func (e *Example) correct(d Draft, f *Form) error {
	e.fields = slices.Clone(f.kept)
	asked := slices.Clone(f.asked)
	for _, doubt := range f.Doubts {
		id, err := "", error(nil)
		if e.View != nil {
			id, err = d.Near(e.View, doubt)
		}
		if err != nil {
			return err
		}
		if id != "" {
			e.fields = e.fields.Replace(doubt.Field, id)
		} else {
			asked = append(asked, doubt.Field)
		}
	}
	if f.stale {
		e.fields = e.fields.Replace(FieldRequestID.Name, freshID(e.now, f.requestID.Value, f.Name.Value, f.Author.Agent))
	}
	for _, name := range f.Checked {
		e.Ask(name)
	}
	for _, name := range asked {
		if name == FieldEditKey.Name && f.takesPlaceholder() {
			agent := any(ExampleName)
			if at := e.fields.Index(f.signed); at >= 0 {
				agent = e.fields[at].Value
			}
			e.fields = e.fields.Replace(name, fmt.Sprint(keyOf, agent))
			e.Ask(name)
			continue
		}
		if name == FieldEditKey.Name && !f.NeedsKey { // a name that needs no key
			name = f.signed
		}
		before := e.Ask(name)
		at := slices.IndexFunc(f.fields, func(field Field) bool { return field.Name == name })
		switch {
		case at < 0, name == FieldDryRun.Name, name == FieldEditKey.Name:
		case before && !f.fields[at].Required:
			e.fields = slices.DeleteFunc(e.fields, func(m wire.Field) bool { return m.Name == name })
		default:
			var err error
			if e.fields, err = d.Fill(e, &f.fields[at], e.fields); err != nil {
				return err
			}
		}
	}
	return nil
}

// Ask notes that the client has to replace a field. It reports whether it has to already.
func (e *Example) Ask(name string) bool {
	if slices.Contains(e.open, name) {
		return true
	}
	e.open = append(e.open, name)
	return false
}

// reread reads the fields of an example as a request of the same client, and adds the
// problems that the state finds.
func (e *Example) reread(of Draft, fields wire.Object, dry bool) (Draft, error) {
	f := of.Shared()
	doc := wire.Document{MessageID: f.Doc.MessageID}
	for _, m := range fields {
		doc.Fields = append(doc.Fields, wire.Field{m.Name, AsSent(m.Value)})
	}
	if dry {
		doc.Fields = append(doc.Fields, wire.Field{FieldDryRun.Name, true})
	}
	d := f.Reread(&doc)
	g := d.Shared()
	g.Author.Proof = f.Author.Proof
	g.Author.Proof.Looks = nil
	if g.Author.AgentKey != wire.Anonymous {
		g.Author.Proof.Looks = LooksOf(g.Author.Agent)
	}
	if e.View == nil {
		return d, nil
	}
	if g.keyOpen {
		g.Author.Proof.Key = nil
	}
	found, err := inspect(d, e.View)
	if err != nil {
		return nil, err
	}
	if slices.Contains(found, command.ProblemWrongKey) { // the example leaves the key out
		g.Author.Proof.Key = nil
	}
	if g.NeedsKey {
		found = slices.DeleteFunc(found, func(p command.Problem) bool { return p == command.ProblemNoKey || p == command.ProblemWrongKey })
	}
	Reject(d, e.View, found)
	return d, nil
}

// AsSent returns a value of an example as a decoder of JSON returns it.
func AsSent(value any) any {
	switch value := value.(type) {
	case []string:
		list := make([]any, len(value))
		for i := range value {
			list[i] = value[i]
		}
		return list
	case wire.Object:
		members := make(map[string]any, len(value))
		for _, m := range value {
			members[m.Name] = AsSent(m.Value)
		}
		return members
	}
	return value
}

// Known implements Draft for drafts without an example in the state.
func (f *Form) Known(*view.View) (wire.Object, error) { return nil, nil }

// Near returns the id that a reference stands for, or an empty string.
func (f *Form) Near(view *view.View, d Doubt) (string, error) { return op.NearID(view, d.Value, d.Of) }

// Fill puts a placeholder into an example: for a reference the newest entry's id, for the
// author a name that is free.
func (f *Form) Fill(e *Example, field *Field, o wire.Object) (wire.Object, error) {
	value := field.placeholder()
	if e.View == nil {
		return o.Replace(field.Name, value), nil
	}
	if field.Name == f.signed {
		name, err := e.freeName()
		return o.Replace(field.Name, name), err
	}
	if field.Refers == 0 {
		return o.Replace(field.Name, value), nil
	}
	id, err := op.NewestEntry(e.View)
	switch {
	case id == "": // the service is empty: the placeholder shows the form
	case field.Items > 0:
		value = []string{id}
	default:
		value = id
	}
	return o.Replace(field.Name, value), err
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
